"""How the shards of an array are laid out: where the index is, and how to read it.

Pure. What is not laid out as is usual is left to zarr, and so is what is damaged.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from zarr.abc.codec import CodecPipeline
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

from zarr_manifest.hierarchy import codecs_of
from zarr_manifest.pipeline.decoding import (
    ChunkDecoder,
    UndecodableError,
    chunk_decoder,
    without_crc32c,
)

__all__ = ["InnerRanges", "ShardLayout", "shard_layout_of", "sharding_of"]

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


def sharding_of(usual: CodecPipeline) -> Any:
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
    sharding = sharding_of(usual)
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
