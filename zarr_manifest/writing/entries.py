"""Entries of an author -> a manifest, checked as if a validator read it, and its documents.

Pure: nothing is written here.
"""

from __future__ import annotations

import base64
import json
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, SupportsIndex, cast

from zarr_manifest.errors import (
    Advice,
    InvalidChunkKeyError,
    InvalidEntryError,
    InvalidPathError,
    LimitExceededError,
    Setting,
)
from zarr_manifest.format import Configuration, Entry, Limits, encode_body, format_canonical, strict
from zarr_manifest.hierarchy import DeclaredArray, Partition, interpret_document_of
from zarr_manifest.manifest import Manifest, References, references_of

__all__ = ["Entries", "encode_manifest", "encode_parts", "interpret_entries"]

type Chunk = str | tuple[int, ...]

type Entries = (
    Manifest
    | Mapping[str, Mapping[str, Any]]
    | Mapping[tuple[int, ...], Mapping[str, Any]]
    | Iterable[tuple[Chunk, Mapping[str, Any]]]
)

_UNLIMITED = Limits(manifest_bytes=2**62, entries=2**62, inline_bytes=2**62)

_MEMBERS = frozenset(Entry.__struct_fields__)


def interpret_entries(array: DeclaredArray, entries: Entries) -> References:
    """Return entries as a manifest of the array.

    Raises
    ------
    ManifestError
        What a validator would report of them.
    """
    if isinstance(entries, Manifest):
        if array.chunk_grid is not None and entries.grid_shape == array.chunk_grid.counts:
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
    assert loaded is not None  # nothing is wrong with it
    return loaded.manifest


def _require_paths(array: DeclaredArray, manifest: References) -> None:
    """Check what a manifest by itself does not know: whether its paths lead anywhere."""
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
            raise InvalidChunkKeyError("the entries name this chunk twice", chunk=key)
        if not isinstance(entry, Mapping):
            raise InvalidEntryError(
                f"an entry is a mapping, such as {{'path': 'f.nc'}}, not {entry!r}", chunk=key
            )
        members = cast("Mapping[str, Any]", entry)
        unknown = sorted(str(name) for name in set(members) - _MEMBERS)
        if unknown:
            raise InvalidEntryError(
                f"the entry has an unknown member {unknown[0]!r}",
                chunk=key,
                remedy=f"Known are: {', '.join(sorted(_MEMBERS))}.",
            )
        by_key[key] = dict(members)
    return by_key


def _pairs(entries: Any) -> Iterator[tuple[object, object]]:
    """Yield chunks and entries, of a mapping or one by one."""
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise TypeError(f"entries are a Manifest, a mapping, or pairs, not {entries!r:.80}")
    if isinstance(entries, Mapping):
        yield from cast("Mapping[object, object]", entries).items()
        return
    for pair in cast("Iterable[object]", entries):
        if not isinstance(pair, tuple) or len(cast("tuple[object, ...]", pair)) != 2:
            raise TypeError(f"entries come as pairs of chunk and entry, not {pair!r:.80}")
        yield cast("tuple[object, object]", pair)


def _key(chunk: Any) -> str:
    if isinstance(chunk, str):
        return chunk
    try:
        return format_canonical([operator.index(i) for i in chunk])
    except TypeError:
        raise InvalidChunkKeyError(
            "a chunk is named by its key, such as '0.0', or by its index in the chunk grid, such "
            f"as (0, 0), not by {chunk!r}"
        ) from None


def _as_json(value: object) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, SupportsIndex):
        return operator.index(value)  # of numpy
    raise TypeError(f"an entry cannot have a value of type {type(value).__name__}")


def encode_parts(array: DeclaredArray, manifest: References) -> dict[Partition, bytes]:
    """Return the documents of a manifest as they are stored.

    That of the first partition is there even if it has no entries: it is what two
    writers contend for.

    Raises
    ------
    LimitExceededError
        A reader with the default limits could not read one of them.
    """
    if array.partitions is None:
        return {None: encode_manifest(array, manifest)}
    first = (0,) * array.ndim
    bodies: dict[Partition, bytes] = {first: encode_body(array.configuration.codecs, b"{}\n")}
    for index, part in manifest.blocks(array.partitions.shape):
        bodies[index] = encode_manifest(array, part)
    return bodies


def encode_manifest(array: DeclaredArray, manifest: References) -> bytes:
    """Return one document as it is stored.

    Raises
    ------
    LimitExceededError
        A reader with the default limits could not read it.
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
                f"the manifest has {number} {unit}, and readers have a limit of {limit}",
                remedy=Advice("Split it: ", Setting("partition_shape"), ", or smaller partitions."),
            )
    return encode_body(array.configuration.codecs, document)
