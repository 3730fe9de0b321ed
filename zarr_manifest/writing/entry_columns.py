"""Entries given one by one -> columns, a batch at a time. Pure.

Takes entries that are nothing but a path and a range, or empty, and leaves all others. Reports no
problems: what it takes is certainly valid, but for its paths.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from zarr_manifest.format import grid_indices, number_chunks
from zarr_manifest.manifest import (
    EMPTY,
    TO_THE_END,
    Columns,
    JoinedReferences,
    PathNumbers,
    canonical_indices,
)

__all__ = ["Pair", "PlainEntries", "TakenEntries"]

# A chunk, and its entry.
type Pair = tuple[Any, Any]

_LARGEST_INTEGER = 2**53 - 1

# The members of entries that can be taken, in any order, as they are in a mapping.
_PLAIN = frozenset(
    members
    for others in ((), ("offset",), ("length",), ("offset", "length"))
    for members in itertools.permutations(("path", *others))
) | {()}


class TakenEntries(NamedTuple):
    """Entries in the order in which they were given.

    Attributes
    ----------
    rows : slice
        Their rows among all that were taken.
    shapes : tuple of tuple of str
        Which members entries have, in which order.
    shape_numbers : ndarray of uint8
        Index of each row's shape; empty if all have the same.
    """

    rows: slice[int, int]
    shapes: tuple[tuple[str, ...], ...]
    shape_numbers: npt.NDArray[np.uint8]


class PlainEntries:
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
    >>> plain = PlainEntries((4,))
    >>> plain.take([((1,), {"path": "a"}), ((3,), {})]).rows
    slice(0, 2, None)
    >>> plain.take([((1,), {"path": "a", "etag": '"1"'})]) is None
    True
    """

    def __init__(self, grid_shape: tuple[int, ...]) -> None:
        self._grid_shape = grid_shape
        self._paths = PathNumbers()
        self.joined = JoinedReferences(self._paths)

    def may_take(self, entry: Any) -> bool:
        """Whether an entry has no other members, though their values may be anything."""
        return set(map(type, [entry])) == {dict} and tuple(entry) in _PLAIN

    def take(self, pairs: Sequence[Pair]) -> TakenEntries | None:
        """Take entries, unless one of them may be invalid, or have other members."""
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
        start = len(self.joined)
        self.joined.add(Columns(numbers, offsets, lengths, path_numbers))
        rows = slice(start, start + len(entries))
        return TakenEntries(rows, tuple(shapes), np.array(of_rows, np.uint8))

    def give_back(self, taken: TakenEntries) -> Iterator[Pair]:
        """Yield entries like those that were taken."""
        columns = self.joined.columns(taken.rows)
        indices: list[list[int]] = grid_indices(self._grid_shape, columns.numbers).tolist()
        names, (every, *_) = [*self._paths, ""], taken.shapes
        shape_numbers: list[int] = taken.shape_numbers.tolist()
        shapes = [taken.shapes[number] for number in shape_numbers] or [every] * len(indices)
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
