"""Area ``codecs``: the array's own codecs decode what the manifest refers to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from conformance.generator.arrays import Array, bytes_codec
from conformance.generator.case import Case
from conformance.generator.frames import add_crc32c, blosc_frame, gzip_member, zstd_frame

AREA = "codecs"
_SECTION = "reading"

# Data type, values, fill value: the extremes of each type, and numbers that floats cannot hold.
_TYPES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("bool", (True, False, True, True), False),
    ("int8", (-128, 127, -1, 1), 9),
    ("int16", (-32768, 32767, -2, 258), 9),
    ("int32", (-(2**31), 2**31 - 1, -2, 16909060), 9),
    ("int64", (-(2**63), 2**63 - 1, -2, 2**53 + 1), 9),
    ("uint8", (0, 255, 128, 1), 9),
    ("uint16", (0, 65535, 32768, 258), 9),
    ("uint32", (0, 2**32 - 1, 2**31, 16909060), 9),
    ("uint64", (0, 2**64 - 1, 2**63, 2**53 + 1), 9),
    ("float32", (1.5, -0.0, math.inf, 2.0**-149), 9.0),
    ("float64", (math.pi, -math.inf, 5e-324, math.nan), 9.0),
]
_BIG_ENDIAN = {"int16", "int32", "int64", "uint16", "uint32", "float32", "float64"}
_GZIP = {"name": "gzip", "configuration": {"level": 1}}
_ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
_CRC32C = {"name": "crc32c"}


def cases() -> Iterator[Case]:
    """Yield the cases of the area."""
    for data_type, values, fill in _TYPES:
        for endian in ("little", "big") if data_type in _BIG_ENDIAN else ("little",):
            array = Array(data_type=data_type, values=values, fill_value=fill, endian=endian)
            yield _read(
                data_type if endian == "little" else f"{data_type}-big-endian",
                f"Values of the type {data_type}, {endian}-endian, extremes included, come back as "
                "they are: manifests refer to bytes that other formats wrote, in their byte order.",
                array,
            )
    yield from _transposed()
    yield from _compressed()


def _read(
    name: str, description: str, array: Array, encode: Callable[[bytes], bytes] = bytes, *needs: str
) -> Case:
    entries, source = array.lay_out("data.bin", start=b"HEADER", gap=b"--", encode=encode)
    case = Case(f"{AREA}/{name}", _SECTION, description, needs=needs)
    return case.array(array=array, manifest=entries).put("a/data.bin", source).reads()


def _codecs(*more: dict[str, Any], endian: str = "little") -> tuple[dict[str, Any], ...]:
    return (bytes_codec(endian), *more)


def _transposed() -> Iterator[Case]:
    for name, shape, chunks, order in (
        ("transpose", (3, 4), (2, 3), (1, 0)),
        ("transpose-three-dimensions", (2, 3, 4), (2, 2, 3), (1, 2, 0)),
    ):
        codec = {"name": "transpose", "configuration": {"order": list(order)}}
        array = Array(
            shape=shape, chunks=chunks, order=order, codecs=(codec, bytes_codec("little"))
        )
        yield _read(
            name,
            f"Chunks that are stored with their dimensions in the order {list(order)}, as Fortran "
            "programs write them, are transposed back.",
            array,
            bytes,
            "transpose",
        )


def _compressed() -> Iterator[Case]:
    grid: dict[str, Any] = {"shape": (3, 3), "chunks": (2, 2)}
    yield _read(
        "gzip",
        "Entries that are gzip members are decompressed by the array's codec.",
        Array(**grid, codecs=_codecs(_GZIP)),
        gzip_member,
        "gzip",
    )
    yield _read(
        "zstd",
        "Entries that are zstd frames are decompressed by the array's codec.",
        Array(**grid, codecs=_codecs(_ZSTD)),
        zstd_frame,
        "zstd",
    )
    yield _read(
        "zstd-without-content-size",
        "A zstd frame need not state its content size; streaming writers leave it out.",
        Array(**grid, codecs=_codecs(_ZSTD)),
        lambda data: zstd_frame(data, content_size=False),
        "zstd",
    )
    yield _read(
        "crc32c",
        "The crc32c codec's four bytes belong to the entry; they are verified and removed.",
        Array(**grid, codecs=_codecs(_CRC32C)),
        add_crc32c,
        "crc32c",
    )
    yield _read(
        "blosc",
        "Entries that are blosc chunks are decompressed by the array's codec.",
        Array(
            **grid,
            codecs=_codecs(
                {
                    "name": "blosc",
                    "configuration": {
                        "cname": "lz4",
                        "clevel": 5,
                        "shuffle": "noshuffle",
                        "typesize": 2,
                        "blocksize": 0,
                    },
                }
            ),
        ),
        lambda data: blosc_frame(data, 2),
        "blosc",
    )
    yield _read(
        "several-codecs",
        "Codecs are undone in reverse order: crc32c, zstd, big-endian bytes, transpose.",
        Array(
            **grid,
            endian="big",
            order=(1, 0),
            codecs=(
                {"name": "transpose", "configuration": {"order": [1, 0]}},
                *_codecs(_ZSTD, _CRC32C, endian="big"),
            ),
        ),
        lambda data: add_crc32c(zstd_frame(data)),
        "zstd",
        "crc32c",
        "transpose",
    )
