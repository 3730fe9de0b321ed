"""Columns that an author gives -> references in C order of the chunks, with the checks of entries.

For millions of references given as arrays of numbers: no Python loop over them, and no copy of
columns that are in order already and of the right type. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.errors import InvalidChunkKeyError, InvalidEntryError, LimitExceededError
from zarr_manifest.format import (
    LARGEST_INTEGER,
    Conditions,
    format_canonical,
    grid_index,
    number_chunks,
    parse_checksum,
    parse_conditions,
)
from zarr_manifest.manifest.chunk_numbers import ChunkNumbers
from zarr_manifest.manifest.joining import number_by_first_use
from zarr_manifest.manifest.references import (
    EMPTY,
    INLINE,
    NO_EXTRAS,
    TO_THE_END,
    Extras,
    PathNumbers,
    References,
)
from zarr_manifest.showing import counted

# Number of rows checked together, so that this needs little memory.
_BATCH_SIZE = 2**16


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


def references_from_columns(
    grid_shape: tuple[int, ...],
    *,
    paths: str | npt.ArrayLike | NumberedPaths,
    offsets: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    numbers: npt.NDArray[np.int64] | None = None,
    data: Mapping[int, bytes] | None = None,
    empty: Collection[int] = (),
    checksums: Mapping[int, str] | None = None,
    conditions: Mapping[str, Mapping[str, str | int]] | None = None,
) -> References:
    """Return references given in columns.

    As :meth:`Manifest.from_columns`, which checks grid indices, but with chunk numbers: `numbers`
    are those of the rows. They, and the keys of `data`, `empty` and `checksums`, are within the
    grid.
    """
    count = _count(grid_shape) if numbers is None else len(numbers)
    path_numbers, names = _path_column(paths, count)
    first = _integers("offsets", offsets, count, 0)
    sizes = _integers("lengths", lengths, count, TO_THE_END)
    if count and int(path_numbers.min()) < 0:
        rows = np.flatnonzero(path_numbers >= 0)
        numbers = rows if numbers is None else numbers[rows]
        path_numbers, first, sizes = path_numbers[rows], first[rows], sizes[rows]
    _require_valid(grid_shape, numbers, first, sizes)
    inline = data or {}
    if inline or empty:
        with_path = np.arange(len(first)) if numbers is None else numbers
        nothing = np.zeros(len(inline) + len(empty), np.int64)
        numbers = np.concatenate([with_path, np.array([*inline, *empty], np.int64)])
        first = np.concatenate([first, nothing])
        own = [*map(len, inline.values())] + [TO_THE_END] * len(empty)
        sizes = np.concatenate([sizes, np.array(own, np.int64)])
        kinds = [INLINE] * len(inline) + [EMPTY] * len(empty)
        path_numbers = np.concatenate([path_numbers, np.array(kinds, np.int32)])
    if numbers is not None and not (numbers[1:] > numbers[:-1]).all():
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        _require_distinct(grid_shape, numbers)
        path_numbers, first, sizes = path_numbers[order], first[order], sizes[order]
    chunks = ChunkNumbers(0, count) if numbers is None else ChunkNumbers.of(numbers)
    path_numbers, names = number_by_first_use(path_numbers, names)
    extras = _extras_of_paths(path_numbers, names, conditions or {})
    _add_own_extras(grid_shape, extras, chunks, path_numbers, inline, checksums or {})
    return References(grid_shape, chunks, first, sizes, path_numbers, names, extras)


def number_indices(
    grid_shape: tuple[int, ...], indices: npt.NDArray[np.generic]
) -> npt.NDArray[np.int64]:
    """Return the numbers of chunks, given as an array of shape (chunks, dimensions).

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
    return (slice(start, start + _BATCH_SIZE) for start in range(0, count, _BATCH_SIZE))


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
) -> tuple[npt.NDArray[np.int32], Sequence[str]]:
    """Return the path number of each row, negative for a row without one, and distinct paths."""
    if isinstance(paths, str):
        return _same(0 if paths else -1, count, np.int32), (paths,) if paths else ()
    names = paths.paths if isinstance(paths, NumberedPaths) else None
    column = np.asarray(paths.numbers if isinstance(paths, NumberedPaths) else paths).reshape(-1)
    if names is None and column.size and column.dtype.kind not in "UOT":
        raise InvalidEntryError(f"'paths' holds {column.dtype}, not strings")
    if len(column) != count:
        raise InvalidEntryError(
            f"'paths' has {counted(len(column), 'value')} for {counted(count, 'chunk')}"
        )
    if names is not None:
        return column.astype(np.int32, copy=False), names
    table = PathNumbers({"": 0})
    numbers = np.empty(count, np.int32)
    for rows in _batches(count):
        # One look-up per row: np.unique would have to sort all the strings.
        values = cast("list[str]", column[rows].tolist())
        numbers[rows] = np.fromiter(map(table.__getitem__, values), np.int32, len(values))
    del table[""]
    numbers -= 1
    if not all(isinstance(path, str) for path in cast("Iterable[object]", table)):
        raise InvalidEntryError("'paths' holds a value that is not a string")
    return numbers, tuple(table)


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
    if column.size and int(column.max()) > LARGEST_INTEGER:
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
    too_large = offsets + lengths > LARGEST_INTEGER
    yield "'offset' + 'length' is larger than 2^53-1", too_large


# ------------------------------------------------------------ extras


class _GivenConditions(msgspec.Struct):
    etag: str | None = None
    last_modified: str | None = None
    version: str | None = None
    size: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INTEGER)] | None = None


def _extras_of_paths(
    path_numbers: npt.NDArray[np.int32],
    paths: Sequence[str],
    conditions: Mapping[str, Mapping[str, str | int]],
) -> dict[int, Extras]:
    """Return the conditions of paths, by row."""
    if not conditions:
        return {}
    by_path = {path: Extras(conditions=conditions_of(path, g)) for path, g in conditions.items()}
    with_conditions = [number for number, path in enumerate(paths) if path in by_path]
    rows = np.flatnonzero(np.isin(path_numbers, with_conditions))
    numbers: list[int] = path_numbers[rows].tolist()
    return {row: by_path[paths[number]] for row, number in zip(rows.tolist(), numbers, strict=True)}


def conditions_of(path: str, given: Mapping[str, str | int]) -> Conditions:
    """Return the conditions, given by name, on the object of a path."""
    unknown = sorted(set(given) - set(_GivenConditions.__struct_fields__))
    if unknown:
        raise InvalidEntryError(f"unknown condition {unknown[0]!r} for {path!r}")
    try:
        stated = msgspec.convert(given, _GivenConditions)
    except msgspec.ValidationError as error:
        raise InvalidEntryError(f"a condition for {path!r} is invalid: {error}") from None
    return parse_conditions(stated.etag, stated.last_modified, stated.version, stated.size)


def _add_own_extras(
    grid_shape: tuple[int, ...],
    extras: dict[int, Extras],
    chunks: ChunkNumbers,
    path_numbers: npt.NDArray[np.int32],
    data: Mapping[int, bytes],
    checksums: Mapping[int, str],
) -> None:
    for number in {**data, **checksums}:
        row, encoded = chunks.row_of(number), data.get(number)
        chunk = format_canonical(grid_index(grid_shape, number))
        if encoded is not None and not encoded:
            raise InvalidEntryError("'data' must not be empty", chunk=chunk)
        if row is None or path_numbers[row] == EMPTY:
            raise InvalidEntryError("'checksum' requires a path or data", chunk=chunk)
        checksum = checksums.get(number)
        if checksum is not None:
            parse_checksum(checksum)
        conditions = extras.get(row, NO_EXTRAS).conditions
        extras[row] = Extras(encoded, checksum, conditions)
