"""Whether the chunks of several arrays fit into one: their lengths and their codecs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

# More than the hours of a century, but not every element of a long series.
MOST_REFERENCES = 1_000_000


def common_length(
    lengths: Sequence[int], chunks: Sequence[int], is_last: Sequence[bool]
) -> int | None:
    """Return the greatest chunk length into which all files can be divided.

    Parameters
    ----------
    lengths, chunks : sequence of int
        Length of every file along the dimension, and of its chunks.
    is_last : sequence of bool
        Whether the file ends the array: only there may a chunk extend past the values.

    Returns
    -------
    int or None
        None if all files are empty.

    Examples
    --------
    >>> common_length([744, 672, 720], [744, 672, 720], [False, False, True])
    24
    >>> common_length([30, 30, 28], [10, 10, 10], [False, False, True])
    10
    """
    inner = last = 0
    for length, chunk, ends in zip(lengths, chunks, is_last, strict=True):
        # The part of a single chunk past the values is never referred to.
        within = length if length <= chunk else math.gcd(length, chunk)
        if length and ends:
            inner, last = math.gcd(inner, within), math.gcd(last, chunk)
        elif length:
            inner, last = math.gcd(inner, within), math.gcd(last, within)
    return max(inner, last) or None


# Parameters that only encoders use: what decoders need is in the compressed bytes themselves.
# Others decide what bytes decode to, such as the size of the elements of a separate shuffle.
_ONLY_FOR_ENCODING: Mapping[str, frozenset[str]] = {
    "gzip": frozenset(["level"]),
    "zstd": frozenset(["level", "checksum"]),
    "blosc": frozenset(["typesize", "cname", "clevel", "shuffle", "blocksize"]),
    "numcodecs.zlib": frozenset(["level"]),
    "numcodecs.gzip": frozenset(["level"]),
    "numcodecs.bz2": frozenset(["level"]),
    "numcodecs.zstd": frozenset(["level", "checksum"]),
    "numcodecs.lz4": frozenset(["acceleration"]),
    "numcodecs.lzma": frozenset(["check", "preset"]),
    "numcodecs.blosc": frozenset(["typesize", "cname", "clevel", "shuffle", "blocksize"]),
    "imagecodecs_lz4h5": frozenset(["level", "blocksize"]),
}


def decoding(codecs: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the codecs of an array's metadata, without parameters that decoding ignores.

    Examples
    --------
    >>> decoding([{"name": "bytes", "configuration": {"endian": "little"}},
    ...           {"name": "numcodecs.zlib", "configuration": {"level": 4}}])
    [('bytes', {'endian': 'little'}), ('numcodecs.zlib', {})]
    """
    found: list[tuple[str, dict[str, Any]]] = []
    for codec in codecs:
        ignored = _ONLY_FOR_ENCODING.get(codec["name"], frozenset())
        stated: Mapping[str, Any] = codec.get("configuration") or {}
        found.append((codec["name"], {k: v for k, v in stated.items() if k not in ignored}))
    return found
