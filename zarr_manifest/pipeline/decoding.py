"""Decode chunks in the threads that read them.

Leaves everything that it cannot decode to zarr, so that errors are zarr's own.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec

from zarr_manifest.format import crc32c
from zarr_manifest.zarr_internals import (
    CodecsOfPipeline,
    decode_synchronously,
    decodes_synchronously,
)

# Has no type hints.
_zstd: Any = importlib.import_module("numcodecs.zstd")


class UndecodableError(Exception):
    """A chunk is to be decoded by zarr."""


class ChunkDecoder(Struct, frozen=True):
    """Decodes the chunks of one array.

    Parameters
    ----------
    codecs : CodecsOfPipeline
        Of the array.
    stored_type : dtype or None
        Of the elements as they are stored, if the chunks are nothing but those, perhaps
        compressed with zstd, and perhaps with a checksum. None if there is more to it.
    compressed : bool
        Whether they are compressed with zstd.
    has_checksum : bool
        Whether a CRC-32C follows.
    """

    codecs: CodecsOfPipeline
    stored_type: np.dtype[Any] | None
    compressed: bool
    has_checksum: bool

    @property
    def is_verbatim(self) -> bool:
        """Whether chunks are stored as they are in memory."""
        return self.stored_type is not None and not (self.compressed or self.has_checksum)

    def stores(self, dtype: np.dtype[Any]) -> bool:
        """Whether the bytes of chunks, once they are decompressed, are elements of a type."""
        # Not by comparison alone: numpy says that float64 equals None.
        return self.stored_type is not None and self.stored_type == dtype

    def decode(self, body: memoryview, spec: Any) -> npt.NDArray[Any]:
        """Return a chunk, given its encoded bytes and its specification.

        Raises
        ------
        UndecodableError
            It has to be decoded by zarr.
        """
        try:
            if self.stored_type is None:
                return self._decode_with_zarr(body, spec)
            body = without_crc32c(body) if self.has_checksum else body
            stored = _zstd.decompress(body) if self.compressed else body
            decoded: npt.NDArray[Any] = np.frombuffer(stored, self.stored_type)
            return decoded.reshape(spec.shape)
        # For any reason: zarr raises its own error.
        except Exception as error:
            raise UndecodableError from error

    def decode_into(self, body: memoryview, view: memoryview) -> bool:
        """Decode a chunk that is not stored as it is in memory to where it goes.

        False if its size is not known to be the same.
        """
        body = without_crc32c(body) if self.has_checksum else body
        if not self.compressed:
            if len(body) != len(view):
                return False
            view[:] = body
            return True
        import zstandard

        try:
            if zstandard.frame_content_size(body) != len(view):
                return False
            _zstd.decompress(body, view)
        except Exception as error:
            raise UndecodableError from error
        return True

    def _decode_with_zarr(self, body: memoryview, spec: Any) -> npt.NDArray[Any]:
        codecs = self.codecs
        specs = [spec]
        for codec in codecs.array_array:
            specs.append(codec.resolve_metadata(specs[-1]))
        encoded = spec.prototype.buffer.from_bytes(body)
        for codec in reversed(codecs.bytes_bytes):
            encoded = decode_synchronously(codec, encoded, specs[-1])
        array = decode_synchronously(codecs.array_bytes, encoded, specs[-1])
        for codec, known in zip(reversed(codecs.array_array), specs[-2::-1], strict=True):
            array = decode_synchronously(codec, array, known)
        decoded: npt.NDArray[Any] = array.as_numpy_array()
        if decoded.shape != spec.shape:
            raise ValueError("the chunk has another shape")
        return decoded


def chunk_decoder(codecs: CodecsOfPipeline | None, spec: Any) -> ChunkDecoder | None:
    """Return the decoder for the chunks of an array; None if zarr has to decode them.

    Parameters
    ----------
    codecs : CodecsOfPipeline or None
        The array's codecs, if they are known.
    spec : ArraySpec
        The specification of a chunk.
    """
    if codecs is None:
        return None
    every = (*codecs.array_array, codecs.array_bytes, *codecs.bytes_bytes)
    if not all(map(decodes_synchronously, every)):
        return None
    kinds: list[type[Any]] = [type(codec) for codec in codecs.bytes_bytes]
    has_checksum = kinds[-1:] == [Crc32cCodec]
    compressors = kinds[:-1] if has_checksum else kinds
    simple = (
        not codecs.array_array
        and type(codecs.array_bytes) is BytesCodec
        and compressors in ([], [ZstdCodec])
    )
    stored = _stored_type(codecs.array_bytes, spec) if simple else None
    return ChunkDecoder(codecs, stored, bool(compressors), has_checksum)


def without_crc32c(body: memoryview) -> memoryview:
    """Return the bytes that a CRC-32C follows, which they must match.

    Raises
    ------
    UndecodableError
        They do not.
    """
    before, stated = body[:-4], body[-4:]
    computed = crc32c(np.frombuffer(before, np.uint8))
    if stated.tobytes() != computed.to_bytes(4, "little"):
        raise UndecodableError
    return before


def _stored_type(codec: BytesCodec, spec: Any) -> np.dtype[Any] | None:
    dtype: np.dtype[Any] = spec.dtype.to_native_dtype()
    if dtype.kind not in "biufcmM":
        return None
    if dtype.itemsize == 1:
        return dtype
    endian: Any = getattr(codec.endian, "value", codec.endian)
    return None if endian is None else dtype.newbyteorder(endian)
