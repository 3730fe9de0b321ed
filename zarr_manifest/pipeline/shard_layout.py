"""The layout of an array's shards, and the inner chunks that a selection wants.

Pure. Unusual layouts are left to zarr, and so is what is damaged. Boxes, which most selections are,
are divided here, without an object per inner chunk; zarr divides all others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import CodecPipeline
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

from zarr_manifest.pipeline.decoding import (
    ChunkDecoder,
    UndecodableError,
    chunk_decoder,
    without_crc32c,
)
from zarr_manifest.pipeline.delivery import ChunkRequest
from zarr_manifest.zarr_internals import codecs_of, select_inner_chunks

_MISSING = 2**64 - 1
_CHECKSUM_BYTES = 4


class InnerRanges(NamedTuple):
    """Where inner chunks lie within their shard, one a row.

    Attributes
    ----------
    starts, stops : ndarray of int64
        First byte, and one past the last byte.
    missing : ndarray of bool
        Whether the shard has no bytes for the inner chunk.
    """

    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    missing: npt.NDArray[np.bool_]


class ShardLayout(NamedTuple):
    """The layout that all shards of an array have.

    Attributes
    ----------
    chunk_shape : tuple of int
        Of inner chunks.
    at_start : bool
        Whether the index is at the start of a shard, not at its end.
    number_type : dtype
        Of the numbers in the index.
    has_checksum : bool
        Whether a checksum follows them.
    spec : ArraySpec
        Of an inner chunk.
    decoder : ChunkDecoder
        For inner chunks.
    """

    chunk_shape: tuple[int, ...]
    at_start: bool
    number_type: np.dtype[Any]
    has_checksum: bool
    spec: Any
    decoder: ChunkDecoder

    def grid_shape(self, shard_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of inner chunks in a shard, in each dimension."""
        return tuple(n // c for n, c in zip(shard_shape, self.chunk_shape, strict=True))

    def index_bytes(self, grid_shape: tuple[int, ...]) -> int:
        """Return the size of the index of a shard of so many inner chunks."""
        return 16 * math.prod(grid_shape) + _CHECKSUM_BYTES * self.has_checksum

    def index_within(self, nbytes: int, grid_shape: tuple[int, ...]) -> tuple[int, int]:
        """Return where the index lies in a shard of so many bytes, which are enough for it."""
        size = self.index_bytes(grid_shape)
        return (0, size) if self.at_start else (nbytes - size, nbytes)

    def inner_ranges(
        self, index: memoryview, numbers: npt.NDArray[np.int64], nbytes: int
    ) -> InnerRanges:
        """Return where some inner chunks are.

        Parameters
        ----------
        index : memoryview
            The encoded index.
        numbers : ndarray of int64
            The inner chunks, counted in C order.
        nbytes : int
            Size of the shard.

        Raises
        ------
        UndecodableError
            The index is damaged, or states a range outside the shard.
        """
        index = without_crc32c(index) if self.has_checksum else index
        entries = np.frombuffer(index, self.number_type).reshape(-1, 2)[numbers]
        entries = entries.astype(np.uint64, copy=False)
        offsets, lengths = entries[:, 0], entries[:, 1]
        missing = offsets == _MISSING
        if (missing != (lengths == _MISSING)).any():
            raise UndecodableError
        # An offset and a length could wrap around when they are added up.
        inside = (
            (lengths > 0) & (lengths <= nbytes) & (offsets <= nbytes - np.minimum(lengths, nbytes))
        )
        if not (inside | missing).all():
            raise UndecodableError
        starts = np.where(missing, 0, offsets).astype(np.int64)
        return InnerRanges(starts, starts + np.where(missing, 0, lengths).astype(np.int64), missing)


def _sharding_of(usual: CodecPipeline) -> Any:
    """Return the codec of zarr that is all that a pipeline consists of; None if there is more."""
    codecs = codecs_of(usual)
    if codecs is None or codecs.array_array or codecs.bytes_bytes:
        return None
    return codecs.array_bytes if type(codecs.array_bytes) is ShardingCodec else None


def shard_layout_of(usual: CodecPipeline, spec: Any) -> ShardLayout | None:
    """Return how the shards of an array are laid out; None if zarr has to read them.

    Parameters
    ----------
    usual : CodecPipeline
        Of the array.
    spec : ArraySpec
        Of one of its shards.
    """
    sharding = _sharding_of(usual)
    if sharding is None or not spec.shape:
        return None
    index_codecs = list(sharding.index_codecs)
    if list(map(type, index_codecs)) not in ([BytesCodec], [BytesCodec, Crc32cCodec]):
        return None
    order = {"little": "<u8", "big": ">u8"}.get(_value(index_codecs[0].endian))
    inner_spec = replace(spec, shape=sharding.chunk_shape)
    # They know the data type already, as the pipeline of the array does.
    inner = codecs_of(type(usual).from_codecs(sharding.codecs))
    if order is None or inner is None or isinstance(inner.array_bytes, ShardingCodec):
        return None
    decoder = chunk_decoder(inner, inner_spec)
    if decoder is None:
        return None
    return ShardLayout(
        sharding.chunk_shape,
        _value(sharding.index_location) == "start",
        np.dtype(order),
        len(index_codecs) == 2,
        inner_spec,
        decoder,
    )


def _value(member: Any) -> Any:
    """Return the text of what older releases of zarr keep as an enumeration."""
    return getattr(member, "value", member)


class InnerRequests(ABC):
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
    is_everything = False

    def __len__(self) -> int:
        return len(self.numbers)

    @abstractmethod
    def __getitem__(self, position: int, /) -> ChunkRequest:
        """Return what is wanted of an inner chunk."""


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


def tuple_of(selection: Any) -> tuple[Any, ...]:
    """Return a selection as one part for each dimension."""
    parts: Any = selection
    return parts if isinstance(selection, tuple) else (selection,)


def _strides(grid_shape: tuple[int, ...]) -> list[int]:
    return [math.prod(grid_shape[i + 1 :]) for i in range(len(grid_shape))]


class _BoxRequests(InnerRequests):
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


class _AnyRequests(InnerRequests):
    """Any selection, as zarr divides it."""

    def __init__(self, layout: ShardLayout, selection: Any, shape: tuple[int, ...]) -> None:
        self._spec = layout.spec
        selected = select_inner_chunks(selection, shape, layout.chunk_shape)
        self.shape, self.result_shape = selected.shape, selected.result_shape
        self._parts = selected.parts
        indices = np.array([part[0] for part in self._parts], np.int64).reshape(-1, len(shape))
        self.numbers = indices @ np.array(_strides(layout.grid_shape(shape)), np.int64)

    def __getitem__(self, position: int) -> ChunkRequest:
        _, selection, place = self._parts[position]
        return ChunkRequest(None, self._spec, selection, place, False)
