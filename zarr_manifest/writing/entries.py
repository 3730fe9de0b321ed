"""Entries given by an author -> a manifest, checked as by a validator, and its documents.

Pure: writes nothing.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, SupportsIndex, cast

from zarr_manifest.errors import (
    Advice,
    InvalidChunkKeyError,
    InvalidEntryError,
    InvalidPathError,
    LimitExceededError,
    Setting,
)
from zarr_manifest.format import (
    Configuration,
    Entry,
    Limits,
    Partitions,
    encode_body,
    format_canonical,
    needs_every_document,
    strict,
)
from zarr_manifest.hierarchy import (
    DeclaredArray,
    Partition,
    interpret_document_of,
)
from zarr_manifest.manifest import Manifest, ReferenceTable, references_of

__all__ = [
    "Entries",
    "empty_document",
    "encode_manifest",
    "encode_parts",
    "interpret_entries",
    "partitions_to_fill",
]

type Chunk = str | tuple[int, ...]

type Entries = (
    Manifest
    | Mapping[str, Mapping[str, Any]]
    | Mapping[tuple[int, ...], Mapping[str, Any]]
    | Iterable[tuple[Chunk, Mapping[str, Any]]]
)

_UNLIMITED = Limits(*[2**62] * len(dataclasses.fields(Limits)))

_MEMBERS = frozenset(Entry.__struct_fields__)


def interpret_entries(array: DeclaredArray, entries: Entries) -> ReferenceTable:
    """Return entries as a manifest of the array.

    Raises
    ------
    ManifestError
        If a validator would report a problem.
    """
    if isinstance(entries, Manifest):
        if entries.grid_shape == array.chunk_grid.counts:
            references = references_of(entries)
            _require_paths(array, references)
            return references
        document = entries.dumps()
    else:
        document = json.dumps(_by_key(entries), default=_as_json).encode()
    plain = DeclaredArray(
        array.path,
        array.metadata,
        Configuration(document, array.configuration.base),
        array.encoding,
        array.chunk_grid,
        None,
        array.base,
    )
    loaded = strict(interpret_document_of(plain, None, document, _UNLIMITED, validating=True))
    assert loaded is not None  # it has no problems
    return loaded.manifest


def _require_paths(array: DeclaredArray, manifest: ReferenceTable) -> None:
    """Check that the manifest's paths resolve, which a manifest alone cannot check."""
    for number, path in enumerate(manifest.paths):
        try:
            array.base.resolve(path)
        except InvalidPathError as error:
            index = next(manifest.with_path(number))
            raise error.in_context(chunk=format_canonical(index)) from None


def _by_key(entries: Any) -> dict[str, dict[str, Any]]:
    by_key: dict[str, dict[str, Any]] = {}
    for chunk, entry in _pairs(entries):
        key = _key(chunk)
        if key in by_key:
            raise InvalidChunkKeyError("two entries name this chunk", chunk=key)
        if not isinstance(entry, Mapping):
            raise InvalidEntryError(
                f"an entry must be a mapping, such as {{'path': 'f.nc'}}, not {entry!r}", chunk=key
            )
        members = cast("Mapping[str, Any]", entry)
        unknown = sorted(str(name) for name in set(members) - _MEMBERS)
        if unknown:
            raise InvalidEntryError(
                f"the entry has an unknown member {unknown[0]!r}",
                chunk=key,
                remedy=f"Known members: {', '.join(sorted(_MEMBERS))}.",
            )
        by_key[key] = dict(members)
    return by_key


def _pairs(entries: Any) -> Iterator[tuple[object, object]]:
    """Yield pairs of chunk and entry, from a mapping or an iterable of pairs."""
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise TypeError(f"entries must be a Manifest, a mapping or pairs, not {entries!r:.80}")
    if isinstance(entries, Mapping):
        yield from cast("Mapping[object, object]", entries).items()
        return
    for pair in cast("Iterable[object]", entries):
        if not isinstance(pair, tuple) or len(cast("tuple[object, ...]", pair)) != 2:
            raise TypeError(f"entries must be pairs of chunk and entry, not {pair!r:.80}")
        yield cast("tuple[object, object]", pair)


def _key(chunk: Any) -> str:
    if isinstance(chunk, str):
        return chunk
    try:
        return format_canonical([operator.index(i) for i in chunk])
    except TypeError:
        raise InvalidChunkKeyError(
            "a chunk must be given by its key, such as '0.0', or by its index in the chunk grid, "
            f"such as (0, 0), not by {chunk!r}"
        ) from None


def _as_json(value: object) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, SupportsIndex):
        return operator.index(value)  # a NumPy integer
    raise TypeError(f"an entry cannot have a value of type {type(value).__name__}")


def encode_parts(array: DeclaredArray, manifest: ReferenceTable) -> dict[Partition, bytes]:
    """Return the documents of a manifest as stored.

    The first partition always has a document, even without entries: concurrent writers
    compete to create it. If very many others have entries, so have all: see
    :func:`partitions_to_fill`.

    Raises
    ------
    LimitExceededError
        If a reader with the default limits could not read one of them.
    """
    if array.partitions is None:
        return {None: encode_manifest(array, manifest)}
    nothing = empty_document(array)
    bodies: dict[Partition, bytes] = {(0,) * array.ndim: nothing}
    for index, part in manifest.blocks(array.partitions.shape):
        bodies[index] = encode_manifest(array, part)
    bodies.update(dict.fromkeys([*partitions_to_fill(array.partitions, bodies)], nothing))
    return bodies


def partitions_to_fill(
    partitions: Partitions, written: Collection[Partition]
) -> Iterator[tuple[int, ...]]:
    """Return the partitions without entries that should have a document all the same.

    The declaration can then say that all have one, instead of a very long list.
    """
    if not needs_every_document(partitions, len(written)):
        return iter(())
    done = frozenset(written)
    return (index for index in partitions if index not in done)


def empty_document(array: DeclaredArray) -> bytes:
    """Return a document without entries as stored."""
    return encode_body(array.configuration.codecs, b"{}\n")


def encode_manifest(array: DeclaredArray, manifest: ReferenceTable) -> bytes:
    """Return one document as stored.

    Raises
    ------
    LimitExceededError
        If a reader with the default limits could not read it.
    """
    limits = Limits()
    document = manifest.dumps()
    for number, limit, unit in (
        (len(document), limits.manifest_bytes, "bytes"),
        (len(manifest), limits.entries, "entries"),
        (manifest.inline_bytes, limits.inline_bytes, "inline bytes"),
    ):
        if number > limit:
            raise LimitExceededError(
                f"the manifest has {number} {unit}, but readers have a limit of {limit}",
                remedy=Advice("Split it: ", Setting("partition_shape"), ", or smaller partitions."),
            )
    return encode_body(array.configuration.codecs, document)
