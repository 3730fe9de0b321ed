"""Keys of a manifest document: the chunk that each member names, as rows of a table.

Checks keys against the chunk grid and the document's block of it, and sorts them.
Ignores the entries.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.errors import InvalidChunkKeyError, LimitExceededError
from zarr_manifest.format import (
    Findings,
    canonical_indices,
    format_canonical,
    number_chunks,
    parse_canonical,
)
from zarr_manifest.showing import brief

type KeyParser = Callable[[str], tuple[int, ...] | None]

type _Indices = npt.NDArray[np.int64]
type _Mask = npt.NDArray[np.bool_]


class Grid(Struct, frozen=True):
    """The chunks that the keys of a document may name.

    Attributes
    ----------
    ndim : int
        Number of dimensions.
    shape : tuple of int or None
        Number of chunks along each dimension; None to infer it from the keys.
    region : sequence of range, optional
        The block of the grid that the document covers; None for the whole grid.
    parse_key : callable, optional
        Parses the array's own relative chunk keys.
    """

    ndim: int
    shape: tuple[int, ...] | None
    region: Sequence[range] | None = None
    parse_key: KeyParser | None = None


class MemberRows(Struct, frozen=True):
    """Members of a document that name a chunk, in C order of the chunks.

    Attributes
    ----------
    grid_shape : tuple of int
        Number of chunks along each dimension.
    numbers : ndarray of int64, sorted
        Chunk number of each row.
    members : ndarray of int64
        Which member of the document each row is.
    """

    grid_shape: tuple[int, ...]
    numbers: _Indices
    members: _Indices


def interpret_keys(
    keys: list[str], grid: Grid, *, report_outside: bool = False
) -> Findings[MemberRows]:
    """Yield the problems of a document's keys, and return the rows of those that name a chunk.

    Keys outside the grid are dropped; only validators and writers report them.
    """
    indices, named = yield from _parse_keys(keys, grid)
    shape = grid.shape
    if shape is None:
        shape = tuple(int(n) + 1 for n in indices.max(axis=0, initial=0))
    if max(math.prod(shape), *shape, 0) >= 2**62:
        yield LimitExceededError(f"the chunk grid is too large: its shape is {list(shape)}")
        nothing = np.empty(0, np.int64)
        return MemberRows(shape, nothing, nothing)
    if named.all() and _are_all_within(indices, shape, grid.region):
        members = np.arange(len(keys))
    else:
        members = yield from _members_within(keys, indices, named, shape, grid, report_outside)
        indices = indices[members]
    numbers = number_chunks(indices, shape)
    if (numbers[1:] > numbers[:-1]).all():  # as this package writes them
        return MemberRows(shape, numbers, members)
    order = np.argsort(numbers, kind="stable")
    numbers, members = numbers[order], members[order]
    distinct = np.ones(len(numbers), np.bool_)
    distinct[1:] = numbers[1:] != numbers[:-1]
    for row in np.flatnonzero(~distinct).tolist():
        first, second = keys[int(members[row - 1])], keys[int(members[row])]
        yield InvalidChunkKeyError(
            f"the manifest keys {first!r} and {second!r} name the same chunk",
            chunk=second,
        )
    return MemberRows(shape, numbers[distinct], members[distinct])


def _are_all_within(
    indices: _Indices, shape: Sequence[int], region: Sequence[range] | None
) -> bool:
    """Whether all indices are in the grid, and in the block."""
    if not len(indices):
        return False
    first, last = indices.min(axis=0).tolist(), indices.max(axis=0).tolist()
    if not all(map(operator.lt, last, shape)):
        return False
    if region is None:
        return True
    return all(
        a >= axis.start and b < axis.stop for a, b, axis in zip(first, last, region, strict=True)
    )


def _members_within(
    keys: list[str],
    indices: _Indices,
    named: _Mask,
    shape: Sequence[int],
    grid: Grid,
    report_outside: bool,
) -> Findings[_Indices]:
    """Yield which keys are outside the grid or the block, and return the numbers of the others."""
    inside = named & (indices < np.array(shape, dtype=np.int64)).all(axis=1)
    if report_outside:
        for row in np.flatnonzero(named & ~inside).tolist():
            yield InvalidChunkKeyError(
                f"the manifest key {keys[row]!r} names a chunk outside the array, "
                f"whose chunk grid has the shape {list(shape)}",
                chunk=keys[row],
            )
    if grid.region is not None:
        within = _within(indices, grid.region)
        for row in np.flatnonzero(inside & ~within).tolist():
            yield _misplaced(keys[row], grid.region)
        inside &= within
    return np.flatnonzero(inside)


def _within(indices: _Indices, region: Sequence[range]) -> _Mask:
    first = np.array([axis.start for axis in region], np.int64)
    stop = np.array([axis.stop for axis in region], np.int64)
    return ((indices >= first) & (indices < stop)).all(axis=1)


def _misplaced(key: str, region: Sequence[range]) -> InvalidChunkKeyError:
    first = format_canonical([axis.start for axis in region])
    last = format_canonical([axis.stop - 1 for axis in region])
    return InvalidChunkKeyError(
        f"the manifest key {key!r} belongs to another partition: this document is for "
        f"{first!r} to {last!r}",
        chunk=key,
        remedy="Keys count chunks of the whole array; 'partition_shape' assigns them to documents.",
    )


def _parse_keys(keys: list[str], grid: Grid) -> Findings[tuple[_Indices, _Mask]]:
    """Return the grid index of every key, and which keys are chunk keys."""
    ndim = grid.ndim
    canonical = canonical_indices(keys, ndim)
    if canonical is not None:
        return canonical, np.ones(len(keys), np.bool_)
    indices = np.zeros((len(keys), ndim), np.int64)
    named = np.zeros(len(keys), np.bool_)
    for row, key in enumerate(keys):
        index = parse_canonical(key, ndim)
        if index is None and grid.parse_key is not None:
            index = grid.parse_key(key)
        if index is None:
            yield InvalidChunkKeyError(
                f"the manifest key {brief(key)} is not a chunk key of this array",
                chunk=key,
                remedy="Its chunk keys have one number per dimension, joined with '.', such as "
                f"{format_canonical((0,) * ndim)!r}.",
            )
        else:
            indices[row] = index
            named[row] = True
    return indices, named
