"""Shards of a manifest array: first all indexes, then all inner chunks that are wanted.

Users must see no difference to zarr: a shard that is wanted completely is read, and verified, as a
whole, and zarr itself reports all errors of a shard.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import field

from zarr_manifest.errors import RangeOutOfBoundsError
from zarr_manifest.hierarchy import LocatedChunks
from zarr_manifest.pipeline.decoding import UndecodableError
from zarr_manifest.pipeline.delivery import (
    ChunkRequest,
    Delivery,
    UndecodableChunkError,
    WantedChunks,
    memory_of,
    verify_range,
)
from zarr_manifest.pipeline.shard_layout import InnerRanges, ShardLayout, inner_requests, tuple_of
from zarr_manifest.sources import ManyRanges, RangeError, Receiver, SourceObject, read_ranges

_NONE = np.zeros(0, np.int64)


class Shard:
    """The inner chunks of a shard that are wanted, identified by their positions among those.

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

    Attributes
    ----------
    number, start, stop : int
        The object with its bytes, the first of them, and one past the last.
    checksum : str or None
        What all of them must match, if that is to be checked.
    is_read_whole : bool
        Whether they are read in one request.
    is_left : bool
        Whether zarr has to read it.
    """

    number = start = stop = 0
    checksum: str | None = None
    is_read_whole = False
    is_left = False

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
    def nbytes(self) -> int:
        """Size of the shard in bytes."""
        return self.stop - self.start

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
                values, output = self.view, self._values
                if values is None:
                    dtype = self.request.spec.dtype.to_native_dtype()
                    values = output = np.empty(self._wanted.shape, dtype, order=spec.order)
                decoder = self.layout.decoder
                self._delivery = Delivery(self._wanted, values, (), decoder, output=output)
            return self._delivery

    def place(self, inner: int, nbytes: int) -> int:
        """Return where in the output's memory an inner chunk's bytes go as they are; -1 if not."""
        if self.view is None or not self.layout.decoder.is_verbatim:
            return -1
        delivery = self.delivery()
        return delivery.place(delivery.requests[inner], nbytes)

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
        if self._deliver_together(body, ranges):
            return
        starts, stops = ranges.starts.tolist(), ranges.stops.tolist()
        for inner in self.expect(ranges).tolist():
            self.deliver(inner, body[starts[inner] : stops[inner]])

    def _deliver_together(self, body: memoryview, ranges: InnerRanges) -> bool:
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


# Inner chunks that are looked up before any of them is read.
_MOST_INNER_CHUNKS = 65_536

# Shards of which everything is wanted are read in one request up to this size, in bytes. Where
# another request costs little, less memory and more threads are better.
_LARGEST_WHOLE = 32 * 1024 * 1024
_LARGEST_WHOLE_ON_DISK = 4 * 1024 * 1024


class UnreadableShardError(Exception):
    """The shard at a position in the selection is to be read by zarr, which raises its error."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class ShardedSelection(WantedChunks):
    """Shards that are read, and where their values go.

    Parameters
    ----------
    store, array, indices, requests, out, drop_axes, usual
        As of :class:`WantedChunks`.
    layout : ShardLayout
        Of the array's shards.
    """

    layout: ShardLayout
    _left: list[int] = field(default_factory=list[int])

    async def read(self) -> list[Any]:
        """Read all shards, and return zarr's result for each.

        Raises
        ------
        ManifestError
            A shard cannot be read.
        UnreadableShardError
            zarr finds out why not.
        """
        located = await self.array.locate(self.indices, longest=np.iinfo(np.int64).max)
        results = self._results(located)
        self._left = [*located.inline, *located.alone]
        for group in self._grouped(located):
            await self._read_group(group, located.ranges.objects)
        if self._left:
            batch = [self.requests[position] for position in self._left]
            read = await self.usual.read(batch, self.out, self.drop_axes)
            # Older releases of zarr return nothing.
            for position, result in zip(self._left, read or (), strict=False):
                results[position] = result
        return results

    def _grouped(self, located: LocatedChunks) -> Iterator[list[Shard]]:
        """Yield shards, so many at a time that their inner chunks take little memory."""
        values = self.out.as_numpy_array()
        group: list[Shard] = []
        count = 0
        objects = located.ranges.objects
        on_disk = [self.store.sources.is_on_disk(source.location) for source in objects]
        columns = (located.ranges.object_numbers, located.ranges.starts, located.ranges.stops)
        rows: list[list[int]] = np.column_stack([located.ranged, *columns]).tolist()
        for position, number, start, stop in rows:
            request = ChunkRequest._make(self.requests[position])
            shard = Shard(self.layout, position, request, values, self.drop_axes)
            shard.number, shard.start, shard.stop = number, start, stop
            if shard.is_whole or self.array.verifies_parts:
                shard.checksum = located.checksums.get(position)
            largest = _LARGEST_WHOLE_ON_DISK if on_disk[number] else _LARGEST_WHOLE
            fits = shard.is_whole and shard.nbytes <= largest
            shard.is_read_whole = shard.checksum is not None or fits
            if not self._may_read(shard):
                self._left.append(position)
                continue
            group.append(shard)
            count += len(shard)
            if count >= _MOST_INNER_CHUNKS:
                yield group
                group, count = [], 0
        if group:
            yield group

    def _may_read(self, shard: Shard) -> bool:
        index_bytes = self.layout.index_bytes(shard.grid_shape)
        # zarr would read so much in one request, even if it is not done here.
        zarr_reads = shard.nbytes if shard.is_whole or shard.is_read_whole else index_bytes
        return index_bytes <= shard.nbytes and zarr_reads <= self.array.longest

    async def _read_group(self, group: Sequence[Shard], objects: Sequence[SourceObject]) -> None:
        first = _FirstRead(group, objects)
        await self._read_ranges(first.ranges(), first, first.shards)
        acceptable: list[tuple[Shard, InnerRanges]] = []
        for shard, inner in first.indexes:
            if (inner.stops - inner.starts > self.array.longest).any():
                shard.is_left = True
            else:
                acceptable.append((shard, inner))
        second = _InnerRead(acceptable, objects, memory_of(self.out.as_numpy_array()))
        await self._read_ranges(second.ranges(), second, second.shards)
        self._left += [shard.position for shard in group if shard.is_left]

    async def _read_ranges(
        self, ranges: ManyRanges, receiver: Any, shards: Sequence[Shard]
    ) -> None:
        try:
            await read_ranges(self.store.sources, ranges, receiver)
        except RangeError as failed:
            shard = shards[failed.row]
            if isinstance(failed.error, RangeOutOfBoundsError):
                # Names the range that zarr would have read.
                raise UnreadableShardError(shard.position) from failed
            raise self._in_chunk(failed.error, shard.position) from failed.error.__cause__


class _IndexRow(NamedTuple):
    """A range that is read first."""

    shard: Shard
    start: int
    stop: int
    holds_index: bool


class _FirstRead(Receiver):
    """Reads the indexes of shards, or whole shards."""

    def __init__(self, group: Sequence[Shard], objects: Sequence[SourceObject]) -> None:
        self._objects = objects
        self._rows = [row for shard in group for row in self._rows_of(shard)]
        self.indexes: list[tuple[Shard, InnerRanges]] = []

    @property
    def shards(self) -> list[Shard]:
        """The shard of each range."""
        return [row.shard for row in self._rows]

    def _rows_of(self, shard: Shard) -> Iterator[_IndexRow]:
        if shard.is_read_whole:
            yield _IndexRow(shard, shard.start, shard.stop, True)
            return
        first, last = shard.layout.index_within(shard.nbytes, shard.grid_shape)
        yield _IndexRow(shard, shard.start + first, shard.start + last, True)
        if shard.is_whole and shard.layout.at_start:
            # An object that ends before the shard does is an error.
            yield _IndexRow(shard, shard.stop - 1, shard.stop, False)

    def ranges(self) -> ManyRanges:
        """Return what is to be read."""
        columns = zip(*((row.shard.number, row.start, row.stop) for row in self._rows), strict=True)
        return ManyRanges(self._objects, *(np.array(column, np.int64) for column in columns))

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        """Take the bytes of indexes, or of whole shards."""
        for row, body in zip(rows, bodies, strict=True):
            shard = self._rows[row].shard
            if shard.is_read_whole:
                if shard.checksum is not None:
                    verify_range(row, shard.checksum, body, self._objects[shard.number])
                shard.deliver_all(body)
            elif self._rows[row].holds_index:
                self._look_up(shard, body)

    def _look_up(self, shard: Shard, index: memoryview) -> None:
        try:
            inner = shard.layout.inner_ranges(index, shard.numbers, shard.nbytes)
        except UndecodableError:
            shard.is_left = True
        else:
            self.indexes.append((shard, inner))


class _InnerRead(Receiver):
    """Reads inner chunks of shards."""

    def __init__(
        self,
        indexes: Sequence[tuple[Shard, InnerRanges]],
        objects: Sequence[SourceObject],
        memory: memoryview,
    ) -> None:
        self.memory = memory
        self._objects = objects
        self.shards: list[Shard] = []
        self._inner: list[int] = []
        columns = [(_NONE, _NONE, _NONE)]
        for shard, inner in indexes:
            present = shard.expect(inner)
            self.shards += [shard] * len(present)
            self._inner += present.tolist()
            numbers = np.full(len(present), shard.number, np.int64)
            starts, stops = inner.starts[present], inner.stops[present]
            columns.append((numbers, shard.start + starts, shard.start + stops))
        self._columns = [np.concatenate(parts) for parts in zip(*columns, strict=True)]

    def ranges(self) -> ManyRanges:
        """Return what is to be read."""
        return ManyRanges(self._objects, *self._columns)

    def places(self, rows: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Return where inner chunks go that are stored as they are."""
        return [
            self.shards[row].place(self._inner[row], nbytes)
            for row, nbytes in zip(rows, sizes, strict=True)
        ]

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        """Decode inner chunks, and put their values where they go."""
        for row, body in zip(rows, bodies, strict=True):
            self.shards[row].deliver(self._inner[row], body)
