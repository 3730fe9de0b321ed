"""Which chunk each row of references is for, and which rows belong to which block of chunks. Pure.

In little memory, however many rows and blocks there are: rows are in C order of their chunks. Their
numbers are mostly consecutive, and otherwise small differences from the first; blocks mostly are
slices of the rows. If they are not, the rows of as many blocks as lie side by side are sorted
together; the rows of more than a window, by an index of the smallest type.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from zarr_manifest.format import Partitions, grid_index, grid_indices, number_chunks

# The rows of one block, in order.
type BlockRows = slice[int, int] | npt.NDArray[np.int64]

type _Numbers = npt.NDArray[np.int64]
type _Owners = npt.NDArray[np.unsignedinteger]

# Number of rows looked at together.
_BATCH_SIZE = 2**16


class ChunkNumbers:
    """The chunk number of each row, in ascending order.

    Consecutive numbers take no memory; others take 4 bytes each, or 8 in a grid of more than
    2**32 chunks.

    Parameters
    ----------
    first : int
        A number, from which the others are counted.
    count : int
        Number of rows.
    steps : ndarray of unsigned integers, optional
        What to add to `first`, sorted; by default, 0, 1, 2 and so on.

    Examples
    --------
    >>> chunks = ChunkNumbers.of(np.array([3, 4, 9]))
    >>> chunks.row_of(9), chunks.row_of(5), chunks.rows_of(np.array([9, 5, 3]))
    (2, None, array([ 2, -1,  0]))
    """

    __slots__ = ("_count", "_first", "_last", "_steps")

    def __init__(
        self, first: int, count: int, steps: npt.NDArray[np.unsignedinteger] | None = None
    ) -> None:
        self._first = first
        self._count = count
        self._steps = steps
        self._last = count - 1 if steps is None else int(steps[-1])

    @classmethod
    def of(cls, numbers: _Numbers) -> ChunkNumbers:
        """Return sorted numbers."""
        count = len(numbers)
        if not count:
            return cls(0, 0)
        first, last = int(numbers[0]), int(numbers[-1])
        if last - first == count - 1:
            return cls(first, count)
        kind = np.dtype(np.uint32 if last - first < 2**32 else np.uint64)
        steps: npt.NDArray[np.unsignedinteger] = np.empty(count, kind)
        np.subtract(numbers, first, out=steps, casting="unsafe")
        return cls(first, count, steps)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        return 0 if self._steps is None else self._steps.nbytes

    def number(self, row: int) -> int:
        """Return the number of the chunk of a row."""
        return self._first + (row if self._steps is None else self._steps.item(row))

    def numbers(self, rows: slice | _Numbers = slice(None)) -> _Numbers:
        """Return the numbers of the chunks of some rows."""
        if self._steps is not None:
            numbers = self._steps[rows].astype(np.int64)
            numbers += self._first
            return numbers
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self._count)
            return self._first + np.arange(start, stop, step)
        return rows + np.int64(self._first)

    def row_of(self, number: int) -> int | None:
        """Return the row of a chunk; None if it has none."""
        step = number - self._first
        if not 0 <= step <= self._last:
            return None
        if self._steps is None:
            return step
        row = int(self._steps.searchsorted(self._steps.dtype.type(step)))
        return row if self._steps.item(row) == step else None

    def rows_of(self, numbers: _Numbers) -> _Numbers:
        """Return the rows of chunks; -1 for those that have none."""
        steps = numbers - self._first if self._first else numbers
        inside = (steps >= 0) & (steps <= self._last)
        if self._steps is None:
            return np.where(inside, steps, -1)
        steps = np.where(inside, steps, 0).astype(self._steps.dtype)
        rows = self._steps.searchsorted(steps)
        return np.where(inside & (self._steps[rows] == steps), rows, -1)

    def rows_through(self, number: int) -> int:
        """Return how many rows are of chunks up to this one."""
        step = number - self._first
        if step >= self._last:
            return self._count
        if self._steps is None or step < 0:
            return max(step + 1, 0)
        return int(self._steps.searchsorted(self._steps.dtype.type(step), side="right"))

    def select(self, rows: BlockRows) -> ChunkNumbers:
        """Return the numbers of some rows, in order; those of a slice share memory."""
        if self._steps is None:
            if not isinstance(rows, slice):
                return ChunkNumbers.of(self.numbers(rows))
            return ChunkNumbers(self._first + rows.start, rows.stop - rows.start)
        steps = self._steps[rows]
        if not len(steps):
            return ChunkNumbers(0, 0)
        first, last = steps.item(0), steps.item(-1)
        if last - first == len(steps) - 1:
            return ChunkNumbers(self._first + first, len(steps))
        return ChunkNumbers(self._first, len(steps), steps)


def rows_of_blocks(
    chunks: ChunkNumbers, partitions: Partitions
) -> Iterator[tuple[tuple[int, ...], BlockRows]]:
    """Yield the grid index of every block that has rows, in C order, and these rows.

    Parameters
    ----------
    chunks : ChunkNumbers
        Of the rows.
    partitions : Partitions
        The blocks.

    Examples
    --------
    >>> blocks = rows_of_blocks(ChunkNumbers.of(np.array([0, 3, 4, 5])), Partitions((3, 2), (2, 1)))
    >>> [(index, np.arange(4)[rows].tolist()) for index, rows in blocks]
    [((0, 0), [0]), ((0, 1), [1]), ((1, 0), [2]), ((1, 1), [3])]
    """
    # Blocks side by side, in all of the grid but its first dimension, hold adjacent rows.
    side_by_side = math.prod((*partitions.shape[:1], *partitions.grid_shape[1:]))
    has_neighbours = math.prod(partitions.counts[1:]) > 1
    some = _BATCH_SIZE if has_neighbours else 1
    start = 0
    while start < len(chunks):
        chunk = chunks.number(min(start + some, len(chunks)) - 1)
        # The last chunk beside it; large blocks reach far beyond the grid.
        end = min((chunk // side_by_side + 1) * side_by_side, 2**62) - 1
        stop = chunks.rows_through(end)
        if has_neighbours:
            yield from _window(chunks, start, stop, partitions)
        else:
            yield grid_index(partitions.counts, chunk // side_by_side), slice(start, stop)
        start = stop


def _window(
    chunks: ChunkNumbers, start: int, stop: int, partitions: Partitions
) -> Iterator[tuple[tuple[int, ...], BlockRows]]:
    """Yield the blocks of rows that share them with no others."""
    counts = partitions.counts
    first, owners = _owners(chunks, start, stop, partitions)
    if (owners[1:] >= owners[:-1]).all():
        starts = np.flatnonzero(owners[1:] != owners[:-1]) + 1
        for begin, end in itertools.pairwise([0, *starts.tolist(), stop - start]):
            yield grid_index(counts, first + int(owners[begin])), slice(start + begin, start + end)
        return
    order, edges, used = _sorted(owners)
    for owner, (begin, end) in zip(used, itertools.pairwise(edges), strict=True):
        yield grid_index(counts, first + owner), order[begin:end] + np.int64(start)


def _owners(
    chunks: ChunkNumbers, start: int, stop: int, partitions: Partitions
) -> tuple[int, _Owners]:
    """Return the number of a block, and that of each row's block, counted from there."""
    counts = partitions.counts
    ends = chunks.numbers(np.array([start, stop - 1], np.int64))
    slabs = ends // math.prod(partitions.grid_shape[1:]) // max(partitions.shape[:1], default=1)
    in_slab = math.prod(counts[1:])
    first = int(slabs[0]) * in_slab
    most = (int(slabs[1]) + 1) * in_slab - first
    owners = np.empty(stop - start, np.min_scalar_type(most))
    shape = np.array(partitions.shape, np.int64)
    for begin in range(start, stop, _BATCH_SIZE):
        end = min(begin + _BATCH_SIZE, stop)
        numbers = chunks.numbers(slice(begin, end))
        blocks = grid_indices(partitions.grid_shape, numbers) // shape
        owners[begin - start : end - start] = number_chunks(blocks, counts) - first
    return first, owners


def _sorted(owners: _Owners) -> tuple[npt.NDArray[np.unsignedinteger], list[int], list[int]]:
    """Return the rows by owner, where those of each owner begin, and the owners."""
    used, sizes = np.unique(owners, return_counts=True)
    edges = np.cumsum([0, *sizes.tolist()])
    filled = edges[:-1].copy()
    order = np.empty(len(owners), np.min_scalar_type(len(owners)))
    for begin in range(0, len(owners), _BATCH_SIZE):
        own = np.searchsorted(used, owners[begin : begin + _BATCH_SIZE])
        rows = np.argsort(own, kind="stable")
        own = own[rows]
        starts = np.flatnonzero(np.diff(own, prepend=-1))
        lengths = np.diff(starts, append=len(own))
        places = np.arange(len(own)) + np.repeat(filled[own[starts]] - starts, lengths)
        order[places] = rows + begin
        filled[own[starts]] += lengths
    return order, edges.tolist(), used.tolist()
