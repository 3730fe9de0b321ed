"""Chunks that zarr has to look at: the same errors, the same values, and how it is found out."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
import zstandard
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.registry import register_codec

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import encode_chunks, write_manifest_array
from tests.pipeline.bulk_cases import Reversed
from tests.pipeline.bulk_outcomes import assert_same, chunk_by_chunk, outcome_of
from zarr_manifest.hierarchy import ChunkManifestTransformer
from zarr_manifest.sources import ObjectPart

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
DATA = np.arange(1, 41, dtype="<i4")
CHUNK = 10

type Spoil = Callable[[bytes], bytes]


def declare(
    root: Path, chunks: dict[str, bytes], data: Any = DATA, shape: Any = CHUNK, **options: Any
) -> None:
    root.mkdir(exist_ok=True)
    manifest = {}
    for key, body in chunks.items():
        (root / f"{key}.bin").write_bytes(body)
        manifest[key] = {"path": f"../{key}.bin", "offset": 0, "length": len(body)}
    write_manifest_array(root, "a", data, shape, manifest, fill_value=7, **options)


def opened(root: Path) -> Any:
    return zarr.open_array(zm.ManifestStore(root, read_only=True), path="a", mode="r")


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i8", ">f8"])
@pytest.mark.parametrize(
    "codecs",
    [
        {"filters": [TransposeCodec(order=(2, 1, 0))], "compressors": None},
        {"filters": [TransposeCodec(order=(1, 2, 0))], "compressors": [ZstdCodec()]},
        {"compressors": [GzipCodec()]},
        {"compressors": [BloscCodec()]},
        {"compressors": [ZstdCodec(), GzipCodec()]},
    ],
    ids=["transposed", "transposed, zstd", "gzip", "blosc", "zstd, gzip"],
)
def test_codecs_that_zarr_decodes_fill_no_memory_as_they_are(
    codecs: dict[str, Any], dtype: str, root: Path
) -> None:
    """numpy says that float64, its default, equals None: the type of what is not known."""
    data = np.arange(1, 37).reshape(6, 2, 3).astype(dtype)
    encoded = encode_chunks(data, (2, 2, 3), **codecs)
    declare(root, encoded, data, (2, 2, 3), **codecs)
    np.testing.assert_array_equal(opened(root)[...], data)
    np.testing.assert_array_equal(opened(root)[2:4], data[2:4])


def check_same(root: Path, select: Callable[[Any], Any] = lambda array: array[...]) -> Any:
    expected = outcome_of(lambda: select(chunk_by_chunk(opened(root))))
    actual = outcome_of(lambda: select(opened(root)))
    assert_same(actual, expected)
    return actual


def _frames(body: bytes) -> bytes:
    """Two frames, the first of which has all of the values."""
    return body + zstandard.compress(b"more")


def _without_size(body: bytes) -> bytes:
    raw = zstandard.decompress(body)
    return zstandard.ZstdCompressor(write_content_size=False).compress(raw)


def _in_two_frames(body: bytes) -> bytes:
    raw = zstandard.decompress(body)
    return zstandard.compress(raw[:13]) + zstandard.compress(raw[13:])


def _of_other_size(body: bytes) -> bytes:
    return zstandard.compress(zstandard.decompress(body)[:-4])


SPOILS: dict[str, list[Spoil]] = {
    "none": [lambda body: body[:-1], lambda body: body[:-4], lambda body: body + body],
    "zstd": [
        lambda _: b"garbage",
        lambda body: body[:-1],
        lambda body: body + b"\0",
        lambda body: body[:12] + bytes(len(body) - 12),
        lambda _: b"\x28\xb5\x2f\xfd",
        _frames,
        _without_size,
        _in_two_frames,
        _of_other_size,
    ],
    "gzip": [lambda _: b"garbage", lambda body: zlib.compress(body)],
    "crc32c": [lambda body: body[:-1] + bytes([body[-1] ^ 1]), lambda body: body[:2]],
    "reversed": [lambda body: body[1:]],
}
CODECS: dict[str, Any] = {
    "none": None,
    "zstd": ZstdCodec(),
    "gzip": GzipCodec(),
    "crc32c": Crc32cCodec(),
    "reversed": Reversed(),
}


_SPOILED = [(codec, spoil) for codec, all_ in SPOILS.items() for spoil in all_]
_FIRST = [(codec, all_[0]) for codec, all_ in SPOILS.items()]


@pytest.mark.parametrize(
    ("codec", "spoil"),
    [pytest.param(*each, marks=[] if each in _FIRST else [pytest.mark.slow]) for each in _SPOILED],
)
def test_spoiled_chunks(codec: str, spoil: Spoil, usual_pipeline: str, root: Path) -> None:
    """Also where chunks would go to the output as they are, or only some of the values do."""
    chunks = encode_chunks(DATA, CHUNK, compressors=CODECS[codec])
    chunks["2"] = spoil(chunks["2"])
    declare(root, chunks, compressors=CODECS[codec])
    check_same(root)
    check_same(root, lambda array: array[3:37:2])
    check_same(root, lambda array: array[:20])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "chosen", combinations([([0, 5, 1], 2), (3, [1, 6]), (4, 5)], besides=[(3, [1, 6])])
)
def test_axes_that_the_output_does_not_have(
    codec: str, chosen: Any, usual_pipeline: str, root: Path
) -> None:
    values = np.arange(48, dtype="<i4").reshape(6, 8)
    chunks = encode_chunks(values, (3, 4), compressors=CODECS[codec])
    declare(root, chunks, values, (3, 4), compressors=CODECS[codec])
    check_same(root, lambda array: array.oindex[chosen])
    check_same(root, lambda array: array.oindex[chosen[::-1]])


def test_a_chunk_that_has_vanished_since_it_was_located_is_missing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry without a length is looked up again, and its document may have been replaced."""
    declare(root, {})
    manifest = {key: {"path": "../o.bin"} for key in "0123"}
    (root / "a" / "manifest.json").write_text(json.dumps(manifest))

    async def get(*_: Any) -> None:
        return None

    monkeypatch.setattr(ChunkManifestTransformer, "get", get)
    assert (opened(root)[...] == 7).all()


def into_other_memory(array: Any) -> Any:
    from zarr.buffer import cpu

    out = cpu.NDBuffer.create(shape=array.shape, dtype=np.dtype("f8"))
    array.get_basic_selection(..., out=out)
    return out.as_numpy_array()


@pytest.mark.parametrize("codec", CODECS)
def test_memory_of_another_type(codec: str, usual_pipeline: str, root: Path) -> None:
    declare(
        root,
        encode_chunks(DATA, CHUNK, compressors=CODECS[codec]),
        compressors=CODECS[codec],
    )
    assert (check_same(root, into_other_memory).values == DATA).all()


class Hungry(Reversed):
    """Decodes in an event loop only: anywhere else there is too little memory for it."""

    def to_dict(self) -> Any:
        return {"name": "test.hungry"}

    def _decode_sync(self, *_: Any) -> Any:
        raise MemoryError


register_codec("test.hungry", Hungry)


def test_what_only_this_package_cannot_decode_is_read_by_zarr(root: Path) -> None:
    declare(root, encode_chunks(DATA, CHUNK, compressors=Hungry()), compressors=Hungry())
    assert (opened(root)[...] == DATA).all()


MEGABYTE = 2**20


@pytest.mark.parametrize(
    ("count", "size", "length", "most"),
    [(5, 16 * MEGABYTE, 16 * MEGABYTE, 4), (48, 8, None, 20)],
    ids=["ranges", "to the end"],
)
def test_what_zarr_decodes_is_held_in_small_numbers(
    count: int,
    size: int,
    length: int | None,
    most: int,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """64 MiB; and ten chunks that are read to the end of their objects, besides ten on the way."""
    reads = decoded = 0
    held: list[int] = []

    class Reader:
        async def read_range(self, key: str, start: int, stop: int | None) -> ObjectPart:
            nonlocal reads
            reads += 1
            held.append(reads - decoded)
            return ObjectPart(body, size=size)

    async def decode(_: object, body: Any, spec: Any) -> Any:
        nonlocal decoded
        decoded += 1
        return body

    monkeypatch.setattr(Reversed, "_decode_single", decode)
    body = bytes(size)
    stated = {} if length is None else {"length": length}
    manifest = {str(number): {"path": f"own://x/{number}", **stated} for number in range(count)}
    values = np.broadcast_to(np.uint8(0), count * size)
    write_manifest_array(root, "a", values, size, manifest, fill_value=7, compressors=Reversed())
    store = zm.ManifestStore(root, allow={"own://x/": Reader()}, read_only=True)
    array: Any = zarr.open_array(store, path="a", mode="r")
    assert not array[...].any()
    assert (reads, decoded) == (count, count)
    assert max(held) <= most


def test_zstd_goes_to_the_output_without_a_copy(root: Path) -> None:
    values = np.zeros(8 * MEGABYTE, "u1")
    chunks = encode_chunks(values, values.shape, compressors=ZstdCodec())
    declare(root, chunks, values, values.shape, compressors=ZstdCodec())
    array = opened(root)
    array[...]
    tracemalloc.start()
    try:
        assert not array[...].any()
        assert tracemalloc.get_traced_memory()[1] < 12 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_the_codec_of_zarr_is_that_of_numcodecs() -> None:
    """Which this package calls itself, to decompress into memory that it has."""
    assert type(ZstdCodec()._zstd_codec) is numcodecs.Zstd
