"""Ranges of objects in columns, the receiver of their bytes, and the error for one range."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import Conditions
from zarr_manifest.locations import Location
from zarr_manifest.sources.byte_ranges import SourceRange
from zarr_manifest.sources.plan import PlannedRequest

__all__ = ["ManyRanges", "RangeError", "Receiver", "SourceObject", "naming"]


class SourceObject(Struct, frozen=True):
    """An object of which ranges are read, and what it must still match.

    Attributes
    ----------
    location : Location
        Where it is; authorised.
    conditions : Conditions
        Sent with each request.
    """

    location: Location
    conditions: Conditions


class ManyRanges(Struct, frozen=True):
    """Ranges of objects, one a row.

    Parameters
    ----------
    objects : sequence of SourceObject
        The distinct objects.
    object_numbers : ndarray of int64
        Which object each range is of.
    starts, stops : ndarray of int64
        First byte and one past the last byte of each range; no range is empty.
    """

    objects: Sequence[SourceObject]
    object_numbers: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def of_rows(self, rows: npt.NDArray[np.int64]) -> ManyRanges:
        """Return some of the ranges, of the same objects."""
        return ManyRanges(
            self.objects, self.object_numbers[rows], self.starts[rows], self.stops[rows]
        )

    def by_object(self) -> Iterator[tuple[SourceObject, list[int]]]:
        """Yield each object with the rows of its ranges, ordered by their starts."""
        order = np.lexsort((self.stops, self.starts, self.object_numbers))
        numbers = self.object_numbers[order]
        for rows in np.split(order, np.flatnonzero(np.diff(numbers)) + 1) if len(order) else ():
            yield self.objects[int(self.object_numbers[rows[0]])], rows.tolist()

    def spans(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return the first byte and one past the last byte of some of the ranges."""
        starts, stops = self.starts[rows].tolist(), self.stops[rows].tolist()
        return list(zip(starts, stops, strict=True))

    def span(self, row: int) -> SourceRange:
        """Return one of the ranges."""
        return SourceRange(int(self.starts[row]), int(self.stops[row]), True)

    def bodies(
        self, rows: Sequence[int], request: PlannedRequest, body: memoryview
    ) -> list[memoryview]:
        """Return the bytes of some of the ranges, given those of a request that covers them."""
        start = request.start
        return [body[first - start : last - start] for first, last in self.spans(rows)]


class Receiver(Protocol):
    """Takes the bytes of ranges; called in several threads at the same time."""

    def destination(self, row: int) -> memoryview | None:
        """Return where the bytes of a range go as they are; None if they have to be decoded.

        As many bytes as the range has, writable and contiguous.
        """
        ...

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        """Take the bytes of some ranges that have no destination."""
        ...


class RangeError(Exception):
    """A range cannot be read.

    Parameters
    ----------
    row : int
        Which range.
    error : ManifestError
        Why; names the location.
    """

    def __init__(self, row: int, error: ManifestError) -> None:
        super().__init__(row, error)
        self.row = row
        self.error = error


@contextmanager
def naming(row: int, location: Location) -> Generator[None]:
    """Say which range an error is about."""
    try:
        yield
    except ManifestError as error:
        located = error.in_context(location=str(location))
        raise RangeError(row, located) from error.__cause__
