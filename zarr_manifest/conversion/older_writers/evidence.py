"""Evidence in a manifest of values that VirtualiZarr 1.0 to 1.3 got wrong. Pure.

These releases concatenated arrays without checking whether one ends within a chunk or lacks
its last chunks, lost all chunks of some arrays, and unpacked fill values in the wrong byte
order. None of this can be undone without the sources.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["RECREATE", "doubt"]

RECREATE = "Create the references again, from the sources."

type Index = tuple[int, ...]


def doubt(
    metadata: Mapping[str, Any], paths: Mapping[Index, str], chunk_shape: Sequence[int]
) -> str | None:
    """Return why the values of an array may be wrong although its metadata is valid, or None.

    Parameters
    ----------
    metadata : mapping
        Valid metadata.
    paths : mapping of index to path
        Locations of chunks, by grid index; all within the chunk grid.
    chunk_shape : sequence of int

    Examples
    --------
    >>> doubt({"shape": [4], "codecs": []}, {(0,): "a.nc", (1,): "a.nc"}, [2])
    >>> doubt({"shape": [4], "codecs": []}, {}, [2])  # doctest: +ELLIPSIS
    'the manifest has no chunks: VirtualiZarr 1.1 and 1.2 also wrote that for ...'
    """
    shape: list[int] = metadata["shape"]
    pairs = zip(shape, chunk_shape, strict=True)
    missing = math.prod(-(-length // chunk) for length, chunk in pairs) - len(paths)
    if missing and not paths:
        return (
            "the manifest has no chunks: VirtualiZarr 1.1 and 1.2 also wrote that for data that "
            "they failed to read (such as with a NaN attribute), and all of it would be the fill "
            "value"
        )
    join = _doubtful_join(paths, shape, chunk_shape)
    return join or (_doubtful_fill_value(metadata) if missing else None)


def _doubtful_join(
    paths: Mapping[Index, str], shape: Sequence[int], chunk_shape: Sequence[int]
) -> str | None:
    """Return why chunks of concatenated sources may be in the wrong place, or None.

    Notes
    -----
    If the length is a multiple of the chunk length, every source ends at a chunk boundary:
    otherwise there would be one chunk too many. If not, it may be the last source that
    does not, which is fine, or another one. Most of these releases' readers took a source
    to end with its last existing chunk: if there is a chunk at the very end, that was true
    for all. (A source may hide both faults: one chunk too many, and one too few.)

    Examples
    --------
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [4], [2])
    >>> _doubtful_join({(0,): "a.nc", (1,): "a.nc"}, [3], [2])
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [3], [2])  # doctest: +ELLIPSIS
    'dimension 0 was concatenated from several sources, and its length 3 is not a multiple ...'
    >>> _doubtful_join({(0,): "a.nc", (1,): "b.nc"}, [6], [2])  # doctest: +ELLIPSIS
    'dimension 0 was concatenated from several sources, and chunks are missing at its end: ...'
    """
    for axis, (length, chunk) in enumerate(zip(shape, chunk_shape, strict=True)):
        ranges = _ranges(paths, axis)
        if not ranges or max(first for first, _ in ranges) <= min(last for _, last in ranges):
            continue
        what = f"dimension {axis} was concatenated from several sources, and"
        if length % chunk:
            return (
                f"{what} its length {length} is not a multiple of the chunk length {chunk}: if a "
                "source other than the last ends within a chunk, which these releases did not "
                "check, the elements after it are in the wrong place"
            )
        if max(last for _, last in ranges) + 1 < length // chunk:
            return (
                f"{what} chunks are missing at its end: if they are missing in a source other "
                "than the last, these releases put the chunks after it in the wrong place"
            )
    return None


def _ranges(paths: Mapping[Index, str], axis: int) -> Collection[tuple[int, int]]:
    """Return the positions of each source's first and last chunk along a dimension."""
    ranges: dict[str, tuple[int, int]] = {}
    for index, path in paths.items():
        first, last = ranges.get(path, (index[axis], index[axis]))
        ranges[path] = min(first, index[axis]), max(last, index[axis])
    return ranges.values()


def _doubtful_fill_value(metadata: Mapping[str, Any]) -> str | None:
    """Return a warning if missing chunks read as a fill value whose bytes may be swapped."""
    for codec in metadata["codecs"]:
        if codec["name"] == "numcodecs.fixedscaleoffset":
            value = metadata["fill_value"]
            if not _is_symmetric(value, codec["configuration"]):
                return (
                    f"chunks are missing, and the bytes of their fill value {value!r} may be "
                    "swapped: VirtualiZarr 1.2 and 1.3 misread fill values of big-endian elements"
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
