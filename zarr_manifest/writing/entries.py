"""Entries given by an author -> a manifest, checked as by a validator.

Pure: writes nothing.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, SupportsIndex, cast

from zarr_manifest.errors import (
    InvalidChunkKeyError,
    InvalidEntryError,
    InvalidPathError,
)
from zarr_manifest.format import (
    Configuration,
    Entry,
    Limits,
    format_canonical,
    strict,
)
from zarr_manifest.hierarchy import (
    DeclaredArray,
    interpret_document_of,
)
from zarr_manifest.manifest import Manifest, ReferenceTable, references_of

__all__ = ["Entries", "interpret_entries"]

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
