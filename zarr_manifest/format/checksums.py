"""The checksum registry: which algorithms an entry may use, and how they are computed.

A checksum is written ``"<algorithm>:<lowercase hex>"`` and covers the encoded bytes
of the chunk (specification, "Checksums"). 32-bit checksums are big-endian.
"""

from __future__ import annotations

import hashlib
import reprlib
import zlib
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np
from msgspec import Struct

from zarr_manifest.errors import ChecksumMismatchError, InvalidEntryError, UnsupportedChecksumError

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable


class _Algorithm(Struct, frozen=True):
    hex_digits: int
    digest: Callable[[Buffer], str]


# The package is marked as typed, but this function is not.
_untyped_crc32c: Any = google_crc32c


def crc32c(data: Buffer) -> int:
    """Return the CRC-32C of ``bytes``, or of a flat array: memoryviews are rejected."""
    value: int = _untyped_crc32c.value(data)
    return value


def _crc32c(data: Buffer) -> str:
    return f"{crc32c(data):08x}"


def _crc32(data: Buffer) -> str:
    return f"{zlib.crc32(data):08x}"


def _md5(data: Buffer) -> str:
    # Not used for security, and so available even where a policy (FIPS) forbids md5.
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _sha256(data: Buffer) -> str:
    return hashlib.sha256(data).hexdigest()


def _sha512(data: Buffer) -> str:
    return hashlib.sha512(data).hexdigest()


_REGISTRY = {
    "crc32c": _Algorithm(8, _crc32c),
    "crc32": _Algorithm(8, _crc32),
    "md5": _Algorithm(32, _md5),
    "sha256": _Algorithm(64, _sha256),
    "sha512": _Algorithm(128, _sha512),
}

# int(digest, 16) would also accept uppercase, underscores and digits of other scripts.
_LOWERCASE_HEX = "0123456789abcdef"

# Manifests are untrusted: messages quote only so much of them.
_quote = reprlib.Repr(maxstring=160).repr


def parse_checksum(checksum: str) -> tuple[str, str]:
    """Split a checksum into its algorithm and its digest.

    Parameters
    ----------
    checksum : str
        ``"<algorithm>:<lowercase hex>"``, as in an entry.

    Returns
    -------
    algorithm, digest : str
        A registered algorithm, and its digest in lowercase hex.

    Raises
    ------
    UnsupportedChecksumError
        If the algorithm is not in the registry.
    InvalidEntryError
        If the algorithm is missing, or the digest is not lowercase hex of the right length.

    Examples
    --------
    >>> parse_checksum("crc32c:e3069283")
    ('crc32c', 'e3069283')
    """
    algorithm, colon, digest = checksum.partition(":")
    if not algorithm or not colon:
        raise InvalidEntryError(
            f"the checksum {_quote(checksum)} is not of the form '<algorithm>:<lowercase hex>'"
        )
    hex_digits = _registered(algorithm).hex_digits
    if len(digest) != hex_digits or digest.strip(_LOWERCASE_HEX):
        raise InvalidEntryError(
            f"the checksum {_quote(checksum)} does not have {hex_digits} lowercase hex digits"
        )
    return algorithm, digest


def compute_checksum(algorithm: str, data: Buffer) -> str:
    """Return the checksum of some bytes, as written in an entry.

    Parameters
    ----------
    algorithm : str
        ``"crc32c"``, ``"crc32"``, ``"md5"``, ``"sha256"`` or ``"sha512"``.
    data : buffer
        Any C-contiguous buffer, such as bytes, a memoryview or an array. It is
        not copied.

    Returns
    -------
    str
        ``"<algorithm>:<lowercase hex>"``.

    Raises
    ------
    UnsupportedChecksumError
        If the algorithm is not in the registry.
    BufferError, ValueError
        If `data` is not C-contiguous.

    Examples
    --------
    >>> compute_checksum("crc32c", b"123456789")
    'crc32c:e3069283'
    """
    registered = _registered(algorithm)
    # google_crc32c rejects a memoryview, and hashlib rejects two dimensions. A flat
    # array over the same memory suits both without a copy.
    return f"{algorithm}:{registered.digest(np.frombuffer(data, dtype=np.uint8))}"


def verify_checksum(checksum: str, data: Buffer) -> None:
    """Verify some bytes against their checksum.

    Parameters
    ----------
    checksum : str
        ``"<algorithm>:<lowercase hex>"``, as in an entry.
    data : buffer
        Any C-contiguous buffer. It is not copied.

    Raises
    ------
    ChecksumMismatchError
        If `data` does not match the checksum.
    UnsupportedChecksumError, InvalidEntryError
        As for `parse_checksum`.
    BufferError, ValueError
        If `data` is not C-contiguous.

    Examples
    --------
    >>> verify_checksum("crc32c:e3069283", b"123456789")
    >>> try:
    ...     verify_checksum("crc32c:e3069283", b"12345678")
    ... except ChecksumMismatchError as error:
    ...     print(error.problem)
    the entry gives the checksum crc32c:e3069283, but the bytes have crc32c:6087809a
    """
    algorithm = checksum.partition(":")[0]
    computed = compute_checksum(algorithm, data) if algorithm in _REGISTRY else None
    if computed != checksum:
        parse_checksum(checksum)
        raise ChecksumMismatchError(
            f"the entry gives the checksum {checksum}, but the bytes have {computed}",
            remedy="The bytes are damaged, or the manifest was written for other bytes.",
        )


def _registered(algorithm: str) -> _Algorithm:
    try:
        return _REGISTRY[algorithm]
    except KeyError:
        raise UnsupportedChecksumError(
            f"unknown checksum algorithm {_quote(algorithm)}",
            remedy=f"Known algorithms: {', '.join(_REGISTRY)}.",
        ) from None
