"""Whether chunks of many files fit into one array; uncompressed ones are split to fit.

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

from zarr_manifest.conversion.files.trees import with_metadata
from zarr_manifest.conversion.fitting import MOST_REFERENCES, common_length, decoding, same_value
from zarr_manifest.conversion.values import brief
from zarr_manifest.conversion.virtualizarr_internals import (
    INLINED,
    MISSING,
    ManifestColumns,
    chunk_counts,
    is_virtual,
)
from zarr_manifest.errors import NotConvertibleError


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
    if not all(map(_has_unencoded_chunks, arrays, chunks)):
        return Splitting(arrays)
    shape = (*chunks[0][:axis], piece, *chunks[0][axis + 1 :])
    pieces = f"pieces of {brief(shape)}"
    count = sum(math.prod(chunk_counts(array.shape, shape)) for array in arrays)
    if count > MOST_REFERENCES:
        return Splitting(
            arrays,
            problem=f"splitting them into {pieces}, which would fit, takes {count} references, "
            f"more than {MOST_REFERENCES}",
        )
    split = [_split(array, axis, piece) for array in arrays]
    return Splitting(
        split,
        note=f"its uncompressed chunks were split into {pieces}, which fit into one chunk grid: "
        f"{_count(split)} references instead of {_count(arrays)}",
    )


def _has_unencoded_chunks(array: Any, chunk_shape: tuple[int, ...]) -> bool:
    """Whether all chunks of an array are just the bytes of its values."""
    metadata: dict[str, Any] = array.metadata.to_dict()
    if [codec["name"] for codec in metadata["codecs"]] != ["bytes"]:
        return False
    size = math.prod(chunk_shape) * array.dtype.itemsize
    found = _columns(array)
    return found.paths.shape == chunk_counts(array.shape, chunk_shape) and found.all_have(size)


def _count(arrays: Sequence[Any]) -> int:
    return sum(
        int(np.count_nonzero(ManifestColumns.of(array.manifest).paths != MISSING))
        for array in arrays
    )


def _columns(array: Any) -> ManifestColumns:
    found = ManifestColumns.of(array.manifest)
    counts = chunk_counts(array.shape, array.metadata.chunk_grid.chunk_shape)
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


# Whether chunks are stored alike ---------------------------------------------------------


def with_codecs_of(first: Any, other: Any) -> Any:
    """Return a ``ManifestArray`` with the codecs of the first, if they decode its bytes alike."""
    if first.metadata is other.metadata:
        return other
    ours, theirs = (array.metadata.to_dict()["codecs"] for array in (first, other))
    if ours == theirs or decoding(ours) != decoding(theirs):
        return other
    return with_metadata(other, codecs=first.metadata.codecs)


def storage_difference(first: Any, other: Any) -> str | None:
    """Return why two ``ManifestArray``s cannot be parts of one array, or None."""
    if first.metadata is other.metadata:
        return None
    ours, theirs = first.metadata.to_dict(), other.metadata.to_dict()
    for member, what in (("data_type", "data type"), ("codecs", "codecs")):
        if ours[member] != theirs[member]:
            return f"{what} {brief(theirs[member])}"
    if ours["chunk_grid"] != theirs["chunk_grid"]:
        return f"chunks of {brief(other.metadata.chunk_grid.chunk_shape)}"
    if not same_value(ours["fill_value"], theirs["fill_value"]):
        return f"fill value {brief(theirs['fill_value'])}"
    return None


def absent_variable(like: Any, shape: Sequence[int]) -> Any:
    """Return a variable of another shape, all values of which are missing.

    Parameters
    ----------
    like : Variable
        A virtual one makes one without chunks; a loaded one gets its fill value.
    shape : sequence of int
        The other shape.

    Raises
    ------
    NotConvertibleError
        There is no value for what is missing.
    """
    if not is_virtual(like):
        return like.copy(deep=False, data=np.full(shape, _missing_value(like), like.dtype))
    metadata = dataclasses.replace(like.data.metadata, shape=tuple(shape))
    columns = ManifestColumns.of_array(shape, metadata.chunk_grid.chunk_shape)
    return like.copy(deep=False, data=columns.array(metadata))


def _missing_value(variable: Any) -> Any:
    if "_FillValue" in variable.attrs:
        return variable.attrs["_FillValue"]
    if variable.dtype.kind in "fc":
        return np.nan
    if variable.dtype.kind in "mM":
        return np.array("NaT", variable.dtype)
    raise NotConvertibleError("it has no _FillValue, by which missing values are recognised")
