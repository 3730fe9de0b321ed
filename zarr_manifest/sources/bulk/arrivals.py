"""The bytes of one request, given to the ranges that it covers, as they arrive or at once."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from zarr_manifest.sources.bulk.ranges import ManyRanges, Receiver
from zarr_manifest.sources.plan import PlannedRequest

__all__ = ["Arrival"]

type _Destinations = list[npt.NDArray[np.uint8] | None]


class Arrival:
    """Gives ranges their bytes.

    Parameters
    ----------
    ranges : ManyRanges
        All ranges.
    rows : sequence of int
        Those that the request covers, ordered by their starts.
    request : PlannedRequest
        The request.
    receiver : Receiver
        Takes the bytes.
    """

    def __init__(
        self, ranges: ManyRanges, rows: Sequence[int], request: PlannedRequest, receiver: Receiver
    ) -> None:
        self._rows = rows
        self._spans = ranges.spans(rows)
        self._start = request.start
        self._receiver = receiver
        self._complete = 0
        self._bodies: dict[int, memoryview] = {}
        self._known: _Destinations | None = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Do what can be done before bytes arrive, while an answer is waited for.

        That is to find out where they go, and to have the system clear the memory there, which
        it does when a page of it is written to for the first time.
        """
        self._destinations(are_cleared=True)

    def _destinations(self, *, are_cleared: bool = False) -> _Destinations:
        with self._lock:
            if self._known is None:
                views = map(self._receiver.destination, self._rows)
                self._known = [
                    None if view is None else np.frombuffer(view, np.uint8) for view in views
                ]
                for destination in self._known if are_cleared else ():
                    if destination is not None:
                        destination[:: mmap.PAGESIZE] = 0
            return self._known

    def take(self, before: int, piece: memoryview) -> None:
        """Take a piece: from the beginning, or the one that follows the last."""
        if before == 0:
            self._complete = 0
            self._bodies.clear()
        first = self._start + before
        last = first + len(piece)
        # Unlike memoryviews, arrays let other threads run while they are copied.
        data = np.frombuffer(piece, np.uint8)
        destinations = self._destinations()
        for number in range(self._complete, len(self._rows)):
            start, stop = self._spans[number]
            if start >= last:
                break
            if number == self._complete and stop <= last:
                self._complete += 1
            begin, end = max(start, first), min(stop, last)
            if begin >= end:
                continue  # inside a longer one, and complete
            destination = destinations[number]
            if destination is not None:
                destination[begin - start : end - start] = data[begin - first : end - first]
            else:
                self._keep(number, begin - start, piece[begin - first : end - first])

    def _keep(self, number: int, position: int, part: memoryview) -> None:
        start, stop = self._spans[number]
        if len(part) == stop - start:
            self._bodies[number] = part
        else:
            if number not in self._bodies:
                self._bodies[number] = memoryview(bytearray(stop - start))
            self._bodies[number][position : position + len(part)] = part

    def finish(self, body: memoryview | None) -> None:
        """Hand over what has no destination; `body` is everything, if nothing has been taken."""
        if body is not None:
            self.take(0, body)
        if self._bodies:
            rows = [self._rows[number] for number in self._bodies]
            self._receiver.receive(rows, list(self._bodies.values()))
