"""One shard of a selection: which inner chunks are wanted, and where their values go."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from zarr_manifest.hierarchy import LocatedChunks, select_inner_chunks
from zarr_manifest.integrations.bulk.decoding import UndecodableError
from zarr_manifest.integrations.bulk.delivery import (
    ChunkRequest,
    Delivery,
    UndecodableChunkError,
)
from zarr_manifest.integrations.bulk.shard_layout import InnerRanges, ShardLayout
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
        self._selected = select_inner_chunks(
            request.chunk_selection, request.spec.shape, layout.chunk_shape
        )
        self.grid_shape = layout.grid_shape(request.spec.shape)
        self.view = self._view()
        self._delivery: Delivery | None = None
        self._outstanding = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._selected.parts)

    @property
    def is_whole(self) -> bool:
        """Whether all inner chunks are wanted: zarr then reads the shard as a whole."""
        return len(self) == math.prod(self.grid_shape)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The wanted inner chunks, counted in C order."""
        indices = np.array([part[0] for part in self._selected.parts], np.int64)
        strides = [math.prod(self.grid_shape[i + 1 :]) for i in range(len(self.grid_shape))]
        return indices.reshape(len(self), len(strides)) @ np.array(strides, np.int64)

    def _view(self) -> npt.NDArray[Any] | None:
        """Return where in the output the values go; None if they must be collected first."""
        parts: Any = self.request.out_selection
        for part in parts if isinstance(parts, tuple) else (parts,):
            if type(part) is not slice:
                return None
        view = self._values[parts]
        inner = self._selected
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
                    values = np.empty(self._selected.shape, dtype, order=spec.order)
                requests = [
                    ChunkRequest(None, spec, selection, place, False)
                    for _, selection, place in self._selected.parts
                ]
                self._delivery = Delivery(
                    requests, _WITHOUT_CHECKSUMS, values, (), self.layout.decoder
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
        starts, stops = ranges.starts.tolist(), ranges.stops.tolist()
        for inner in self.expect(ranges).tolist():
            self.deliver(inner, body[starts[inner] : stops[inner]])

    def _finish(self) -> None:
        """Put values that have been collected into the output."""
        if self.view is not None:
            return
        delivery, self._delivery = self.delivery(), None
        values = delivery.values.reshape(self._selected.result_shape)
        if self._drop_axes:
            kept = (n for i, n in enumerate(values.shape) if i not in self._drop_axes)
            values = values.reshape(tuple(kept))
        self._values[self.request.out_selection] = values
