"""Which inner chunks a selection of a shard wants, and where in the selected values they go.

Pure. Plain boxes, which most selections are, are divided here, without an object per inner chunk;
what zarr makes of all others is asked of zarr.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from zarr_manifest.hierarchy import select_inner_chunks
from zarr_manifest.pipeline.delivery import ChunkRequest
from zarr_manifest.pipeline.shard_layout import ShardLayout

__all__ = ["InnerRequests", "count_in_box", "inner_requests", "tuple_of"]


class InnerRequests(Protocol):
    """What is wanted of the inner chunks of a shard, of each that is wanted at all.

    Attributes
    ----------
    numbers : ndarray of int64
        The inner chunks, counted in C order.
    shape : tuple of int
        Of what is selected, while it is put together.
    result_shape : tuple of int
        The same in the end.
    is_everything : bool
        Whether it is the shard as it is, and not a part, or in another order.
    """

    numbers: npt.NDArray[np.int64]
    shape: tuple[int, ...]
    result_shape: tuple[int, ...]
    is_everything: bool

    def __getitem__(self, position: int, /) -> ChunkRequest:
        """Return what is wanted of an inner chunk."""
        ...

    def __len__(self) -> int:
        """Return the number of inner chunks."""
        ...


def inner_requests(layout: ShardLayout, request: ChunkRequest) -> InnerRequests:
    """Return what is wanted of the inner chunks of a shard.

    Parameters
    ----------
    layout : ShardLayout
        Of the shard.
    request : ChunkRequest
        What is wanted of it.
    """
    shape = request.spec.shape
    sides = _box(request.chunk_selection, shape)
    if sides is None:
        return _AnyRequests(layout, request.chunk_selection, shape)
    return _BoxRequests(layout, sides, shape)


def _box(selection: Any, shape: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """Return the first element, and one past the last, in each dimension; None if it is no box."""
    parts = tuple_of(selection)
    if len(parts) != len(shape):
        return None
    sides: list[tuple[int, int]] = []
    for part, n in zip(parts, shape, strict=True):
        if type(part) is not slice or part.step not in (None, 1):
            return None
        start, stop, _ = part.indices(n)
        if stop <= start:
            return None
        sides.append((start, stop))
    return sides


def count_in_box(
    selection: Any, shape: tuple[int, ...], chunk_shape: tuple[int, ...]
) -> int | None:
    """Return how many inner chunks a selection of a shard touches; None if it is not a box."""
    sides = _box(selection, shape)
    if sides is None:
        return None
    along = zip(sides, chunk_shape, strict=True)
    return math.prod(-(-stop // size) - start // size for (start, stop), size in along)


def tuple_of(selection: Any) -> tuple[Any, ...]:
    """Return a selection as one part for each dimension."""
    parts: Any = selection
    return parts if isinstance(selection, tuple) else (selection,)


def _strides(grid_shape: tuple[int, ...]) -> list[int]:
    return [math.prod(grid_shape[i + 1 :]) for i in range(len(grid_shape))]


class _BoxRequests:
    """A box of elements."""

    def __init__(
        self, layout: ShardLayout, sides: list[tuple[int, int]], shape: tuple[int, ...]
    ) -> None:
        self._spec = layout.spec
        self.shape = self.result_shape = tuple(stop - start for start, stop in sides)
        self.is_everything = self.shape == shape
        self._parts: list[list[tuple[slice, slice]]] = []
        self.numbers = np.zeros(1, np.int64)
        grid_shape = layout.grid_shape(shape)
        for side, size, stride in zip(sides, layout.chunk_shape, _strides(grid_shape), strict=True):
            first, last = side[0] // size, -(-side[1] // size)
            self._parts.append([_divided(*side, i * size, size) for i in range(first, last)])
            along = np.arange(first, last) * stride
            self.numbers = (self.numbers[:, None] + along).reshape(-1)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, position: int) -> ChunkRequest:
        selection: list[slice] = []
        place: list[slice] = []
        for parts in reversed(self._parts):
            position, i = divmod(position, len(parts))
            selection.append(parts[i][0])
            place.append(parts[i][1])
        return ChunkRequest(None, self._spec, tuple(selection[::-1]), tuple(place[::-1]), False)


def _divided(start: int, stop: int, offset: int, size: int) -> tuple[slice, slice]:
    """Return which part of an inner chunk lies in an interval, and where it goes."""
    first, last = max(start, offset), min(stop, offset + size)
    return slice(first - offset, last - offset), slice(first - start, last - start)


class _AnyRequests:
    """Any selection, as zarr divides it."""

    is_everything = False

    def __init__(self, layout: ShardLayout, selection: Any, shape: tuple[int, ...]) -> None:
        self._spec = layout.spec
        selected = select_inner_chunks(selection, shape, layout.chunk_shape)
        self.shape, self.result_shape = selected.shape, selected.result_shape
        self._parts = selected.parts
        indices = np.array([part[0] for part in self._parts], np.int64).reshape(-1, len(shape))
        self.numbers = indices @ np.array(_strides(layout.grid_shape(shape)), np.int64)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, position: int) -> ChunkRequest:
        _, selection, place = self._parts[position]
        return ChunkRequest(None, self._spec, selection, place, False)
