"""The entries of a document as columns, and those of its parts joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from zarr_manifest.manifest.reference import EMPTY, INLINE, Extras

__all__ = ["EntryColumns", "JoinedParts", "Shared"]


class EntryColumns(Struct, frozen=True):
    """The columns of a manifest, without paths; see :class:`zarr_manifest.manifest.Manifest`.

    Attributes
    ----------
    chunk_numbers : ndarray of int64, or None
        None if each row is that of the chunk of its number.
    """

    grid_shape: tuple[int, ...]
    chunk_numbers: npt.NDArray[np.int64] | None
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path_numbers: npt.NDArray[np.int32]
    extras: dict[int, Extras]

    def numbers(self) -> npt.NDArray[np.int64]:
        """Return the number of each row's chunk."""
        return np.arange(len(self.offsets)) if self.chunk_numbers is None else self.chunk_numbers

    def reordered(self, order: npt.NDArray[np.int64]) -> EntryColumns:
        """Return the rows in another order."""
        extras = self.extras
        if extras:
            places = enumerate(order.tolist())
            extras = {row: extras[place] for row, place in places if place in extras}
        return EntryColumns(
            self.grid_shape,
            self.numbers()[order],
            self.offsets[order],
            self.lengths[order],
            self.path_numbers[order],
            extras,
        )


class Shared(Struct, frozen=True):
    """Values that many rows share, held once.

    Attributes
    ----------
    paths : dict of str to int
        Every path, and its number.
    extras : dict of tuple to Extras
        Extras, by the values that entries state.
    """

    paths: dict[str, int]
    extras: dict[tuple[object, ...], Extras]


class JoinedParts:
    """The columns of all parts of a document, in little more memory than they take themselves.

    Parameters
    ----------
    size : int
        Size of the document.

    Attributes
    ----------
    grid_shape : tuple of int
        That of the parts.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows = self._expected = 0
        self.grid_shape: tuple[int, ...] = ()
        self._columns: list[npt.NDArray[Any]] = []
        # Only once a row is not that of the chunk of its number.
        self._numbers: npt.NDArray[np.int64] | None = None
        self._extras: dict[int, Extras] = {}

    def add(self, part: EntryColumns, size: int) -> None:
        """Add the columns of the next part, whose size is given."""
        columns: list[npt.NDArray[Any]] = [part.offsets, part.lengths, part.path_numbers]
        start, rows = self._rows, self._rows + len(part.offsets)
        if not self._columns:
            self.grid_shape = part.grid_shape
            self._expected = rows * self._size // max(size, 1)
            self._columns = [column[:0] for column in columns]
        for number, column in enumerate(columns):
            self._columns[number] = self._extended(self._columns[number], column)
        numbers = part.numbers()
        if self._numbers is None and not _are_consecutive(numbers, start):
            self._numbers = np.arange(start)
        if self._numbers is not None:
            self._numbers = self._extended(self._numbers, numbers)
        self._extras.update((start + row, extra) for row, extra in part.extras.items())
        self._rows = rows

    def _extended[T: np.generic](
        self, column: npt.NDArray[T], values: npt.NDArray[T]
    ) -> npt.NDArray[T]:
        """Return a column, whose end may be unused, with the values of further rows."""
        start, rows = self._rows, self._rows + len(values)
        if len(column) < rows:
            column = _longer(column[:start], max(rows, self._expected))
        column[start:rows] = values
        return column

    def repeated(self) -> list[int]:
        """Return the numbers of chunks that several rows name."""
        if self._numbers is None:
            return []
        numbers, counts = np.unique(self._numbers[: self._rows], return_counts=True)
        repeated: list[int] = numbers[counts > 1].tolist()
        return repeated

    def in_order(self, paths: Sequence[str]) -> tuple[EntryColumns, tuple[str, ...]] | None:
        """Return all rows in C order, and their paths; None if two name the same chunk.

        Nothing can be added afterwards.

        Parameters
        ----------
        paths : sequence of str
            The paths to which the path numbers refer. Each is used.
        """
        offsets, lengths, path_numbers = map(self._used, self._columns)
        numbers = None if self._numbers is None else self._used(self._numbers)
        columns = EntryColumns(
            self.grid_shape, numbers, offsets, lengths, path_numbers, self._extras
        )
        if numbers is not None and not (numbers[1:] > numbers[:-1]).all():
            order = np.argsort(numbers, kind="stable")
            ordered = numbers[order]
            if (ordered[1:] == ordered[:-1]).any():
                return None
            columns = columns.reordered(order)
        numbers_of_paths, names = _renumber_paths(columns.path_numbers, paths)
        return structs.replace(columns, path_numbers=numbers_of_paths), names

    def _used[T: np.generic](self, column: npt.NDArray[T]) -> npt.NDArray[T]:
        """Return a column without the unused end."""
        # What is left over is no memory until it is written to: copying would take some.
        fits = len(column) <= self._rows + self._rows // 16
        return column[: self._rows] if fits else column[: self._rows].copy()


def _are_consecutive(numbers: npt.NDArray[np.int64], first: int) -> bool:
    """Whether numbers are those from one on."""
    if not len(numbers):
        return True
    if numbers[0] != first or numbers[-1] - first != len(numbers) - 1:
        return False
    return bool((numbers[1:] > numbers[:-1]).all())


def _longer(column: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Return a column with space for more rows than asked for."""
    longer = np.empty(rows + rows // 32, column.dtype)
    longer[: len(column)] = column
    return longer


def _renumber_paths(
    path_numbers: npt.NDArray[np.int32], paths: Sequence[str]
) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Renumber the paths in the order in which the rows use them."""
    if (path_numbers[1:] >= path_numbers[:-1]).all():
        return path_numbers, tuple(paths)  # as they are numbered as they are met
    backwards = np.flatnonzero(path_numbers >= 0)[::-1]
    first_rows = np.empty(len(paths), np.int64)
    first_rows[path_numbers[backwards]] = backwards  # of repeated assignments, the last one wins
    order = np.argsort(first_rows)
    table = np.empty(len(paths) + 2, np.int32)
    table[order] = np.arange(len(paths))
    # Rows without a path have negative numbers, which index from the end.
    table[[EMPTY, INLINE]] = EMPTY, INLINE
    return table[path_numbers], tuple([paths[number] for number in order.tolist()])
