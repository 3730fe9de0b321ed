"""Encoded manifest documents: what the codecs give back, refuse, and never hold in memory."""

from __future__ import annotations

import base64
import gzip
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from zarr_manifest.format import (
    KNOWN_CODECS,
    DocumentCodec,
    complete_codec,
    decode_body,
    encode_body,
)

NO_LIMIT = 2**40

CODECS = st.one_of(
    st.builds(lambda n: DocumentCodec("gzip", {"level": n}), st.integers(0, 9)),
    st.builds(
        lambda n, c: DocumentCodec("zstd", {"level": n, "checksum": c}),
        st.integers(-5, 5),
        st.booleans(),
    ),
    st.sampled_from([DocumentCodec(name) for name in KNOWN_CODECS]),
)
BODIES = st.binary(max_size=300) | st.builds(
    lambda text, n: text * n, st.binary(min_size=1, max_size=5), st.integers(1, 30_000)
)


def frames(name: str, parts: list[bytes]) -> bytes:
    """One gzip member or zstd frame per part, encoded without the package."""
    encode = gzip.compress if name == "gzip" else zstandard.ZstdCompressor().compress
    return b"".join(encode(part) for part in parts)


@given(st.lists(CODECS, max_size=3), BODIES)
def test_decoding_undoes_encoding(codecs: list[DocumentCodec], body: bytes) -> None:
    complete = [complete_codec(codec) for codec in codecs]
    encoded = encode_body(complete, body)
    assert encode_body(complete, body) == encoded
    # Decoding does not depend on a codec's configuration.
    names = [DocumentCodec(codec.name, {"unknown": 1}) for codec in codecs]
    assert decode_body(names, encoded, NO_LIMIT) == body
    assert decode_body(names, memoryview(encoded), NO_LIMIT) == body


@given(BODIES)
def test_others_decode_what_is_encoded(body: bytes) -> None:
    def encoded(name: str) -> bytes:
        return encode_body([complete_codec(DocumentCodec(name))], body)

    assert gzip.decompress(encoded("gzip")) == body
    assert zstandard.ZstdDecompressor().decompress(encoded("zstd")) == body
    checksum = int.from_bytes(encoded("crc32c")[-4:], "little")
    assert checksum == google_crc32c.value(body)


@given(st.sampled_from(["gzip", "zstd"]), st.lists(BODIES, min_size=1, max_size=4))
def test_frames_in_a_row(name: str, parts: list[bytes]) -> None:
    body = frames(name, parts)
    assert decode_body([DocumentCodec(name)], body, NO_LIMIT) == b"".join(parts)


@given(st.sampled_from(KNOWN_CODECS), st.lists(BODIES, min_size=1, max_size=3), st.data())
def test_every_truncation_and_every_surplus_is_refused(
    name: str, parts: list[bytes], data: st.DataObject
) -> None:
    codec = DocumentCodec(name)
    if name == "crc32c":
        body = encode_body([codec], b"".join(parts))
        ends: set[int] = set()
    else:
        body = frames(name, parts)
        ends = {len(frames(name, parts[:n])) for n in range(1, len(parts) + 1)}
    stop = data.draw(st.integers(0, len(body) - 1))
    if stop not in ends and not (name == "crc32c" and stop >= 4):
        with pytest.raises(zm.errors.InvalidManifestError) as raised:
            decode_body([codec], body[:stop], NO_LIMIT)
        assert raised.value.code == "invalid_manifest"
    for surplus in (b"\0", b"{}", b"\n"):
        with pytest.raises(zm.errors.InvalidManifestError):
            decode_body([codec], body + surplus, NO_LIMIT)


@pytest.mark.parametrize("name", ["gzip", "crc32c"])
def test_every_flipped_byte_of_the_content_is_noticed(name: str) -> None:
    body = encode_body([complete_codec(DocumentCodec(name))], b'{"0": {"path": "f.nc"}}')
    for position in range(10 if name == "gzip" else 0, len(body)):
        wrong = bytearray(body)
        wrong[position] ^= 0x11
        with pytest.raises(zm.errors.InvalidManifestError):
            decode_body([DocumentCodec(name)], bytes(wrong), NO_LIMIT)


def test_skippable_frames_hold_nothing() -> None:
    skippable = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    body = skippable + frames("zstd", [b"{}"]) + skippable
    assert decode_body([DocumentCodec("zstd")], body, NO_LIMIT) == b"{}"


@given(st.lists(CODECS, max_size=2), BODIES, st.integers(-3, 3))
def test_the_limit_is_inclusive_at_every_stage(
    codecs: list[DocumentCodec], body: bytes, offset: int
) -> None:
    complete = [complete_codec(codec) for codec in codecs]
    stages = [len(encode_body(complete[:n], body)) for n in range(len(complete) + 1)]
    limit = max(0, max(stages) + offset)
    encoded = encode_body(complete, body)
    if limit >= max(stages):
        assert decode_body(complete, encoded, limit) == body
    else:
        with pytest.raises(zm.errors.LimitExceededError) as raised:
            decode_body(complete, encoded, limit)
        assert raised.value.code == "limit_exceeded"
        assert "Raise Limits(manifest_bytes" in str(raised.value)


def bomb(name: str, size: int) -> bytes:
    if name == "gzip":
        compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    else:
        compressor = zstandard.ZstdCompressor(level=3).compressobj()
    zeros = bytes(2**20)
    parts = [compressor.compress(zeros) for _ in range(size // len(zeros))]
    return b"".join([*parts, compressor.flush()])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layers"), [("gzip", 1), ("gzip", 2), ("zstd", 1)])
def test_bombs_are_not_decoded(name: str, layers: int) -> None:
    limit = 2**20
    body = bomb(name, 2**26)
    codecs = [DocumentCodec(name)] * layers
    if layers == 2:
        body = encode_body([complete_codec(DocumentCodec(name))], body)
    tracemalloc.start()
    with pytest.raises(zm.errors.LimitExceededError, match="more than 1,048,576 bytes"):
        decode_body(codecs, body, limit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Twice: a part that has just been decoded, and those before it.
    assert peak < 4 * limit + 16 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_many_empty_frames_do_not_take_for_ever(name: str) -> None:
    one = frames(name, [b""])
    body = one * 50_000
    assert decode_body([DocumentCodec(name)], body, NO_LIMIT) == b""


@pytest.mark.parametrize(
    ("codec", "says"),
    [
        (DocumentCodec("gzip", {"level": 10}), "from 0 to 9"),
        (DocumentCodec("gzip", {"level": True}), "from 0 to 9"),
        (DocumentCodec("gzip", {"level": "5"}), "from 0 to 9"),
        (DocumentCodec("gzip", {"speed": 1}), "'speed'"),
        (DocumentCodec("zstd", {"level": 23}), "to 22"),
        (DocumentCodec("zstd", {"checksum": 1}), "a boolean"),
        (DocumentCodec("crc32c", {"location": "end"}), "'location'"),
    ],
)
def test_what_cannot_be_written_with(codec: DocumentCodec, says: str) -> None:
    with pytest.raises(zm.errors.InvalidConfigurationError, match=says):
        complete_codec(codec)


# Through a store ------------------------------------------------------------------

DATA = np.arange(1, 7, dtype="u1")
MANIFEST = {str(i): {"data": base64.b64encode(DATA[2 * i : 2 * i + 2]).decode()} for i in range(3)}


def write(root: Path, codecs: list[Any], body: bytes) -> zm.ManifestStore:
    array = write_manifest_array(root, "a", DATA, (2,), "./m")
    document = array / "zarr.json"
    metadata = json.loads(document.read_text())
    metadata["storage_transformers"][0]["configuration"]["codecs"] = codecs
    document.write_text(json.dumps(metadata))
    (array / "m").write_bytes(body)
    return zm.ManifestStore(root)


PLAIN = json.dumps(MANIFEST).encode()


@pytest.mark.parametrize(
    ("codecs", "body", "code"),
    [
        (["gzip"], PLAIN, "invalid_manifest"),
        (["gzip"], gzip.compress(b"nonsense", mtime=0), "invalid_json"),
    ],
)
def test_what_does_not_decode_is_an_error_that_names_the_document(
    tmp_path: Path, codecs: list[Any], body: bytes, code: str
) -> None:
    array = zarr.open_array(write(tmp_path, codecs, body), path="a", mode="r")
    with pytest.raises(zm.ManifestError) as raised:
        array[:]
    assert raised.value.code == code
    assert (raised.value.array, raised.value.location) == ("a", "a/m")
