"""Chunks that zarr has to look at: the same errors, the same values, and how it is found out."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
import zstandard
from zarr.codecs import BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import encode_chunks, write_manifest_array
from tests.pipeline.bulk_cases import Reversed
from tests.pipeline.bulk_outcomes import assert_same, chunk_by_chunk, outcome_of
from zarr_manifest.hierarchy import ChunkManifestTransformer
from zarr_manifest.pipeline import decoding, delivery, selection

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
@pytest.mark.parametrize("endian", combinations(["little", "big"], besides=["big"]))
def test_sound_chunks(codec: str, endian: Any, usual_pipeline: str, root: Path) -> None:
    options = {"compressors": CODECS[codec], "serializer": BytesCodec(endian=endian)}
    declare(root, encode_chunks(DATA, CHUNK, **options), **options)
    assert (check_same(root).values == DATA).all()
    assert (check_same(root, lambda array: array[5:38]).values == DATA[5:38]).all()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "chosen",
    combinations(
        [([0, 5, 1], 2), (3, [1, 6]), (slice(0, 6, 2), [7, 0]), (4, 5)], besides=[(3, [1, 6])]
    ),
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


def test_what_only_this_module_cannot_decode_is_read_by_zarr(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(root, encode_chunks(DATA, CHUNK, compressors=GzipCodec()), compressors=GzipCodec())

    def failing(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(decoding, "decode_synchronously", failing)
    assert (opened(root)[...] == DATA).all()


@pytest.mark.parametrize("entry", ["range", "end"])
def test_what_zarr_decodes_is_held_in_small_numbers(
    entry: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does not keep the larger request that it came with."""
    monkeypatch.setattr(selection, "_MOST_PREFETCHED", 100)
    monkeypatch.setattr(selection, "_MOST_ALONE", 2)
    chunks = encode_chunks(DATA, CHUNK, compressors=Reversed())
    declare(root, chunks, compressors=Reversed())
    if entry == "end":
        manifest = {key: {"path": f"../{key}.bin"} for key in chunks}
        (root / "a" / "zarr.json").unlink()
        write_manifest_array(root, "a", DATA, CHUNK, manifest, compressors=Reversed())
    held: list[int] = []
    original = delivery.Delivery.deliver

    def counting(self: Any, position: int, body: memoryview) -> None:
        original(self, position, body)
        held.append(sum(map(len, self.undecoded.values())))
        assert all(len(memoryview(one.obj)) == len(one) for one in self.undecoded.values())

    monkeypatch.setattr(delivery.Delivery, "deliver", counting)
    assert (opened(root)[...] == DATA).all()
    assert len(held) == 4
    assert max(held) <= 100


def test_zstd_goes_to_the_output_without_a_copy(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(root, encode_chunks(DATA, CHUNK, compressors=ZstdCodec()), compressors=ZstdCodec())

    def failing(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(decoding.ChunkDecoder, "decode", failing)
    assert (opened(root)[...] == DATA).all()


def test_the_codec_of_zarr_is_that_of_numcodecs() -> None:
    """Which this package calls itself, to decompress into memory that it has."""
    assert type(ZstdCodec()._zstd_codec) is numcodecs.Zstd
