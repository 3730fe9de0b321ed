"""Splits uncompressed chunks, so that those of many files fit into one chunk grid.

Files of 31, 28 and 31 days, each a single chunk, do not make a Zarr array: all chunks of an
array have the same length. Where the bytes are simply the values, a reference can point to
a part of a chunk as well as to a whole one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zarr_manifest.conversion.values import brief
from zarr_manifest.conversion.virtualizarr_internals import INLINED, MISSING, ManifestColumns

__all__ = ["Splitting", "common_length", "split_arrays", "split_references"]

# More than the hours of a century, but not every element of a long series.
_MAX_REFERENCES = 1_000_000


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


def split_references(
    found: ManifestColumns, axis: int, *, length: int, chunk: int, piece: int, row: int
) -> ManifestColumns:
    """Return references to pieces of chunks.

    Parameters
    ----------
    found : ManifestColumns
        To chunks that are each one run of rows.
    axis : int
        The dimension along which the rows follow one another.
    length, chunk, piece : int
        Number of rows in total, of a chunk, and of a piece as `common_length` returns it.
    row : int
        Bytes of a row.

    Examples
    --------
    >>> one = np.array(["file:///a.nc"], np.dtypes.StringDType())
    >>> found = ManifestColumns(one, np.array([100], "u8"), np.array([24], "u8"), {})
    >>> split = split_references(found, 0, length=3, chunk=3, piece=1, row=8)
    >>> split.offsets.tolist(), split.lengths.tolist()
    ([100, 108, 116], [8, 8, 8])
    """
    starts = np.arange(0, length, piece)
    numbers, within = starts // chunk, starts % chunk * row
    along = [1] * found.paths.ndim
    along[axis] = len(starts)
    paths = np.take(found.paths, numbers, axis)
    offsets = np.take(found.offsets, numbers, axis) + within.astype(np.uint64).reshape(along)
    inlined: dict[tuple[int, ...], bytes] = {}
    for place, data in found.inlined.items():
        for number in np.flatnonzero(numbers == place[axis]).tolist():
            first = int(within[number])
            inlined[*place[:axis], number, *place[axis + 1 :]] = data[first : first + piece * row]
    is_missing = paths == MISSING
    offsets[is_missing | (paths == INLINED)] = 0
    lengths = np.where(is_missing, 0, piece * row).astype(np.uint64)
    return ManifestColumns(paths, offsets, lengths, inlined)


# ------------------------------------------------------------ VirtualiZarr's arrays


@dataclass(frozen=True)
class Splitting:
    """The result of splitting the arrays of a variable, one from each file.

    Parameters
    ----------
    arrays : sequence of ManifestArray
        With chunks of one length; the given ones if they cannot be split, or
        need not be.
    note : str or None
        What was done.
    problem : str or None
        Why they were not split, although they could be.
    """

    arrays: Sequence[Any]
    note: str | None = None
    problem: str | None = None


def split_arrays(arrays: Sequence[Any], axis: int, is_last: Sequence[bool]) -> Splitting:
    """Give concatenated arrays chunks of one length, if their bytes allow it.

    Parameters
    ----------
    arrays : sequence of ManifestArray
        Of one variable, in all files.
    axis : int
        The dimension along which they are concatenated.
    is_last : sequence of bool
        Whether the array is at the end.
    """
    chunks = [tuple(array.metadata.chunk_grid.chunk_shape) for array in arrays]
    lengths = [array.shape[axis] for array in arrays]
    piece = common_length(lengths, [shape[axis] for shape in chunks], is_last)
    if piece is None or all(shape[axis] == piece for shape in chunks):
        return Splitting(arrays)
    others = {(shape[:axis], shape[axis + 1 :]) for shape in chunks}
    if len(others) != 1 or math.prod(chunks[0][:axis]) != 1:
        return Splitting(arrays)
    if not all(map(_has_plain_chunks, arrays, chunks)):
        return Splitting(arrays)
    shape = (*chunks[0][:axis], piece, *chunks[0][axis + 1 :])
    pieces = f"pieces of {brief(shape)}"
    count = sum(math.prod(_grid(array.shape, shape)) for array in arrays)
    if count > _MAX_REFERENCES:
        return Splitting(
            arrays,
            problem=f"splitting them into {pieces}, which would fit, takes {count} references, "
            f"more than {_MAX_REFERENCES}",
        )
    split = [_split(array, axis, piece) for array in arrays]
    return Splitting(
        split,
        note=f"its uncompressed chunks were split into {pieces}, which fit into one chunk grid: "
        f"{_count(split)} references instead of {_count(arrays)}",
    )


def _has_plain_chunks(array: Any, chunk_shape: tuple[int, ...]) -> bool:
    """Whether all chunks of an array are just the bytes of its values."""
    metadata: dict[str, Any] = array.metadata.to_dict()
    if [codec["name"] for codec in metadata["codecs"]] != ["bytes"]:
        return False
    size = math.prod(chunk_shape) * array.dtype.itemsize
    found = _columns(array)
    return found.paths.shape == _grid(array.shape, chunk_shape) and found.all_have(size)


def _grid(shape: Sequence[int], chunk_shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(-(-length // size) for length, size in zip(shape, chunk_shape, strict=True))


def _count(arrays: Sequence[Any]) -> int:
    return sum(
        int(np.count_nonzero(ManifestColumns.of(array.manifest).paths != MISSING))
        for array in arrays
    )


def _columns(array: Any) -> ManifestColumns:
    found = ManifestColumns.of(array.manifest)
    counts = _grid(array.shape, array.metadata.chunk_grid.chunk_shape)
    if found.paths.shape != counts and (found.paths == MISSING).all():
        # VirtualiZarr's parsers give arrays without chunks an arbitrary grid.
        return ManifestColumns.of_grid(counts)
    return found


def _split(array: Any, axis: int, piece: int) -> Any:
    grid = array.metadata.chunk_grid
    chunks = tuple(grid.chunk_shape)
    split = split_references(
        _columns(array),
        axis,
        length=array.shape[axis],
        chunk=chunks[axis],
        piece=piece,
        row=math.prod(chunks[axis + 1 :]) * array.dtype.itemsize,
    )
    shape = (*chunks[:axis], piece, *chunks[axis + 1 :])
    metadata = dataclasses.replace(
        array.metadata, chunk_grid=dataclasses.replace(grid, chunk_shape=shape)
    )
    return split.array(metadata)
