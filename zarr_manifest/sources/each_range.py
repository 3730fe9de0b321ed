"""Read many ranges of objects by few requests, and go on after one that cannot be read.

For what looks at all chunks of an array: checksums, copies, comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from zarr_manifest.errors import ManifestError, RangeOutOfBoundsError, ShortReadError
from zarr_manifest.sources.arrival import Receiver
from zarr_manifest.sources.byte_ranges import SourceRange
from zarr_manifest.sources.concurrency import in_decoding_thread
from zarr_manifest.sources.range_reading import ManyRanges, RangeError, read_ranges
from zarr_manifest.sources.sources import Sources

type Use = Callable[[Sequence[int], Sequence[memoryview]], None]
"""Takes the rows of ranges that have arrived together, and their bytes; in any thread."""

type Fail = Callable[[Sequence[int], ManifestError], None]
"""Takes the rows of ranges that cannot be read, and why."""

# Ranges that are read together: more gain little, and take a hundred bytes each.
_MOST_RANGES = 2**15

# What arrives is used immediately, and need not be held: longer requests cost less for each byte.
_MAX_REQUEST = 64 * 1024 * 1024

# About a range of an object, rather than the whole of it.
_OF_A_RANGE = (RangeOutOfBoundsError, ShortReadError)


async def read_each(sources: Sources, ranges: ManyRanges, use: Use, fail: Fail) -> None:
    """Read ranges, merged into few requests, and hand over each as soon as it has arrived.

    Parameters
    ----------
    sources : Sources
        Where the objects are.
    ranges : ManyRanges
        The ranges, which may be empty. One that ends at a negative number goes to the end of its
        object.
    use : Use
        What is done with the bytes of ranges.
    fail : Fail
        What is done where there are none. If it or `use` raises, nothing else is read, and the
        error is raised here.
    """
    reading = _EachRange(ranges, use, fail)
    for row in np.flatnonzero(ranges.stops == ranges.starts).tolist():
        await in_decoding_thread(use, [row], [memoryview(b"")])
    rows = np.flatnonzero(ranges.stops > ranges.starts)
    for first in range(0, len(rows), _MOST_RANGES):
        await reading.read(sources, rows[first : first + _MOST_RANGES])
    for row in np.flatnonzero(ranges.stops < 0).tolist():
        await reading.read_alone(sources, row, [row])


class _EachRange(Receiver):
    """Receives ranges, and remembers which have arrived."""

    def __init__(self, ranges: ManyRanges, use: Use, fail: Fail) -> None:
        self._ranges = ranges
        self._use = use
        self._fail = fail
        self._rows: list[int] = []
        self._arrived: set[int] = set()

    async def read(self, sources: Sources, rows: npt.NDArray[np.int64]) -> None:
        """Read ranges together."""
        while len(rows):
            self._rows, self._arrived = rows.tolist(), set()
            try:
                await read_ranges(sources, self._ranges.of_rows(rows), self, _MAX_REQUEST)
                return
            except RangeError as failed:
                failed_row = int(rows[failed.row])
            rows = np.delete(rows, list(self._arrived))
            numbers = self._ranges.object_numbers
            of_object = rows[numbers[rows] == numbers[failed_row]]
            if len(of_object):
                # The error may be about another range of the same request.
                row = failed_row if failed_row in of_object else int(of_object[0])
                done = await self.read_alone(sources, row, of_object.tolist())
                rows = rows[~np.isin(rows, done)]

    async def read_alone(
        self, sources: Sources, row: int, of_object: Sequence[int]
    ) -> Sequence[int]:
        """Read a range by a request of its own; return those about which all is known now."""
        ranges = self._ranges
        source = ranges.objects[int(ranges.object_numbers[row])]
        ((start, stop),) = ranges.spans([row])
        span = SourceRange(start, None if stop < 0 else stop, stop >= 0)
        try:
            body = await sources.fetch(source.location, span, source.conditions)
        except _OF_A_RANGE as error:
            self._fail([row], error)
        except ManifestError as error:
            self._fail(of_object, error)
            return of_object
        else:
            await in_decoding_thread(self._use, [row], [body])
        return [row]

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        """Hand over some ranges."""
        self._use([self._rows[row] for row in rows], bodies)
        self._arrived.update(rows)
