"""Checksums: what an entry states is parsed strictly and compared exactly."""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarr_manifest.errors import ChecksumMismatchError, InvalidEntryError, UnsupportedChecksumError
from zarr_manifest.format import compute_checksum, parse_checksum, verify_checksum

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable

# Of b"123456789", the customary check input: the catalogue of CRC algorithms, and coreutils.
CHECK_VALUES = {
    "crc32c": "e3069283",
    "crc32": "cbf43926",
    "md5": "25f9e794323b453885f5181f1b624d0b",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
    "sha512": (
        "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a"
        "d27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85"
    ),
}
ALGORITHMS = st.sampled_from(sorted(CHECK_VALUES))
BUFFERS: list[Callable[[bytes], Buffer]] = [
    bytes,
    bytearray,
    memoryview,
    lambda data: memoryview(bytearray(data)),
    lambda data: np.frombuffer(data, dtype=np.uint8),
    lambda data: np.array(list(data), dtype=np.uint8),
    lambda data: np.frombuffer(data, dtype=np.uint8).reshape(1, -1),
    lambda data: memoryview(b"x" + data)[1:],
]


def crc32c_bit_by_bit(data: bytes) -> int:
    """Compute CRC-32C from its definition (RFC 3720, appendix B.4), without tables."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@given(ALGORITHMS, st.binary())
def test_computed_verifies_and_parses(algorithm: str, data: bytes) -> None:
    stated = compute_checksum(algorithm, data)
    verify_checksum(stated, data)
    assert ":".join(parse_checksum(stated)) == stated
    assert parse_checksum(stated)[0] == algorithm


@given(ALGORITHMS, st.binary(min_size=1), st.data())
def test_one_changed_bit_is_noticed(algorithm: str, data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    changed[draw.draw(st.integers(0, len(data) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    stated = compute_checksum(algorithm, data)
    with pytest.raises(ChecksumMismatchError) as caught:
        verify_checksum(stated, changed)
    assert stated in str(caught.value)
    assert compute_checksum(algorithm, changed) in str(caught.value)


@given(st.binary(max_size=200))
def test_against_definitions(data: bytes) -> None:
    assert compute_checksum("crc32c", data) == f"crc32c:{crc32c_bit_by_bit(data):08x}"
    assert compute_checksum("crc32", data) == f"crc32:{zlib.crc32(data):08x}"
    for name in ("md5", "sha256", "sha512"):
        assert compute_checksum(name, data) == f"{name}:{hashlib.new(name, data).hexdigest()}"


@given(ALGORITHMS, st.binary(), st.sampled_from(BUFFERS))
def test_every_buffer_counts_as_its_bytes(
    algorithm: str, data: bytes, as_buffer: Callable[[bytes], Buffer]
) -> None:
    assert compute_checksum(algorithm, as_buffer(data)) == compute_checksum(algorithm, data)


@pytest.mark.parametrize(("algorithm", "digest"), CHECK_VALUES.items())
def test_check_values(algorithm: str, digest: str) -> None:
    assert compute_checksum(algorithm, b"123456789") == f"{algorithm}:{digest}"
    assert parse_checksum(f"{algorithm}:{digest}") == (algorithm, digest)


def test_leading_zeros_are_kept() -> None:
    assert compute_checksum("crc32c", b"") == "crc32c:00000000"
    verify_checksum("crc32:00000000", b"")


@pytest.mark.parametrize("algorithm", ["crc32c", "sha256"])
@pytest.mark.parametrize("strided", [memoryview(b"123456789")[::2], np.zeros((4, 4), "u1")[:, :2]])
def test_buffer_with_holes_is_refused(algorithm: str, strided: Buffer) -> None:
    with pytest.raises((BufferError, ValueError), match="C-contiguous"):
        compute_checksum(algorithm, strided)


@given(ALGORITHMS, st.text("0123456789abcdefABCDEF:_ \n", max_size=140))
def test_parse_accepts_only_what_is_computed(algorithm: str, digest: str) -> None:
    expected = len(CHECK_VALUES[algorithm])
    valid = len(digest) == expected and set(digest) <= set("0123456789abcdef")
    if valid:
        assert parse_checksum(f"{algorithm}:{digest}") == (algorithm, digest)
    else:
        with pytest.raises(InvalidEntryError):
            parse_checksum(f"{algorithm}:{digest}")


@pytest.mark.parametrize("algorithm", ["blake3", "SHA256", "crc32c ", "xxh3_64"])
def test_unknown_algorithm_is_named_with_the_known_ones(algorithm: str) -> None:
    with pytest.raises(UnsupportedChecksumError) as caught:
        parse_checksum(f"{algorithm}:e3069283")
    assert repr(algorithm) in str(caught.value)
    for known in CHECK_VALUES:
        assert known in str(caught.value)
    with pytest.raises(UnsupportedChecksumError):
        compute_checksum(algorithm, b"")


@pytest.mark.parametrize("stated", ["x" * 10**6, "x" * 10**6 + ":0", "md5:" + "0" * 10**6])
def test_messages_stay_short(stated: str) -> None:
    with pytest.raises((InvalidEntryError, UnsupportedChecksumError)) as caught:
        parse_checksum(stated)
    assert len(str(caught.value)) < 400
