"""Entries given one by one -> columns, a batch at a time. Pure.

Takes entries that are nothing but a path and a range, or empty, and leaves all others. Reports no
problems: what it takes is certainly valid, but for its paths.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from zarr_manifest.format import grid_indices, number_chunks
from zarr_manifest.manifest import (
    EMPTY,
    INLINE,
    TO_THE_END,
    Extras,
    References,
    canonical_indices,
)

__all__ = ["CollectedColumns", "EntryColumns", "Pair", "PlainEntries"]

# A chunk, and its entry.
type Pair = tuple[Any, Any]

_LARGEST_INTEGER = 2**53 - 1

# The members of entries that can be taken, in any order, as they are in a mapping.
_PLAIN = frozenset(
    members
    for others in ((), ("offset",), ("length",), ("offset", "length"))
    for members in itertools.permutations(("path", *others))
) | {()}


class EntryColumns(NamedTuple):
    """Entries as columns, in the order in which they were given.

    Attributes
    ----------
    numbers, offsets, lengths, path_numbers : ndarray
        As in :class:`zarr_manifest.manifest.Columns`.
    shapes : tuple of tuple of str
        Which members entries have, in which order.
    shape_numbers : ndarray of uint8
        Index of each row's shape; empty if all have the same.
    """

    numbers: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path_numbers: npt.NDArray[np.int32]
    shapes: tuple[tuple[str, ...], ...] = ()
    shape_numbers: npt.NDArray[np.uint8] = np.empty(0, np.uint8)


class PlainEntries:
    """Takes entries of one array.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along each dimension.

    Attributes
    ----------
    paths : dict of str to int
        The number of every path so far.

    Examples
    --------
    >>> plain = PlainEntries((4,))
    >>> plain.take([((1,), {"path": "a"}), ((3,), {})]).numbers
    array([1, 3])
    >>> plain.take([((1,), {"path": "a", "etag": '"1"'})]) is None
    True
    """

    def __init__(self, grid_shape: tuple[int, ...]) -> None:
        self._grid_shape = grid_shape
        self.paths = defaultdict[str, int]()
        self.paths.default_factory = self.paths.__len__

    def may_take(self, entry: Any) -> bool:
        """Whether an entry has no other members, though their values may be anything."""
        return set(map(type, [entry])) == {dict} and tuple(entry) in _PLAIN

    def take(self, pairs: Sequence[Pair]) -> EntryColumns | None:
        """Return entries as columns, or None if one of them may not be valid, or not plain."""
        entries: list[Any] = [entry for _, entry in pairs]
        if set(map(type, entries)) != {dict}:
            return None
        shapes = Counter[tuple[Any, ...]](map(tuple, entries))
        if not shapes.keys() <= _PLAIN:
            return None
        numbers = self._numbers([chunk for chunk, _ in pairs])
        offsets = _integers(_members(entries, shapes, "offset", 0), 0)
        lengths = _integers(_members(entries, shapes, "length", TO_THE_END), TO_THE_END)
        path_numbers = self._path_numbers(_members(entries, shapes, "path", ""), shapes.get((), 0))
        if numbers is None or offsets is None or lengths is None or path_numbers is None:
            return None
        # Unlike what is absent, a length that is given is not 0 or less.
        without_length = sum(count for shape, count in shapes.items() if "length" not in shape)
        too_large = offsets + np.maximum(lengths, 0) > _LARGEST_INTEGER
        if np.count_nonzero(lengths < 1) != without_length or too_large.any():
            return None
        numbered = {shape: number for number, shape in enumerate(shapes)}
        of_rows = [numbered[tuple(entry)] for entry in entries] if len(shapes) > 1 else []
        return EntryColumns(
            numbers, offsets, lengths, path_numbers, tuple(shapes), np.array(of_rows, np.uint8)
        )

    def give_back(self, columns: EntryColumns) -> Iterator[Pair]:
        """Yield entries like those that were taken."""
        indices: list[list[int]] = grid_indices(self._grid_shape, columns.numbers).tolist()
        names, (every, *_) = [*self.paths, ""], columns.shapes
        numbers: list[int] = columns.shape_numbers.tolist()
        shapes = [columns.shapes[number] for number in numbers] or [every] * len(indices)
        values: list[list[int]] = [
            column.tolist() for column in (columns.offsets, columns.lengths, columns.path_numbers)
        ]
        rows = zip(indices, shapes, *values, strict=True)
        for index, shape, offset, length, number in rows:
            entry: dict[str, Any] = {
                "path": names[max(number, -1)],
                "offset": offset,
                "length": length,
            }
            yield tuple(index), {name: entry[name] for name in shape}

    def _numbers(self, chunks: list[Any]) -> npt.NDArray[np.int64] | None:
        """Return the C-order numbers of chunks, given by index or by key."""
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
        known = len(self.paths)
        if absent:
            numbers = [self.paths[path] if path else EMPTY for path in paths]
        else:
            numbers = list(map(self.paths.__getitem__, paths))
        try:
            "".join(itertools.islice(self.paths, known, None)).encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return None
        return np.array(numbers, np.int32)


def _members(
    entries: Sequence[Any], shapes: Iterable[tuple[Any, ...]], name: str, default: Any
) -> list[Any]:
    if all(name in shape for shape in shapes):
        return list(map(operator.itemgetter(name), entries))
    return [entry.get(name, default) for entry in entries]


class CollectedColumns:
    """Puts columns together, and what is kept aside.

    Parameters
    ----------
    paths : dict of str to int
        The number of every path, which all columns share.
    """

    def __init__(self, paths: dict[str, int]) -> None:
        self._paths = paths
        self._parts: list[EntryColumns] = []
        self._extras: dict[int, Extras] = {}
        self._count = 0

    def add(self, columns: EntryColumns) -> None:
        """Add rows."""
        self._parts.append(columns)
        self._count += len(columns.numbers)

    def add_table(self, table: References) -> None:
        """Add rows that may have more than a path and a range."""
        for extra, rows in table.extras():
            self._extras.update(dict.fromkeys([self._count + row for row in rows], extra))
        numbers, offsets, lengths, path_numbers = table.columns()
        # Rows without a path have negative numbers, which index from the end.
        own = [self._paths[path] for path in table.paths]
        renumbered = np.array([*own, EMPTY, INLINE], np.int32)[path_numbers]
        self.add(EntryColumns(numbers, offsets, lengths, renumbered))

    def table(self, grid_shape: tuple[int, ...]) -> References | None:
        """Return all rows, in C order of the chunks; None if two are of the same chunk."""
        none = np.empty(0, np.int64)
        parts = self._parts or [EntryColumns(none, none, none, none.astype(np.int32))]
        numbers = np.concatenate([part.numbers for part in parts])
        offsets = np.concatenate([part.offsets for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        path_numbers = np.concatenate([part.path_numbers for part in parts])
        extras = self._extras
        if not (numbers[1:] > numbers[:-1]).all():
            order = np.argsort(numbers, kind="stable")
            numbers = numbers[order]
            if (numbers[1:] == numbers[:-1]).any():
                return None
            offsets, lengths, path_numbers = offsets[order], lengths[order], path_numbers[order]
            if extras:
                rows: list[int] = order.tolist()
                extras = {place: extras[row] for place, row in enumerate(rows) if row in extras}
        paths = tuple(self._paths)
        return References(grid_shape, numbers, offsets, lengths, path_numbers, paths, extras)


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
