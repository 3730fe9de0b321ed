"""What a manifest shows about values that VirtualiZarr 1.0 to 1.3 got wrong. Pure.

They joined arrays without looking whether one ends within a chunk or lacks its last chunks,
lost all chunks of some, and unpacked fill values in the wrong byte order. None of it can be
undone without the sources.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["ANEW", "doubt"]

ANEW = "Make the references anew, from the sources."

type Index = tuple[int, ...]


def doubt(
    metadata: Mapping[str, Any], paths: Mapping[Index, str], chunk_shape: Sequence[int]
) -> str | None:
    """Say why the values of an array may be wrong although its metadata is valid.

    Parameters
    ----------
    metadata : mapping
        Valid metadata.
    paths : mapping of index to path
        Where the chunks are, by grid index; all within the chunk grid.
    chunk_shape : sequence of int

    Examples
    --------
    >>> doubt({"shape": [4], "codecs": []}, {(0,): "a.nc", (1,): "a.nc"}, [2])
    >>> doubt({"shape": [4], "codecs": []}, {}, [2])  # doctest: +ELLIPSIS
    'the manifest names no chunk: VirtualiZarr 1.1 and 1.2 wrote that also of ...'
    """
    shape: list[int] = metadata["shape"]
    pairs = zip(shape, chunk_shape, strict=True)
    missing = math.prod(-(-length // chunk) for length, chunk in pairs) - len(paths)
    if missing and not paths:
        return (
            "the manifest names no chunk: VirtualiZarr 1.1 and 1.2 wrote that also of data that "
            "they failed to read, as where an attribute is NaN, and all of it would be the fill "
            "value"
        )
    join = _doubtful_join(paths, shape, chunk_shape)
    return join or (_doubtful_fill_value(metadata) if missing else None)


def _doubtful_join(
    paths: Mapping[Index, str], shape: Sequence[int], chunk_shape: Sequence[int]
) -> str | None:
    """Say why chunks of sources that were joined may be at the wrong place.

    Notes
    -----
    Where the length is a multiple of that of a chunk, every source ends with a chunk: else
    there would be one chunk too many. Otherwise it may be the last that does not, as it
    should be, or another. Most readers of these releases took a source to end with the
    last chunk that it has: if there is a chunk at the very end, that was true of all.
    (A source that does both may hide it: one chunk too many, and one too few.)

    Examples
    --------
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [4], [2])
    >>> _doubtful_join({(0,): "a.nc", (1,): "a.nc"}, [3], [2])
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [3], [2])  # doctest: +ELLIPSIS
    'dimension 0 was joined from several sources, and its length 3 is no multiple of ...'
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [6], [2])  # doctest: +ELLIPSIS
    'dimension 0 was joined from several sources, and chunks are missing at its end: ...'
    """
    for axis, (length, chunk) in enumerate(zip(shape, chunk_shape, strict=True)):
        ranges = _ranges(paths, axis)
        if not ranges or max(first for first, _ in ranges) <= min(last for _, last in ranges):
            continue
        what = f"dimension {axis} was joined from several sources, and"
        if length % chunk:
            return (
                f"{what} its length {length} is no multiple of the chunk length {chunk}: if a "
                "source other than the last ends within a chunk, which these releases did not "
                "look at, the elements behind it are at the wrong place"
            )
        if max(last for _, last in ranges) + 1 < length // chunk:
            return (
                f"{what} chunks are missing at its end: if they are missing in a source other "
                "than the last, these releases put the chunks behind it at the wrong place"
            )
    return None


def _ranges(paths: Mapping[Index, str], axis: int) -> Collection[tuple[int, int]]:
    """Return where along a dimension the first and the last chunk of each source are."""
    ranges: dict[str, tuple[int, int]] = {}
    for index, path in paths.items():
        first, last = ranges.get(path, (index[axis], index[axis]))
        ranges[path] = min(first, index[axis]), max(last, index[axis])
    return ranges.values()


def _doubtful_fill_value(metadata: Mapping[str, Any]) -> str | None:
    """Say that missing chunks would be read as a fill value whose bytes may be swapped."""
    for codec in metadata["codecs"]:
        if codec["name"] == "numcodecs.fixedscaleoffset":
            value = metadata["fill_value"]
            if not _is_symmetric(value, codec["configuration"]):
                return (
                    f"chunks are missing, and the bytes of their fill value {value!r} may be "
                    "swapped: VirtualiZarr 1.2 and 1.3 unpacked that of big-endian elements wrongly"
                )
    return None


def _is_symmetric(value: object, packing: Mapping[str, Any]) -> bool:
    """Whether a fill value is the same in both byte orders of the packed elements."""
    packed = np.dtype(packing.get("astype") or packing["dtype"])
    if packed.str[0] != ">":
        return True
    if not isinstance(value, int | float):
        return False
    number = (value - packing["offset"]) * packing["scale"]
    with np.errstate(invalid="ignore", over="ignore"):
        content = np.asarray(number if packed.kind == "f" else np.rint(number)).astype(packed)
    return content.tobytes() == content.byteswap().tobytes()
