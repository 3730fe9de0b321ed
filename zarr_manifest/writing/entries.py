"""Entries given by an author -> a manifest, checked as by a validator.

Pure: writes nothing.
"""

from __future__ import annotations

import base64
import itertools
import json
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, SupportsIndex, cast

from zarr_manifest.errors import (
    InvalidChunkKeyError,
    InvalidEntryError,
    InvalidPathError,
    ManifestError,
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
from zarr_manifest.manifest import Manifest, References, references_of
from zarr_manifest.writing.entry_columns import (
    Pair,
    PlainEntries,
    TakenEntries,
)

__all__ = ["Entries", "interpret_entries"]

type Chunk = str | tuple[int, ...]

type Entries = (
    Manifest
    | Mapping[str, Mapping[str, Any]]
    | Mapping[tuple[int, ...], Mapping[str, Any]]
    | Iterable[tuple[Chunk, Mapping[str, Any]]]
)

# Number of entries put into columns together.
_AT_ONCE = 2**14

_UNLIMITED = Limits(*[2**62] * len(Limits.__struct_fields__))

_MEMBERS = frozenset(Entry.__struct_fields__)


def interpret_entries(
    array: DeclaredArray, entries: Entries, *, at_once: int = _AT_ONCE
) -> References:
    """Return entries as a manifest of the array.

    Raises
    ------
    ManifestError
        If a validator would report a problem.
    TypeError
        If they are not entries at all.
    """
    if isinstance(entries, Manifest):
        if entries.grid_shape == array.chunk_grid.counts:
            references = references_of(entries)
            _require_paths(array, references)
            return references
        return _interpret_document(array, entries.dumps())
    return _interpret_pairs(array, _pairs(entries), at_once)


def _interpret_document(array: DeclaredArray, document: bytes) -> References:
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


def _interpret_pairs(array: DeclaredArray, pairs: Iterator[Pair], at_once: int) -> References:
    """Return pairs of chunk and entry as a manifest, in columns as far as they are plain.

    If anything may be wrong with them, they are interpreted as one document, so that it does
    not depend on batches which problem is reported.
    """
    plain = PlainEntries(array.chunk_grid.counts)
    given: list[TakenEntries | list[Pair]] = []
    try:
        return _in_columns(array, _batches(pairs, given, at_once), plain, given)
    except _Doubt as doubt:
        error = doubt.__cause__
    again = (
        plain.give_back(batch) if isinstance(batch, TakenEntries) else batch for batch in given
    )
    return _interpret_as_document(array, itertools.chain(*again, _failing(error), pairs))


class _Doubt(Exception):
    """Something may be wrong with the entries; its cause is an error of whoever gives them."""


def _failing(error: BaseException | None) -> Iterator[Pair]:
    if error is not None:
        raise error
    yield from ()


def _interpret_as_document(array: DeclaredArray, pairs: Iterable[Pair]) -> References:
    document = json.dumps(_by_key(pairs), default=_as_json).encode()
    return _interpret_document(array, document)


def _in_columns(
    array: DeclaredArray,
    batches: Iterator[list[Pair]],
    plain: PlainEntries,
    given: list[TakenEntries | list[Pair]],
) -> References:
    """Return pairs of chunk and entry as a manifest; the last of those given may be replaced.

    Raises
    ------
    _Doubt
        Something may be wrong with them.
    """
    for batch in batches:
        taken = plain.take(batch)
        if taken is not None:
            given[-1] = taken
            continue
        usual = [pair for pair in batch if plain.may_take(pair[1])]
        taken = plain.take(usual) if usual else None
        others = batch if taken is None else [p for p in batch if not plain.may_take(p[1])]
        try:
            plain.joined.add_references(_interpret_as_document(array, others))
        except (ManifestError, TypeError, ValueError, RecursionError):
            raise _Doubt from None
    found = plain.joined.references(array.chunk_grid.counts)
    if found is None:
        raise _Doubt
    try:
        _require_paths(array, found)
    except InvalidPathError:
        raise _Doubt from None
    return found


def _batches(
    pairs: Iterator[Pair], given: list[TakenEntries | list[Pair]], at_once: int
) -> Iterator[list[Pair]]:
    """Yield pairs in batches, and note them as given, even if the next pair is an error."""
    while True:
        batch: list[Pair] = []
        given.append(batch)
        try:
            batch.extend(itertools.islice(pairs, at_once))
        except Exception as error:
            raise _Doubt from error
        if not batch:
            return
        yield batch


def _require_paths(array: DeclaredArray, manifest: References) -> None:
    """Check that the manifest's paths resolve, which a manifest alone cannot check."""
    for number, path in enumerate(manifest.paths):
        try:
            array.base.resolve(path)
        except InvalidPathError as error:
            index = next(manifest.indices_with_path(number))
            raise error.in_context(chunk=format_canonical(index)) from None


def _by_key(pairs: Iterable[Pair]) -> dict[str, dict[str, Any]]:
    by_key: dict[str, dict[str, Any]] = {}
    for chunk, entry in pairs:
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


def _pairs(entries: Any) -> Iterator[Pair]:
    """Return pairs of chunk and entry, from a mapping or an iterable of pairs."""
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise TypeError(f"entries must be a Manifest, a mapping or pairs, not {entries!r:.80}")
    if isinstance(entries, Mapping):
        return iter(cast("Mapping[object, object]", entries).items())
    return _checked_pairs(cast("Iterable[object]", entries))


def _checked_pairs(pairs: Iterable[object]) -> Iterator[Pair]:
    for pair in pairs:
        # Not cast, which is called for each of millions.
        if not isinstance(pair, tuple) or len(pair) != 2:  # pyright: ignore[reportUnknownArgumentType]
            raise TypeError(f"entries must be pairs of chunk and entry, not {pair!r:.80}")
        yield pair  # pyright: ignore[reportUnknownVariableType]


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
