"""Codecs of manifest documents: ``gzip``, ``zstd`` and ``crc32c``, in both directions.

Documents are untrusted: decoding stops at the reader's limit, so that a small
document cannot expand without bound (specification, "Encoded manifests").
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from zarr_manifest.errors import InvalidConfigurationError, InvalidManifestError, LimitExceededError
from zarr_manifest.format.checksums import crc32c
from zarr_manifest.format.limits import limit_exceeded


class LazyBytes(Protocol):
    """Bytes that are read as they are looked at, such as those of a file."""

    def __len__(self) -> int: ...

    def __getitem__(self, places: slice, /) -> bytes: ...

    def __bytes__(self) -> bytes: ...

    def read_into(self, start: int, view: memoryview, /) -> None:
        """Fill a view of memory with what begins at a place."""


# A document, as stored or decoded.
type Body = bytes | memoryview | LazyBytes


class DocumentCodec(Struct, frozen=True):
    """One element of a declaration's ``codecs``.

    Parameters
    ----------
    name : str
        Name of the codec.
    configuration : mapping
        Used by writers only.
    """

    name: str
    configuration: Mapping[str, Any] = field(default_factory=dict[str, Any])


class _Frame(Protocol):
    """One gzip member or zstd frame, being decoded."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


# How much is decoded at a time. Small, so that a decompression bomb is caught before it fills
# memory (a zstd block of 4 bytes may expand to 128 KiB), and because what follows a frame is
# copied.
_MOST_INPUT = 4096
_LEAST_INPUT = 256
_LARGEST_EXPANSION = 2**15


def _decode_frames(
    body: memoryview, new_frame: Callable[[], _Frame], limit: int, what: str
) -> bytes:
    """Decode frames to the end of the body, which must also be the end of a frame."""
    parts: list[bytes] = []
    size = position = 0
    frame = new_frame()
    while not (frame.eof and position == len(body)):
        if frame.eof:
            frame = new_frame()
        step = max(_LEAST_INPUT, min(_MOST_INPUT, (limit - size) // _LARGEST_EXPANSION))
        part = bytes(body[position : position + step])
        if not part:
            raise InvalidManifestError(f"the encoded {what} is truncated")
        decoded = frame.decompress(part)
        position += len(part) - len(frame.unused_data)
        size += len(decoded)
        if size > limit:
            raise _too_large(f"more than {limit:,}", limit, what)
        parts.append(decoded)
    return b"".join(parts)


def _too_large(size: str, limit: int, what: str) -> LimitExceededError:
    return limit_exceeded(f"the {what} has {size} bytes", limit, "manifest_bytes")


def _decode_gzip(body: memoryview, limit: int, what: str) -> bytes:
    try:
        return _decode_frames(body, lambda: zlib.decompressobj(wbits=31), limit, what)
    except zlib.error as error:
        raise InvalidManifestError(f"the {what} does not decode as gzip: {error}") from error


def _encode_gzip(body: bytes, configuration: Mapping[str, Any]) -> bytes:
    # Without a timestamp: the same document always encodes to the same bytes.
    return zlib.compress(body, configuration["level"], wbits=31)


def _decode_zstd(body: memoryview, limit: int, what: str) -> bytes:
    import zstandard  # only for documents that are encoded with it

    decompressor = zstandard.ZstdDecompressor()
    try:
        return _decode_frames(body, decompressor.decompressobj, limit, what)
    except zstandard.ZstdError as error:
        raise InvalidManifestError(f"the {what} does not decode as zstd: {error}") from error


def _encode_zstd(body: bytes, configuration: Mapping[str, Any]) -> bytes:
    import zstandard

    compressor = zstandard.ZstdCompressor(
        level=configuration["level"], write_checksum=configuration["checksum"]
    )
    return compressor.compress(body)


def _crc32c(body: bytes) -> bytes:
    return crc32c(body).to_bytes(4, "little")


def _decode_crc32c(body: memoryview, limit: int, what: str) -> bytes:
    decoded = bytes(body[:-4])
    if len(body) < 4 or _crc32c(decoded) != bytes(body[-4:]):
        raise InvalidManifestError(f"the {what} does not match the crc32c at its end")
    return decoded


def _encode_crc32c(body: bytes, configuration: Mapping[str, Any]) -> bytes:
    return body + _crc32c(body)


class _Option(Struct, frozen=True):
    """A member of a codec's configuration: its default and the range of valid values."""

    default: bool | int
    least: int = 0
    most: int = 1


class _Codec(Struct, frozen=True):
    decode: Callable[[memoryview, int, str], bytes]
    encode: Callable[[bytes, Mapping[str, Any]], bytes]
    options: Mapping[str, _Option]


# The defaults are those of zarr's codecs with the same names.
_REGISTRY = {
    "gzip": _Codec(_decode_gzip, _encode_gzip, {"level": _Option(5, 0, 9)}),
    "zstd": _Codec(
        _decode_zstd, _encode_zstd, {"level": _Option(0, -131072, 22), "checksum": _Option(False)}
    ),
    "crc32c": _Codec(_decode_crc32c, _encode_crc32c, {}),
}

KNOWN_CODECS = tuple(_REGISTRY)


def decode_body(
    codecs: Iterable[DocumentCodec],
    body: Body,
    limit: int,
    *,
    what: str = "manifest",
) -> Body:
    """Decode a manifest document; without codecs it is what it was.

    Parameters
    ----------
    codecs : iterable of DocumentCodec
        Known codecs, in the order in which the writer applied them.
    body : bytes, memoryview or LazyBytes
        The document as stored.
    limit : int
        Largest size in bytes of the stored document, the decoded document and
        every intermediate form.
    what : str
        What errors call the document.

    Raises
    ------
    InvalidManifestError
        The document is corrupt, truncated, or followed by other data.
    LimitExceededError

    Examples
    --------
    >>> gzip = complete_codec(DocumentCodec("gzip"))
    >>> decode_body([gzip], encode_body([gzip], b"{}"), 100)
    b'{}'
    """
    if len(body) > limit:
        raise _too_large(f"{len(body):,}", limit, what)
    for codec in reversed(list(codecs)):
        stored = body if isinstance(body, bytes | memoryview) else bytes(body)
        body = _REGISTRY[codec.name].decode(memoryview(stored), limit, what)
    return body


def encode_body(codecs: Iterable[DocumentCodec], document: bytes) -> bytes:
    """Apply codecs, completed by :func:`complete_codec`, to a manifest document."""
    for codec in codecs:
        document = _REGISTRY[codec.name].encode(document, codec.configuration)
    return document


def complete_codec(codec: DocumentCodec) -> DocumentCodec:
    """Return a known codec with its configuration completed by defaults, for a writer.

    Raises
    ------
    InvalidConfigurationError
        A member is unknown, or its value is invalid.

    Examples
    --------
    >>> complete_codec(DocumentCodec("zstd", {"level": 9})).configuration
    {'level': 9, 'checksum': False}
    """
    options = _REGISTRY[codec.name].options
    unknown = sorted(set(codec.configuration) - set(options))
    if unknown:
        raise InvalidConfigurationError(
            f"the manifest codec {codec.name!r} has no configuration member {unknown[0]!r}"
        )
    for name, value in codec.configuration.items():
        option = options[name]
        default, least, most = option.default, option.least, option.most
        if type(value) is not type(default) or not least <= value <= most:
            wanted = "a boolean" if isinstance(default, bool) else f"from {least} to {most}"
            raise InvalidConfigurationError(
                f"{name!r} of the manifest codec {codec.name!r} is {value!r}, not {wanted}"
            )
    defaults = {name: option.default for name, option in options.items()}
    return DocumentCodec(codec.name, {**defaults, **codec.configuration})
