"""The entries of a document as columns, and those of its parts joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from zarr_manifest.manifest.reference import EMPTY, INLINE, Aside

__all__ = ["EntryColumns", "JoinedParts", "Shared"]


class EntryColumns(Struct, frozen=True):
    """The columns of a manifest, without paths; see :class:`zarr_manifest.manifest.Manifest`."""

    grid_shape: tuple[int, ...]
    chunk_numbers: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path_numbers: npt.NDArray[np.int32]
    aside: dict[int, Aside]

    def reordered(self, order: npt.NDArray[np.int64]) -> EntryColumns:
        """Return the rows in another order."""
        aside = self.aside
        if aside:
            places = enumerate(order.tolist())
            aside = {row: aside[place] for row, place in places if place in aside}
        return EntryColumns(
            self.grid_shape,
            self.chunk_numbers[order],
            self.offsets[order],
            self.lengths[order],
            self.path_numbers[order],
            aside,
        )


class Shared(Struct, frozen=True):
    """Values that many rows share, held once.

    Attributes
    ----------
    paths : dict of str to int
        Every path, and its number.
    asides : dict of tuple to Aside
        What is kept aside, by the values that entries state.
    """

    paths: dict[str, int]
    asides: dict[tuple[object, ...], Aside]


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
        self._rows = 0
        self.grid_shape: tuple[int, ...] = ()
        self._columns: list[npt.NDArray[Any]] = []
        self._aside: dict[int, Aside] = {}

    def add(self, part: EntryColumns, size: int) -> None:
        """Add the columns of the next part, whose size is given."""
        columns: list[npt.NDArray[Any]] = [
            part.chunk_numbers,
            part.offsets,
            part.lengths,
            part.path_numbers,
        ]
        start, rows = self._rows, self._rows + len(part.chunk_numbers)
        if not self._columns:
            self.grid_shape = part.grid_shape
            expected = rows * self._size // max(size, 1)
            self._columns = [_longer(column[:0], max(rows, expected)) for column in columns]
        for number, column in enumerate(columns):
            if len(self._columns[number]) < rows:
                self._columns[number] = _longer(self._columns[number][:start], rows)
            self._columns[number][start:rows] = column
        self._aside.update((start + row, extra) for row, extra in part.aside.items())
        self._rows = rows

    def repeated(self) -> list[int]:
        """Return the numbers of chunks that several rows name."""
        numbers, counts = np.unique(self._columns[0][: self._rows], return_counts=True)
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
        for number, column in enumerate(self._columns):
            # What is left over is no memory until it is written to: copying would take some.
            fits = len(column) <= self._rows + self._rows // 16
            self._columns[number] = column[: self._rows] if fits else column[: self._rows].copy()
        numbers, offsets, lengths, path_numbers = self._columns
        columns = EntryColumns(
            self.grid_shape, numbers, offsets, lengths, path_numbers, self._aside
        )
        if not (numbers[1:] > numbers[:-1]).all():
            order = np.argsort(numbers, kind="stable")
            columns = columns.reordered(order)
            numbers = columns.chunk_numbers
            if (numbers[1:] == numbers[:-1]).any():
                return None
        numbers_of_paths, ordered = _renumber_paths(columns.path_numbers, paths)
        return structs.replace(columns, path_numbers=numbers_of_paths), ordered


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
