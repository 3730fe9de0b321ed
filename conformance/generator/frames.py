"""Encoded bytes, written by hand: gzip, zstd, crc32c, blosc, shards.

Compressors differ between versions; these frames hold their content uncompressed (stored,
raw, copied), and never change.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import google_crc32c
import zstandard

__all__ = [
    "add_crc32c",
    "blosc_frame",
    "gzip_member",
    "shard",
    "zstd_bomb",
    "zstd_frame",
]

_untyped_crc32c: Any = google_crc32c

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_RAW, _ZSTD_RLE = 0, 1
_ZSTD_HAS_CHECKSUM = 0x04
_ZSTD_WINDOW = b"\x00\x38"
_ZSTD_LARGEST_BLOCK = 128 * 1024


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli)."""
    return int(_untyped_crc32c.value(data))


def add_crc32c(data: bytes) -> bytes:
    """Zarr's crc32c codec: the data, and four little-endian bytes."""
    return data + struct.pack("<I", crc32c(data))


def gzip_member(data: bytes) -> bytes:
    """Make one gzip member (RFC 1952) of stored blocks."""
    header = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff"
    parts = [data[i : i + 65535] for i in range(0, len(data), 65535)] or [b""]
    blocks = b"".join(
        struct.pack("<BHH", i == len(parts) - 1, len(part), len(part) ^ 0xFFFF) + part
        for i, part in enumerate(parts)
    )
    return header + blocks + struct.pack("<II", zlib.crc32(data), len(data))


def zstd_frame(data: bytes, *, content_size: bool = True, checksum: bool = False) -> bytes:
    """Make one zstd frame (RFC 8878) of raw blocks."""
    # A single segment with a content size of four bytes, or a window of 128 KiB.
    header = b"\xa0" + struct.pack("<I", len(data)) if content_size else _ZSTD_WINDOW
    end = b""
    if checksum:
        header = bytes([header[0] | _ZSTD_HAS_CHECKSUM]) + header[1:]
        # Four bytes of XXH64, whatever the compressor does with the content.
        end = zstandard.ZstdCompressor(write_checksum=True).compress(data)[-4:]
    step = _ZSTD_LARGEST_BLOCK
    parts = [data[i : i + step] for i in range(0, len(data), step)] or [b""]
    blocks = b"".join(
        _zstd_block(_ZSTD_RAW, len(part), part, last=i == len(parts) - 1)
        for i, part in enumerate(parts)
    )
    return _ZSTD_MAGIC + header + blocks + end


def zstd_bomb(before: bytes, filler: bytes, blocks: int, after: bytes) -> bytes:
    """Make a frame that does not give its size: `filler` (one byte) fills many 128 KiB blocks."""
    parts = [_zstd_block(_ZSTD_RAW, len(before), before)]
    parts += [_zstd_block(_ZSTD_RLE, _ZSTD_LARGEST_BLOCK, filler)] * blocks
    parts.append(_zstd_block(_ZSTD_RAW, len(after), after, last=True))
    return _ZSTD_MAGIC + _ZSTD_WINDOW + b"".join(parts)


def _zstd_block(kind: int, size: int, content: bytes, *, last: bool = False) -> bytes:
    return (last | kind << 1 | size << 3).to_bytes(3, "little") + content


def blosc_frame(data: bytes, item_size: int) -> bytes:
    """Make a blosc chunk whose content is copied (flag 2); the nominal compressor is LZ4."""
    flags = 0x02 | 1 << 5
    size = len(data)
    return struct.pack("<BBBBIII", 2, 1, flags, item_size, size, size, size + 16) + data


def shard(inner: Sequence[bytes | None], *, index_at: str = "end", checksum: bool = True) -> bytes:
    """Make a shard of encoded inner chunks in C order; None is a missing inner chunk."""
    index_size = 16 * len(inner) + (4 if checksum else 0)
    position = index_size if index_at == "start" else 0
    index, body = b"", b""
    for chunk in inner:
        if chunk is None:
            index += b"\xff" * 16
        else:
            index += struct.pack("<QQ", position + len(body), len(chunk))
            body += chunk
    if checksum:
        index = add_crc32c(index)
    return index + body if index_at == "start" else body + index
