"""References that arrive in parts, joined: those of a document, or of an author.

In little more memory than the joined columns take themselves. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zarr_manifest.manifest.chunk_numbers import ChunkNumbers
from zarr_manifest.manifest.references import (
    Columns,
    Extras,
    PathNumbers,
    References,
    path_table,
)

# Number of rows looked at together.
_BATCH_SIZE = 2**16


class JoinedReferences:
    """Joins references to the chunks of one array, in any order.

    Parameters
    ----------
    paths : PathNumbers, optional
        Numbers of paths, if all parts share them.

    Examples
    --------
    >>> joined = JoinedReferences(PathNumbers(a=0, b=1))
    >>> columns = Columns(*(np.array(values) for values in ([5, 2], [0, 9], [-1, 8], [1, 0])))
    >>> joined.add(columns)
    >>> references = joined.references((9,))
    >>> references.paths, references.columns().numbers, references.columns().path_numbers
    (('a', 'b'), array([2, 5]), array([0, 1], dtype=int32))
    """

    def __init__(self, paths: PathNumbers | None = None) -> None:
        self._paths = PathNumbers() if paths is None else paths
        self._rows = self._expected = 0
        self._columns: list[npt.NDArray[Any]] = [
            np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
        ]  # fmt: skip
        # As long as chunks are consecutive, only the first.
        self._first = 0
        self._numbers: npt.NDArray[np.int64] | None = None
        self._extras: dict[int, Extras] = {}

    def __len__(self) -> int:
        return self._rows

    def expect(self, rows: int) -> None:
        """State about how many rows there will be, to allocate memory for all of them."""
        self._expected = rows

    def add(self, columns: Columns, extras: Mapping[int, Extras] | None = None) -> None:
        """Add rows, whose path numbers are those of `paths`."""
        start, numbers = self._rows, columns.numbers
        if not len(numbers):
            return
        others: list[npt.NDArray[Any]] = [columns.offsets, columns.lengths, columns.path_numbers]
        for place, column in enumerate(others):
            self._columns[place] = self._extended(self._columns[place], column)
        if not start and len(numbers):
            self._first = int(numbers[0])
        if self._numbers is None and not _are_consecutive(numbers, self._first + start):
            self._numbers = np.arange(self._first, self._first + start)
        if self._numbers is not None:
            self._numbers = self._extended(self._numbers, numbers)
        if extras:
            self._extras.update((start + row, extra) for row, extra in extras.items())
        self._rows += len(numbers)

    def add_references(self, references: References) -> None:
        """Add references that have paths of their own."""
        columns, paths = references.columns(), references.paths
        path_numbers = columns.path_numbers
        if len(path_numbers) < len(paths):  # a part of others, which share their paths
            path_numbers, paths = number_by_first_use(path_numbers, paths)
        if not self._paths:
            self._paths.update(zip(paths, range(len(paths)), strict=True))
        else:
            path_numbers = path_table([self._paths[path] for path in paths])[path_numbers]
        self.add(columns._replace(path_numbers=path_numbers), references.extras_by_row())

    def _extended[T: np.generic](
        self, column: npt.NDArray[T], values: npt.NDArray[T]
    ) -> npt.NDArray[T]:
        """Return a column, whose end may be unused, with the values of further rows."""
        start, rows = self._rows, self._rows + len(values)
        if not start and rows >= self._expected:
            return values.astype(column.dtype, copy=False)
        if len(column) < rows:
            # With some space for more rows than asked for.
            most = max(rows, self._expected)
            longer = np.empty(most + most // 32, column.dtype)
            longer[:start] = column[:start]
            column = longer
        column[start:rows] = values
        return column

    def columns(self, rows: slice[int, int]) -> Columns:
        """Return some rows, as they were added."""
        first = self._first
        numbers = self._numbers
        return Columns(
            np.arange(first + rows.start, first + rows.stop) if numbers is None else numbers[rows],
            *(column[rows] for column in self._columns),
        )

    def repeated(self) -> list[int]:
        """Return the numbers of chunks that several rows name."""
        if self._numbers is None:
            return []
        numbers, counts = np.unique(self._numbers[: self._rows], return_counts=True)
        repeated: list[int] = numbers[counts > 1].tolist()
        return repeated

    def references(self, grid_shape: tuple[int, ...]) -> References | None:
        """Return all rows, in C order of the chunks; None if two are of the same chunk.

        Nothing can be added afterwards. Paths are numbered in the order in which they are used.
        """
        numbers, extras = self._numbers, self._extras
        columns = [self._used(column) for column in self._columns]
        if numbers is None:
            chunks = ChunkNumbers(self._first, self._rows)
        else:
            numbers = self._numbers = self._used(numbers)
            if not (numbers[1:] > numbers[:-1]).all():
                order = np.argsort(numbers, kind="stable")
                numbers = numbers[order]
                if (numbers[1:] == numbers[:-1]).any():
                    return None
                columns = [column[order] for column in columns]
                if extras:
                    places = enumerate(order.tolist())
                    extras = {row: extras[old] for row, old in places if old in extras}
            chunks = ChunkNumbers.of(numbers)
        offsets, lengths, path_numbers = columns
        path_numbers, paths = number_by_first_use(path_numbers, tuple(self._paths))
        return References(grid_shape, chunks, offsets, lengths, path_numbers, paths, extras)

    def _used[T: np.generic](self, column: npt.NDArray[T]) -> npt.NDArray[T]:
        """Return a column without the unused end."""
        # What is left over is no memory until it is written to: copying would take some.
        fits = len(column) <= self._rows + self._rows // 16
        return column[: self._rows] if fits else column[: self._rows].copy()


def join_references(parts: Iterable[References], grid_shape: tuple[int, ...]) -> References:
    """Return references to different chunks of one grid together."""
    joined = JoinedReferences()
    for part in parts:
        joined.add_references(part)
    found = joined.references(grid_shape)
    assert found is not None  # no two parts have the same chunk
    return found


def _are_consecutive(numbers: npt.NDArray[np.int64], first: int) -> bool:
    """Whether numbers are those from one on."""
    if not len(numbers):
        return True
    if numbers[0] != first or numbers[-1] - first != len(numbers) - 1:
        return False
    return bool((numbers[1:] > numbers[:-1]).all())


def number_by_first_use(
    path_numbers: npt.NDArray[np.int32], paths: Sequence[str]
) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Return a column with only the paths in use, numbered in the order of their first rows.

    Examples
    --------
    >>> number_by_first_use(np.array([2, 0, -1, 2], np.int32), ["a", "b", "c"])
    (array([ 0,  1, -1,  0], dtype=int32), ('c', 'a'))
    """
    count = len(path_numbers)
    if _are_all_in_order(path_numbers, len(paths)):
        return path_numbers, tuple(paths)
    first_row = np.full(len(paths), count)
    starts = range(0, count, _BATCH_SIZE)
    for start in reversed(starts):
        # Of repeated assignments the last one wins: in reverse order, that of the first row.
        rows = np.flatnonzero(path_numbers[start : start + _BATCH_SIZE] >= 0)[::-1] + start
        first_row[path_numbers[rows]] = rows
    in_use = np.flatnonzero(first_row < count)
    used: list[int] = in_use[np.argsort(first_row[in_use])].tolist()
    names = tuple([paths[number] for number in used])
    if used == list(range(len(used))):
        return path_numbers, names
    numbers = np.zeros(len(paths), np.int32)
    numbers[used] = np.arange(len(used))
    table = path_table(numbers)
    renumbered = np.empty(count, np.int32)
    for start in starts:
        some = slice(start, start + _BATCH_SIZE)
        renumbered[some] = table[path_numbers[some]]
    return renumbered, names


def _are_all_in_order(path_numbers: npt.NDArray[np.int32], paths: int) -> bool:
    """Whether all paths are used, one after the other: so it is in most documents."""
    if not len(path_numbers) or path_numbers[0] != 0 or path_numbers[-1] != paths - 1:
        return False
    changes = np.count_nonzero(path_numbers[1:] != path_numbers[:-1])
    return changes == paths - 1 and bool((path_numbers[1:] >= path_numbers[:-1]).all())
