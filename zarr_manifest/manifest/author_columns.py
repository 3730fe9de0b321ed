"""Columns of references -> rows in C order of the chunks, with the same checks as entries.

For millions of references given as arrays of numbers: no Python loop over them, and no copy of
columns that are in order already and of the right type. Pure.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.errors import InvalidChunkKeyError, InvalidEntryError, LimitExceededError
from zarr_manifest.format import format_canonical, grid_index, number_chunks
from zarr_manifest.showing import counted

__all__ = [
    "TO_THE_END",
    "Columns",
    "NumberedPaths",
    "PathRows",
    "path_rows",
    "with_rows_without_path",
]

# Value of the length column for entries that run to the end of their object.
TO_THE_END = -1

_LARGEST_INTEGER = 2**53 - 1

# Number of rows looked at together.
_AT_ONCE = 2**16


class NumberedPaths(NamedTuple):
    """A column of paths by number, so that repeated paths are processed once.

    Attributes
    ----------
    numbers : ndarray of int32
        Index of each row's path; negative for a row without one.
    paths : sequence of str
        The paths to which the numbers refer: distinct and not empty.
    """

    numbers: npt.NDArray[np.int32]
    paths: Sequence[str]


class Columns(NamedTuple):
    """The references of a manifest: one value per row, in C order of the chunks.

    Attributes
    ----------
    numbers : ndarray of int64
        C-order number of each row's chunk in the grid.
    offsets, lengths : ndarray of int64
        In bytes; a length of -1 means the rest of the object.
    path_numbers : ndarray of int32
        Index of each row's path; negative for a chunk that is inline or explicitly empty.
    """

    numbers: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path_numbers: npt.NDArray[np.int32]

    def __repr__(self) -> str:
        return f"<Columns: {counted(len(self.numbers), 'row')}>"


class PathRows(Struct, frozen=True):
    """Rows with a path, in C order of the chunks.

    Attributes
    ----------
    numbers : ndarray of int64, sorted
        C-order number of each row's chunk in the grid; None if that is the number of the row.
    offsets, lengths : ndarray of int64
        In bytes; a length of -1 means the rest of the object.
    path_numbers : ndarray of int32
        Index of each row's path.
    paths : tuple of str
        Distinct paths, in order of first use.
    """

    numbers: npt.NDArray[np.int64] | None
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path_numbers: npt.NDArray[np.int32]
    paths: tuple[str, ...]


def path_rows(
    grid_shape: tuple[int, ...],
    paths: str | npt.ArrayLike | NumberedPaths,
    offsets: npt.ArrayLike | None,
    lengths: npt.ArrayLike | None,
    indices: npt.ArrayLike | None,
) -> PathRows:
    """Return the rows that have a path; see :meth:`Manifest.from_columns`."""
    numbers = None if indices is None else _chunk_numbers(grid_shape, np.asarray(indices))
    count = _count(grid_shape) if numbers is None else len(numbers)
    path_numbers, names = _path_column(paths, count)
    first = _integers("offsets", offsets, count, 0)
    sizes = _integers("lengths", lengths, count, TO_THE_END)
    if count and int(path_numbers.min()) < 0:
        rows = np.flatnonzero(path_numbers >= 0)
        numbers = rows if numbers is None else numbers[rows]
        path_numbers, first, sizes = path_numbers[rows], first[rows], sizes[rows]
    _require_valid(grid_shape, numbers, first, sizes)
    if numbers is not None and not (numbers[1:] > numbers[:-1]).all():
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        _require_distinct(grid_shape, numbers)
        path_numbers, first, sizes = path_numbers[order], first[order], sizes[order]
    return PathRows(numbers, first, sizes, path_numbers, names)


def with_rows_without_path(
    grid_shape: tuple[int, ...],
    rows: PathRows,
    chunks: Sequence[tuple[int, ...]],
    kinds: Sequence[int],
    lengths: Sequence[int],
) -> PathRows:
    """Insert rows without a path, which have a kind in place of a path number."""
    indices = np.array(chunks, np.int64).reshape(len(chunks), len(grid_shape))
    with_path = np.arange(len(rows.offsets)) if rows.numbers is None else rows.numbers
    numbers = np.concatenate([with_path, _chunk_numbers(grid_shape, indices)])
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    _require_distinct(grid_shape, numbers)
    return PathRows(
        numbers,
        np.concatenate([rows.offsets, np.zeros(len(chunks), np.int64)])[order],
        np.concatenate([rows.lengths, np.array(lengths, np.int64)])[order],
        np.concatenate([rows.path_numbers, np.array(kinds, np.int32)])[order],
        rows.paths,
    )


def _chunk_numbers(
    grid_shape: tuple[int, ...], indices: npt.NDArray[np.generic]
) -> npt.NDArray[np.int64]:
    """Return the C-order numbers of chunks, given as an array of shape (chunks, dimensions).

    Raises
    ------
    InvalidChunkKeyError
        A grid index is outside the grid.
    """
    _count(grid_shape)
    if indices.ndim != 2 or indices.shape[1] != len(grid_shape) or indices.dtype.kind not in "iu":
        raise InvalidChunkKeyError(
            f"'indices' is an array of {indices.dtype} and shape {indices.shape}, "
            f"not of integers and shape (chunks, {len(grid_shape)})"
        )
    numbers = np.empty(len(indices), np.int64)
    for rows in _batches(len(indices)):
        found = indices[rows].astype(np.int64)
        outside = ((found < 0) | (found >= np.array(grid_shape, np.int64))).any(axis=1)
        if outside.any():
            index = cast("list[int]", found[int(outside.argmax())].tolist())
            raise InvalidChunkKeyError(
                f"there is no chunk {index} in a chunk grid of shape {list(grid_shape)}"
            )
        numbers[rows] = number_chunks(found, grid_shape)
    return numbers


def _batches(count: int) -> Iterator[slice]:
    """Yield slices of rows, so that what is computed of them needs little memory."""
    return (slice(start, start + _AT_ONCE) for start in range(0, count, _AT_ONCE))


def _require_distinct(grid_shape: tuple[int, ...], numbers: npt.NDArray[np.int64]) -> None:
    """Reject a chunk that occurs twice in sorted numbers."""
    twice = np.flatnonzero(numbers[1:] == numbers[:-1])
    if len(twice):
        chunk = format_canonical(grid_index(grid_shape, int(numbers[int(twice[0])])))
        raise InvalidChunkKeyError("the columns name this chunk twice", chunk=chunk)


def _count(grid_shape: tuple[int, ...]) -> int:
    count = math.prod(grid_shape)
    if max(count, *grid_shape, 0) >= 2**62:
        raise LimitExceededError(f"the chunk grid is too large: its shape is {list(grid_shape)}")
    return count


def _path_column(
    paths: str | npt.ArrayLike | NumberedPaths, count: int
) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Return the path number of each row, -1 for a row without one, and the distinct paths."""
    if isinstance(paths, str):
        return _same(0 if paths else -1, count, np.int32), (paths,) if paths else ()
    if isinstance(paths, NumberedPaths):
        return _in_order_of_use(paths)
    column = np.asarray(paths).reshape(-1)
    if column.size and column.dtype.kind not in "UOT":
        raise InvalidEntryError(f"'paths' holds {column.dtype}, not strings")
    if len(column) != count:
        raise InvalidEntryError(
            f"'paths' has {counted(len(column), 'value')} for {counted(count, 'chunk')}"
        )
    table = defaultdict[str, int](None, {"": -1})
    table.default_factory = lambda: len(table) - 1
    numbers = np.empty(count, np.int32)
    for rows in _batches(count):
        # One look-up per row: np.unique would have to sort all the strings.
        values = cast("list[str]", column[rows].tolist())
        numbers[rows] = np.fromiter(map(table.__getitem__, values), np.int32, len(values))
    del table[""]
    if not all(isinstance(path, str) for path in cast("Iterable[object]", table)):
        raise InvalidEntryError("'paths' holds a value that is not a string")
    return numbers, tuple(table)


def _in_order_of_use(column: NumberedPaths) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Return a column with only the paths in use, numbered in order of first use."""
    count = len(column.numbers)
    first_row = np.full(len(column.paths), count)
    for rows in reversed([*_batches(count)]):
        # Of repeated assignments the last one wins: in reverse order, that of the first row.
        with_path = np.flatnonzero(column.numbers[rows] >= 0)[::-1] + rows.start
        first_row[column.numbers[with_path]] = with_path
    used: list[int] = np.argsort(first_row, kind="stable")[
        : int((first_row < count).sum())
    ].tolist()
    paths = tuple([column.paths[number] for number in used])
    if used == list(range(len(used))):
        return np.asarray(column.numbers, np.int32), paths
    renumbered = np.full(len(column.paths) + 1, -1, np.int32)  # the last one is for no path
    renumbered[used] = np.arange(len(used))
    numbers = np.empty(count, np.int32)
    for rows in _batches(count):
        numbers[rows] = renumbered[np.maximum(column.numbers[rows], -1)]
    return numbers, paths


def _same[T: np.generic](value: int, count: int, dtype: type[T]) -> npt.NDArray[T]:
    """Return a column of equal values, which takes no memory."""
    return np.broadcast_to(np.array(value, dtype), (count,))


def _integers(
    name: str, values: npt.ArrayLike | None, count: int, default: int
) -> npt.NDArray[np.int64]:
    if values is None:
        return _same(default, count, np.int64)
    column = np.asarray(values)
    if column.size and column.dtype.kind not in "iu":
        raise InvalidEntryError(f"'{name}' holds {column.dtype}, not integers")
    if column.ndim == 0:
        return _same(int(column), count, np.int64)
    if column.size != count:
        raise InvalidEntryError(
            f"'{name}' has {counted(column.size, 'value')} for {counted(count, 'chunk')}"
        )
    if column.size and int(column.max()) > _LARGEST_INTEGER:
        raise InvalidEntryError(f"'{name}' holds a number larger than 2^53-1")
    return column.reshape(-1).astype(np.int64, copy=False)


def _require_valid(
    grid_shape: tuple[int, ...],
    numbers: npt.NDArray[np.int64] | None,
    offsets: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    wrong: dict[str, int] = {}
    for rows in _batches(len(offsets)):
        for problem, found in _wrong(offsets[rows], lengths[rows]):
            if problem not in wrong and found.any():
                wrong[problem] = rows.start + int(found.argmax())
    for problem, _ in _wrong(offsets[:0], lengths[:0]) if wrong else ():
        if problem in wrong:
            row = wrong[problem]
            number = row if numbers is None else int(numbers[row])
            raise InvalidEntryError(problem, chunk=format_canonical(grid_index(grid_shape, number)))


def _wrong(
    offsets: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield what may be wrong with ranges, in order of precedence, and with which."""
    yield "the offset is negative", offsets < 0
    yield "the length is negative", lengths < TO_THE_END
    yield "the length is 0; list an explicitly empty chunk in 'empty'", lengths == 0
    too_large = offsets + lengths > _LARGEST_INTEGER
    yield "'offset' + 'length' is larger than 2^53-1", too_large
