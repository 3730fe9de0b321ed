"""Entries that an author gives, as a manifest, with a validator's checks.

Pure: writes nothing.
"""

from __future__ import annotations

import base64
import itertools
import json
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from zarr_manifest.errors import (
    InvalidChunkKeyError,
    InvalidEntryError,
)
from zarr_manifest.format import (
    Configuration,
    Entry,
    Limits,
    canonical_indices,
    format_canonical,
    grid_indices,
    number_chunks,
    strict,
)
from zarr_manifest.hierarchy import (
    DeclaredArray,
    interpret_document_of,
    interpret_paths,
)
from zarr_manifest.manifest import (
    EMPTY,
    TO_THE_END,
    Columns,
    JoinedReferences,
    Manifest,
    PathNumbers,
    References,
    references_of,
)

type ChunkName = str | tuple[int, ...]

type Entries = (
    Manifest
    | Mapping[str, Mapping[str, Any]]
    | Mapping[tuple[int, ...], Mapping[str, Any]]
    | Iterable[tuple[ChunkName, Mapping[str, Any]]]
)

# Number of entries put into columns together.
_BATCH_SIZE = 2**14

_UNLIMITED = Limits(*[2**62] * len(Limits.__struct_fields__))

_MEMBERS = frozenset(Entry.__struct_fields__)


def interpret_entries(array: DeclaredArray, entries: Entries) -> References:
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
            strict(interpret_paths(references, array.base))
            return references
        return _interpret_document(array, entries.dumps())
    columns, pairs = EntryColumns(array.chunk_grid.counts), _pairs(entries)
    while batch := list(itertools.islice(pairs, _BATCH_SIZE)):
        if columns.take(batch):
            continue
        usual = [pair for pair in batch if columns.may_take(pair[1])]
        if 0 < len(usual) < len(batch) and columns.take(usual):
            batch = [pair for pair in batch if not columns.may_take(pair[1])]
        # Raises what is wrong with them.
        columns.joined.add_references(_interpret_as_document(array, batch))
    found = columns.joined.references(array.chunk_grid.counts)
    if found is None:
        index = grid_indices(array.chunk_grid.counts, np.array(columns.joined.repeated()[:1]))
        raise _repeated(format_canonical(index[0].tolist()))
    strict(interpret_paths(found, array.base))
    return found


def _interpret_document(array: DeclaredArray, document: bytes) -> References:
    configuration = Configuration(document, array.configuration.base)
    unencoded = replace(array, configuration=configuration, partitions=None, named=None)
    loaded = strict(interpret_document_of(unencoded, None, document, _UNLIMITED, validating=True))
    assert loaded is not None  # it has no problems
    return loaded.manifest


def _interpret_as_document(array: DeclaredArray, pairs: Iterable[Pair]) -> References:
    document = json.dumps(_by_key(pairs), default=_as_json).encode()
    return _interpret_document(array, document)


def _by_key(pairs: Iterable[Pair]) -> dict[str, dict[str, Any]]:
    by_key: dict[str, dict[str, Any]] = {}
    for chunk, entry in pairs:
        key = _key(chunk)
        if key in by_key:
            raise _repeated(key)
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


def _repeated(chunk: str) -> InvalidChunkKeyError:
    return InvalidChunkKeyError("two entries name this chunk", chunk=chunk)


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


# Columns: entries that are nothing but a path and a range, or empty, a batch at a time. What is
# taken is certainly valid, but for its paths; all others are left. -------------------------------

# A chunk, and its entry.
type Pair = tuple[Any, Any]

_LARGEST_INTEGER = 2**53 - 1

# The members of entries that can be taken, in any order, as they are in a mapping.
_USUAL_MEMBERS = frozenset(
    members
    for others in ((), ("offset",), ("length",), ("offset", "length"))
    for members in itertools.permutations(("path", *others))
) | {()}


class EntryColumns:
    """Takes entries of one array.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along each dimension.

    Attributes
    ----------
    joined : JoinedReferences
        What was taken so far.

    Examples
    --------
    >>> columns = EntryColumns((4,))
    >>> columns.take([((1,), {"path": "a"}), ((3,), {})]), len(columns.joined)
    (True, 2)
    >>> columns.take([((1,), {"path": "a", "etag": '"1"'})])
    False
    """

    def __init__(self, grid_shape: tuple[int, ...]) -> None:
        self._grid_shape = grid_shape
        self._paths = PathNumbers()
        self.joined = JoinedReferences(self._paths)

    def may_take(self, entry: Any) -> bool:
        """Whether an entry has no other members, though their values may be anything."""
        return set(map(type, [entry])) == {dict} and tuple(entry) in _USUAL_MEMBERS

    def take(self, pairs: Sequence[Pair]) -> bool:
        """Take entries, unless one of them may be invalid, or have other members."""
        entries: list[Any] = [entry for _, entry in pairs]
        if set(map(type, entries)) != {dict}:
            return False
        shapes = Counter[tuple[Any, ...]](map(tuple, entries))
        if not shapes.keys() <= _USUAL_MEMBERS:
            return False
        numbers = self._numbers([chunk for chunk, _ in pairs])
        offsets = _integers(_members(entries, shapes, "offset", 0), 0)
        lengths = _integers(_members(entries, shapes, "length", TO_THE_END), TO_THE_END)
        path_numbers = self._path_numbers(_members(entries, shapes, "path", ""), shapes.get((), 0))
        if numbers is None or offsets is None or lengths is None or path_numbers is None:
            return False
        # Unlike what is absent, a length that is given is not 0 or less.
        without_length = sum(count for shape, count in shapes.items() if "length" not in shape)
        too_large = offsets + np.maximum(lengths, 0) > _LARGEST_INTEGER
        if np.count_nonzero(lengths < 1) != without_length or too_large.any():
            return False
        self.joined.add(Columns(numbers, offsets, lengths, path_numbers))
        return True

    def _numbers(self, chunks: list[Any]) -> npt.NDArray[np.int64] | None:
        """Return the numbers of chunks, given by index or by key."""
        kinds, ndim = set(map(type, chunks)), len(self._grid_shape)
        if kinds == {str}:
            indices = canonical_indices(chunks, ndim)
        elif kinds == {tuple} and set(map(len, chunks)) == {ndim}:
            flat = _integers([*itertools.chain.from_iterable(chunks)], 0) if ndim else None
            indices = None if flat is None else flat.reshape(-1, ndim)
        else:
            return None
        if indices is None or (indices >= np.array(self._grid_shape)).any():
            return None
        return number_chunks(indices, self._grid_shape)

    def _path_numbers(self, paths: list[Any], absent: int) -> npt.NDArray[np.int32] | None:
        """Return the numbers of paths; of those that are absent, which are empty, that of none."""
        if set(map(type, paths)) != {str} or paths.count("") != absent:
            return None
        known = len(self._paths)
        if absent:
            numbers = [self._paths[path] if path else EMPTY for path in paths]
        else:
            numbers = list(map(self._paths.__getitem__, paths))
        try:
            "".join(itertools.islice(self._paths, known, None)).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return None
        return np.array(numbers, np.int32)


def _members(
    entries: Sequence[Any], shapes: Iterable[tuple[Any, ...]], name: str, default: Any
) -> list[Any]:
    if all(name in shape for shape in shapes):
        return list(map(operator.itemgetter(name), entries))
    return [entry.get(name, default) for entry in entries]


def _integers(values: list[Any], least: int) -> npt.NDArray[np.int64] | None:
    """Return integers as a column; None if some of them are something else, or too small."""
    kinds = set(map(type, values))
    if not all(kind is int or issubclass(kind, np.integer) for kind in kinds):
        return None
    try:
        column = np.array(values, np.int64)
    except OverflowError:
        return None
    return column if int(column.min()) >= least else None
