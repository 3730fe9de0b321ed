"""Which rows of a table belong to which block of the chunk grid, one block after the other. Pure.

In little memory, however many rows and blocks there are: rows are in C order of their chunks,
so that blocks often are slices of them. Otherwise, the rows of as many blocks as lie side by side
are sorted together; the rows of more than a window, by an index of the smallest type.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from zarr_manifest.format import Partitions, grid_index, grid_indices, number_chunks

__all__ = ["BlockRows", "rows_of_blocks"]

# The rows of one block, in order.
type BlockRows = slice[int, int] | npt.NDArray[np.int64]

type _Numbers = npt.NDArray[np.int64]
type _Owners = npt.NDArray[np.unsignedinteger]

# Number of rows looked at together.
_AT_ONCE = 2**16


def rows_of_blocks(
    numbers: _Numbers | None, count: int, partitions: Partitions, *, at_once: int = _AT_ONCE
) -> Iterator[tuple[tuple[int, ...], BlockRows]]:
    """Yield the grid index of every block that has rows, in C order, and these rows.

    Parameters
    ----------
    numbers : ndarray of int64, sorted, or None
        C-order number of each row's chunk; None if that is the number of the row.
    count : int
        Number of rows.
    partitions : Partitions
        The blocks.
    at_once : int
        Number of rows to look at together.

    Examples
    --------
    >>> blocks = rows_of_blocks(np.array([0, 3, 4, 5]), 4, Partitions((3, 2), (2, 1)))
    >>> [(index, np.arange(4)[rows].tolist()) for index, rows in blocks]
    [((0, 0), [0]), ((0, 1), [1]), ((1, 0), [2]), ((1, 1), [3])]
    """
    if numbers is None and count == math.prod(partitions.grid_shape):
        return ((index, _chunks(partitions, index)) for index in partitions) if count else iter(())
    return _sparse(numbers, count, partitions, at_once)


def _chunks(partitions: Partitions, index: Sequence[int]) -> BlockRows:
    """Return the C-order numbers of the chunks in a block."""
    region = partitions.region(index)
    first = last = 0
    for axis, n in zip(region, partitions.grid_shape, strict=True):
        first, last = first * n + axis.start, last * n + axis.stop - 1
    if last - first == math.prod(map(len, region)) - 1:
        return slice(first, last + 1)
    found = np.zeros(1, np.int64)
    for axis, n in zip(region, partitions.grid_shape, strict=True):
        found = (found[:, np.newaxis] * n + np.arange(axis.start, axis.stop)).reshape(-1)
    return found


def _sparse(
    numbers: _Numbers | None, count: int, partitions: Partitions, at_once: int
) -> Iterator[tuple[tuple[int, ...], BlockRows]]:
    # Blocks side by side, in all of the grid but its first dimension, hold adjacent rows.
    side_by_side = math.prod((*partitions.shape[:1], *partitions.grid_shape[1:]))
    start = 0
    while start < count:
        last = min(start + at_once, count) - 1
        chunk = last if numbers is None else int(numbers[last])
        # The last chunk beside it; large blocks reach far beyond the grid.
        end = min((chunk // side_by_side + 1) * side_by_side, 2**62) - 1
        stop = end + 1 if numbers is None else int(np.searchsorted(numbers, end, side="right"))
        stop = min(stop, count)
        yield from _window(numbers, start, stop, partitions, at_once)
        start = stop


def _window(
    numbers: _Numbers | None, start: int, stop: int, partitions: Partitions, at_once: int
) -> Iterator[tuple[tuple[int, ...], BlockRows]]:
    """Yield the blocks of rows that share them with no others."""
    counts = partitions.counts
    first, owners = _owners(numbers, start, stop, partitions, at_once)
    if (owners[1:] >= owners[:-1]).all():
        starts = np.flatnonzero(owners[1:] != owners[:-1]) + 1
        for begin, end in itertools.pairwise([0, *starts.tolist(), stop - start]):
            yield grid_index(counts, first + int(owners[begin])), slice(start + begin, start + end)
        return
    order, edges, used = _sorted(owners, at_once)
    for owner, (begin, end) in zip(used, itertools.pairwise(edges), strict=True):
        yield grid_index(counts, first + owner), order[begin:end] + np.int64(start)


def _owners(
    numbers: _Numbers | None, start: int, stop: int, partitions: Partitions, at_once: int
) -> tuple[int, _Owners]:
    """Return the number of a block, and that of each row's block, counted from there."""
    counts = partitions.counts
    ends = np.array([start, stop - 1], np.int64) if numbers is None else numbers[[start, stop - 1]]
    slabs = ends // math.prod(partitions.grid_shape[1:]) // max(partitions.shape[:1], default=1)
    in_slab = math.prod(counts[1:])
    first = int(slabs[0]) * in_slab
    most = (int(slabs[1]) + 1) * in_slab - first
    owners = np.empty(stop - start, np.min_scalar_type(most))
    shape = np.array(partitions.shape, np.int64)
    for begin in range(start, stop, at_once):
        end = min(begin + at_once, stop)
        chunks = np.arange(begin, end) if numbers is None else numbers[begin:end]
        blocks = grid_indices(partitions.grid_shape, chunks) // shape
        owners[begin - start : end - start] = number_chunks(blocks, counts) - first
    return first, owners


def _sorted(
    owners: _Owners, at_once: int
) -> tuple[npt.NDArray[np.unsignedinteger], list[int], list[int]]:
    """Return the rows by owner, where those of each owner begin, and the owners."""
    used, sizes = np.unique(owners, return_counts=True)
    edges = np.cumsum([0, *sizes.tolist()])
    filled = edges[:-1].copy()
    order = np.empty(len(owners), np.min_scalar_type(len(owners)))
    for begin in range(0, len(owners), at_once):
        own = np.searchsorted(used, owners[begin : begin + at_once])
        rows = np.argsort(own, kind="stable")
        own = own[rows]
        starts = np.flatnonzero(np.diff(own, prepend=-1))
        lengths = np.diff(starts, append=len(own))
        places = np.arange(len(own)) + np.repeat(filled[own[starts]] - starts, lengths)
        order[places] = rows + begin
        filled[own[starts]] += lengths
    return order, edges.tolist(), used.tolist()
