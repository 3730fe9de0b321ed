"""One shard of a selection: which inner chunks are wanted, and where their values go."""

from __future__ import annotations

import itertools
import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from zarr_manifest.hierarchy import LocatedChunks
from zarr_manifest.pipeline.decoding import UndecodableError
from zarr_manifest.pipeline.delivery import (
    ChunkRequest,
    Delivery,
    UndecodableChunkError,
)
from zarr_manifest.pipeline.inner_requests import inner_requests, tuple_of
from zarr_manifest.pipeline.shard_layout import InnerRanges, ShardLayout
from zarr_manifest.sources import ManyRanges

__all__ = ["Shard"]

_NONE = np.zeros(0, np.int64)
_WITHOUT_CHECKSUMS = LocatedChunks(_NONE, ManyRanges([], _NONE, _NONE, _NONE), {}, [], [], [], {})


class Shard:
    """The inner chunks of a shard that are wanted, told by their positions among those.

    Parameters
    ----------
    layout : ShardLayout
        Of all shards of the array.
    position : int
        Of the shard in the selection.
    request : ChunkRequest
        What is wanted of it.
    values : ndarray
        The output of the selection.
    drop_axes : tuple of int
        Axes of what is selected of a shard that the output does not have.
    """

    def __init__(
        self,
        layout: ShardLayout,
        position: int,
        request: ChunkRequest,
        values: npt.NDArray[Any],
        drop_axes: tuple[int, ...],
    ) -> None:
        self.layout = layout
        self.position = position
        self.request = request
        self.is_left = False
        self._values = values
        self._drop_axes = drop_axes
        self._wanted = inner_requests(layout, request)
        self.grid_shape = layout.grid_shape(request.spec.shape)
        self.view = self._view()
        self._delivery: Delivery | None = None
        self._outstanding = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def is_whole(self) -> bool:
        """Whether all inner chunks are wanted: zarr then reads the shard as a whole."""
        return len(self) == math.prod(self.grid_shape)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The wanted inner chunks, counted in C order."""
        return self._wanted.numbers

    def _view(self) -> npt.NDArray[Any] | None:
        """Return where in the output the values go; None if they must be collected first."""
        parts = tuple_of(self.request.out_selection)
        for part in parts:
            if type(part) is not slice:
                return None
        # Without the ellipsis, of an array without dimensions it would be a copy.
        view: npt.NDArray[Any] = self._values[(*parts, ...)]
        inner = self._wanted
        fits = view.shape == inner.shape == inner.result_shape and not self._drop_axes
        return view if fits else None

    # Delivering ------------------------------------------------------------------

    def expect(self, ranges: InnerRanges) -> npt.NDArray[np.int64]:
        """Return the positions of the inner chunks that have bytes; fill in the others."""
        present = np.flatnonzero(~ranges.missing)
        self._outstanding = len(present)
        if len(present) < len(self):
            fill = self.request.spec.fill_value
            self.delivery().values[...] = (
                self.request.spec.dtype.default_scalar() if fill is None else fill
            )
            if not len(present):
                self._finish()
        return present

    def delivery(self) -> Delivery:
        """Return what puts the values of inner chunks where they go."""
        with self._lock:
            if self._delivery is None:
                spec = self.layout.spec
                values = self.view
                if values is None:
                    dtype = self.request.spec.dtype.to_native_dtype()
                    values = np.empty(self._wanted.shape, dtype, order=spec.order)
                self._delivery = Delivery(
                    self._wanted, _WITHOUT_CHECKSUMS, values, (), self.layout.decoder
                )
            return self._delivery

    def destination(self, inner: int, nbytes: int) -> memoryview | None:
        """Return where the bytes of an inner chunk go as they are; None if they do not."""
        if self.view is None or not self.layout.decoder.is_verbatim:
            return None
        delivery = self.delivery()
        view = delivery.whole_chunk(delivery.requests[inner])
        return view if view is not None and len(view) == nbytes else None

    def deliver(self, inner: int, body: memoryview) -> None:
        """Decode an inner chunk, and put its values where they go.

        The shard is left to zarr if that is not possible.
        """
        if self.is_left:
            return
        try:
            self.delivery().deliver(inner, body)
        except UndecodableChunkError:
            self.is_left = True
            return
        with self._lock:
            self._outstanding -= 1
            is_last = not self._outstanding
        if is_last:
            self._finish()

    def deliver_all(self, body: memoryview) -> None:
        """Decode all wanted inner chunks of a shard, given its bytes."""
        try:
            index = body[slice(*self.layout.index_within(len(body), self.grid_shape))]
            ranges = self.layout.inner_ranges(index, self.numbers, len(body))
        except UndecodableError:
            self.is_left = True
            return
        if self._deliver_at_once(body, ranges):
            return
        starts, stops = ranges.starts.tolist(), ranges.stops.tolist()
        for inner in self.expect(ranges).tolist():
            self.deliver(inner, body[starts[inner] : stops[inner]])

    def _deliver_at_once(self, body: memoryview, ranges: InnerRanges) -> bool:
        """Copy a whole shard whose inner chunks lie one after the other; False if they do not."""
        layout, chunk_shape = self.layout, self.layout.chunk_shape
        stored = layout.decoder.stored_type
        if not (self._wanted.is_everything and layout.decoder.is_verbatim and stored is not None):
            return False
        order = np.argsort(ranges.starts)
        elements = math.prod(chunk_shape)
        inner_bytes = elements * stored.itemsize
        gaps = np.diff(ranges.starts[order])
        alike = not ranges.missing.any() and (ranges.stops - ranges.starts == inner_bytes).all()
        if not alike or (gaps != inner_bytes).any():
            return False
        first = int(ranges.starts[order[0]])
        chunks = np.frombuffer(body, stored, elements * len(order), first)
        self._outstanding = 0
        target = self.delivery().values
        split = itertools.chain(*zip(self.grid_shape, chunk_shape, strict=True))
        n = len(chunk_shape)
        grid = target.reshape(tuple(split)).transpose([*range(0, 2 * n, 2), *range(1, 2 * n, 2)])
        grid[np.unravel_index(order, self.grid_shape)] = chunks.reshape(-1, *chunk_shape)
        self._finish()
        return True

    def _finish(self) -> None:
        """Put values that have been collected into the output."""
        if self.view is not None:
            return
        delivery, self._delivery = self.delivery(), None
        values = delivery.values.reshape(self._wanted.result_shape)
        if self._drop_axes:
            kept = (n for i, n in enumerate(values.shape) if i not in self._drop_axes)
            values = values.reshape(tuple(kept))
        self._values[self.request.out_selection] = values
