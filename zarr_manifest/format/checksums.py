"""The checksum registry: which algorithms an entry may state, and how they are computed.

A stated checksum is ``"<algorithm>:<lowercase hex>"`` over the encoded bytes of
the chunk (specification, "Checksums"). The 32-bit ones are big-endian.
"""

from __future__ import annotations

import hashlib
import re
import reprlib
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import google_crc32c
import numpy as np

from zarr_manifest.errors import ChecksumMismatchError, InvalidEntryError, UnsupportedChecksumError

if TYPE_CHECKING:
    from collections.abc import Buffer, Callable

__all__ = ["compute_checksum", "parse_checksum", "verify_checksum"]


class _Algorithm(NamedTuple):
    hex_digits: int
    digest: Callable[[Buffer], str]


# The package says that it is typed, and leaves this function untyped.
_untyped_crc32c: Any = google_crc32c


def _crc32c(data: Buffer) -> str:
    return f"{_untyped_crc32c.value(data):08x}"


def _crc32(data: Buffer) -> str:
    return f"{zlib.crc32(data):08x}"


def _md5(data: Buffer) -> str:
    # Not for security, and so allowed where a policy (FIPS) forbids md5 for it.
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

# Spelled out: int(digest, 16) would also take uppercase, underscores and digits of other scripts.
_LOWERCASE_HEX = re.compile(r"[0-9a-f]*")

# Manifests are untrusted: what they say goes into messages only up to a length.
_quote = reprlib.Repr(maxstring=160).repr


def parse_checksum(stated: str) -> tuple[str, str]:
    """Split a stated checksum into its algorithm and its digest.

    Parameters
    ----------
    stated : str
        ``"<algorithm>:<lowercase hex>"``, as in an entry.

    Returns
    -------
    algorithm, digest : str
        A registered algorithm and as many lowercase hex digits as it has.

    Raises
    ------
    UnsupportedChecksumError
        If the algorithm is not in the registry.
    InvalidEntryError
        If there is no algorithm, or the digest is not lowercase hex of its length.

    Examples
    --------
    >>> parse_checksum("crc32c:e3069283")
    ('crc32c', 'e3069283')
    """
    algorithm, colon, digest = stated.partition(":")
    if not algorithm or not colon:
        raise InvalidEntryError(
            f"the checksum {_quote(stated)} is not of the form '<algorithm>:<lowercase hex>'"
        )
    hex_digits = _registered(algorithm).hex_digits
    if len(digest) != hex_digits or not _LOWERCASE_HEX.fullmatch(digest):
        raise InvalidEntryError(
            f"the checksum {_quote(stated)} does not have {hex_digits} lowercase hex digits"
        )
    return algorithm, digest


def compute_checksum(algorithm: str, data: Buffer) -> str:
    """Return the checksum of some bytes, as an entry states it.

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
    # google_crc32c refuses a memoryview and hashlib refuses two dimensions. A
    # flat array over the same memory satisfies all of them without a copy.
    return f"{algorithm}:{registered.digest(np.frombuffer(data, dtype=np.uint8))}"


def verify_checksum(stated: str, data: Buffer) -> None:
    """Compare some bytes with the checksum that is stated for them.

    Parameters
    ----------
    stated : str
        ``"<algorithm>:<lowercase hex>"``, as in an entry.
    data : buffer
        Any C-contiguous buffer. It is not copied.

    Raises
    ------
    ChecksumMismatchError
        If the checksum of `data` is another one.
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
    the entry states the checksum crc32c:e3069283, but the bytes have crc32c:6087809a
    """
    algorithm, _ = parse_checksum(stated)
    computed = compute_checksum(algorithm, data)
    if computed != stated:
        raise ChecksumMismatchError(
            f"the entry states the checksum {stated}, but the bytes have {computed}",
            remedy="The bytes are damaged, or not those that the manifest was written for.",
        )


def _registered(algorithm: str) -> _Algorithm:
    try:
        return _REGISTRY[algorithm]
    except KeyError:
        raise UnsupportedChecksumError(
            f"the checksum algorithm {_quote(algorithm)} is not known",
            remedy=f"Known are: {', '.join(_REGISTRY)}",
        ) from None
