"""The requests that zarr makes of a selection, and the delivery of values to its output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from zarr.abc.codec import CodecPipeline
from zarr.buffer import cpu

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import verify_checksum
from zarr_manifest.hierarchy import ChunkManifestTransformer, LocatedChunks, ManifestStore
from zarr_manifest.pipeline.decoding import ChunkDecoder, UndecodableError
from zarr_manifest.sources import (
    NO_MEMORY,
    ManyRanges,
    RangeError,
    Receiver,
    SourceObject,
    slice_bounds,
)
from zarr_manifest.stores import requested_range

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest


class ChunkRequest(NamedTuple):
    """zarr's request to a codec pipeline for one chunk.

    Attributes
    ----------
    getter : StorePath
        The chunk.
    spec : ArraySpec
        Its shape, data type and fill value.
    chunk_selection, out_selection : tuple
        Which of its elements are wanted, and where in the output they go.
    is_complete : bool
        Whether all are wanted.
    """

    getter: Any
    spec: Any
    chunk_selection: Any
    out_selection: Any
    is_complete: bool


def is_numpy_memory(out: Any) -> bool:
    """Whether an output is filled by writing to its NumPy array, and nothing else."""
    if type(out) is not cpu.NDBuffer:
        return False
    memory: Any = out.as_ndarray_like()
    return type(memory) in (np.ndarray, np.memmap)


_NOWHERE = (-1, -1)

type AnyRequest = tuple[Any, Any, Any, Any, Any]
"""A :class:`ChunkRequest`, or a tuple as zarr makes it: naming its members takes half a µs."""


class _Requests(Protocol):
    """The requests of a selection, by their positions."""

    def __getitem__(self, position: int, /) -> AnyRequest: ...


class UndecodableChunkError(Exception):
    """The chunk at a position in the selection is to be decoded by zarr."""

    def __init__(self, position: int, body: memoryview) -> None:
        super().__init__(position)
        self.position = position
        self.body = body


class Delivery(Struct):
    """Takes the bytes of chunks, and puts the values into the output.

    Parameters
    ----------
    requests : sequence of AnyRequest
        The selection.
    values : ndarray
        The output; unused if zarr has to decode.
    drop_axes : tuple of int
        Axes of what is selected of a chunk that the output does not have.
    decoder : ChunkDecoder or None
        None if zarr has to decode the chunks, which are then kept in `undecoded`.
    checksums : dict of int to str
        What the bytes of chunks must match.
    output : ndarray or None
        What `values` is a part of; None if it is the output itself.

    Attributes
    ----------
    memory : memoryview
        All bytes of the output, if chunks may fill them as they are; else none.
    """

    requests: _Requests
    values: npt.NDArray[Any]
    drop_axes: tuple[int, ...]
    decoder: ChunkDecoder | None
    checksums: dict[int, str] = field(default_factory=dict[int, str])
    undecoded: dict[int, memoryview] = field(default_factory=dict[int, memoryview])
    output: npt.NDArray[Any] | None = None
    memory: memoryview = NO_MEMORY
    is_verbatim: bool = False
    _first: int = 0
    _axes: tuple[int, ...] = ()
    _itemsize: int = 0

    def __post_init__(self) -> None:
        decoder, values = self.decoder, self.values
        self.is_verbatim = decoder is not None and decoder.is_verbatim
        if decoder is not None and decoder.stores(values.dtype):
            self.memory = memory_of(values if self.output is None else self.output)
            self._axes, self._itemsize = values.strides[::-1], values.itemsize
        if self.memory and self.output is not None:
            start = np.frombuffer(self.memory, np.uint8).ctypes.data
            self._first = values.ctypes.data - start

    def of(self, positions: npt.NDArray[np.int64], ranges: ManyRanges) -> RangeDelivery:
        """Return the receiver of ranges of chunks."""
        return RangeDelivery(self, positions.tolist(), ranges)

    def verify(self, position: int, body: memoryview) -> None:
        """Compare bytes with the checksum that the manifest states, if it does."""
        checksum = self.checksums.get(position)
        if checksum is not None:
            verify_checksum(checksum, body)

    def deliver(self, position: int, body: memoryview) -> None:
        """Decode a chunk, and put its values where they go."""
        request, decoder = self.requests[position], self.decoder
        if decoder is None:
            # A copy: it may be a small part of what was read.
            self.undecoded[position] = memoryview(bytes(body))
            return
        try:
            if not self.is_verbatim:
                first, last = self._span(request)
                if first < last and decoder.decode_into(body, self.memory[first:last]):
                    return
            _, spec, chunk_selection, out_selection, _ = request
            selected = _selected(decoder.decode(body, spec), chunk_selection)
        except UndecodableError as error:
            raise UndecodableChunkError(position, body) from error
        if self.drop_axes:
            kept = (n for i, n in enumerate(selected.shape) if i not in self.drop_axes)
            selected = selected.reshape(tuple(kept))
        self.values[out_selection] = selected

    def place(self, request: AnyRequest, nbytes: int) -> int:
        """Return the first byte of `memory` that a chunk fills as it is; -1 if it fills none.

        A chunk that is stored with fewer bytes, or more, fills none: it must be refused.
        """
        first, last = self._span(request)
        return first if last - first == nbytes else -1

    def _span(self, request: AnyRequest) -> tuple[int, int]:
        """Return the first byte of `memory` that a whole chunk goes to, and one past the last.

        (-1, -1) if there is no such place.
        """
        if not self.memory:
            return _NOWHERE
        _, spec, chunk_selection, out_selection, is_complete = request
        for part in () if is_complete else chunk_selection:
            if type(part) is not slice:
                return _NOWHERE
        if len(out_selection) != len(self._axes):
            return _NOWHERE
        first, nbytes = self._first, self._itemsize
        for part, stride in zip(out_selection[::-1], self._axes, strict=True):
            if type(part) is not slice:
                return _NOWHERE
            start: int = part.start
            length = part.stop - start
            if length != 1 and stride != nbytes:
                return _NOWHERE
            first += start * stride
            nbytes *= length
        is_whole = nbytes == math.prod(spec.shape) * self._itemsize
        return (first, first + nbytes) if is_whole else _NOWHERE


def memory_of(values: npt.NDArray[Any]) -> memoryview:
    """Return all bytes of an array; none if they are not contiguous, or may not be written."""
    flags = values.flags
    if not flags.writeable or not (flags.c_contiguous or flags.f_contiguous):
        return NO_MEMORY
    return values.reshape(-1, order="A").view(np.uint8).data


def _selected(decoded: npt.NDArray[Any], selection: Any) -> npt.NDArray[Any]:
    """Return what is selected of a chunk, as an array even if it is one element."""
    selected: Any = decoded[selection]
    if not hasattr(selected, "dtype"):
        # An array of a text alone would lose the NULs at its end.
        selected = decoded[(*selection, ...)]
    return np.asanyarray(selected)


class RangeDelivery(Receiver):
    """Receives ranges, each of which is a chunk."""

    def __init__(self, delivery: Delivery, positions: list[int], ranges: ManyRanges) -> None:
        self.memory = delivery.memory if delivery.is_verbatim else NO_MEMORY
        self.delivery = delivery
        self.positions = positions
        self.ranges = ranges

    def places(self, rows: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Return where chunks go that are stored as they are, and need not be verified."""
        if not self.memory:
            return super().places(rows, sizes)
        place, requests = self.delivery.place, self.delivery.requests
        checksums, positions = self.delivery.checksums, [self.positions[row] for row in rows]
        return [
            -1 if position in checksums else place(requests[position], nbytes)
            for position, nbytes in zip(positions, sizes, strict=True)
        ]

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        """Decode chunks, and put their values where they go."""
        delivery, checksums = self.delivery, self.delivery.checksums
        for row, body in zip(rows, bodies, strict=True):
            position = self.positions[row]
            if position in checksums:
                source = self.ranges.objects[int(self.ranges.object_numbers[row])]
                verify_range(row, checksums[position], body, source)
            delivery.deliver(position, body)


def verify_range(row: int, checksum: str, body: memoryview, source: SourceObject) -> None:
    """Compare the bytes of a range with their checksum.

    Raises
    ------
    RangeError
        They do not match it.
    """
    try:
        verify_checksum(checksum, body)
    except ManifestError as error:
        raise RangeError(row, error.in_context(location=str(source.location))) from None


class WantedChunks(Struct, eq=False):
    """Chunks of one manifest array, identified by position in the selection.

    Parameters
    ----------
    store : ManifestStore
        The array's store.
    array : ChunkManifestTransformer
        The array.
    indices : ndarray of int64
        Grid indices of the chunks.
    requests : sequence of AnyRequest
        What is wanted of them.
    out : NDBuffer
        The output.
    drop_axes : tuple of int
        Axes of what is selected of a chunk that the output does not have.
    usual : CodecPipeline
        Reads what cannot be read in bulk.
    """

    store: ManifestStore
    array: ChunkManifestTransformer
    indices: npt.NDArray[np.int64]
    requests: Sequence[AnyRequest]
    out: Any
    drop_axes: tuple[int, ...]
    usual: CodecPipeline

    def _results(self, located: LocatedChunks) -> list[Any]:
        """Fill chunks without bytes, and return zarr's results as if all others had been read."""
        results: list[Any] = [{"status": "present"}] * len(self.requests)
        for position in (*located.missing, *located.empty):
            results[position] = self._fill(position)
        return results

    def _fill(self, position: int) -> dict[str, str]:
        _, spec, _, out_selection, _ = self.requests[position]
        fill = spec.fill_value
        self.out[out_selection] = spec.dtype.default_scalar() if fill is None else fill
        return {"status": "missing"}

    def _in_chunk(self, error: ManifestError, position: int) -> ManifestError:
        return self.array.in_chunk(error, self.indices[position].tolist())


class FetchedBody(Struct, frozen=True):
    """The encoded bytes of a chunk; a byte getter of zarr.

    Parameters
    ----------
    body : memoryview
        All of them.
    """

    body: memoryview

    async def get(
        self, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer:
        """Return the bytes, or some of them."""
        return self.get_sync(prototype, byte_range)

    def get_sync(self, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer:
        """Return the bytes, or some of them, without an event loop."""
        part = self.body[slice(*slice_bounds(len(self.body), requested_range(byte_range)))]
        return prototype.buffer.from_bytes(part)
