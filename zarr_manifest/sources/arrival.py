"""What arrives of one request: each range gets its bytes, where it wants them.

A receiver says where in its memory the bytes of ranges go as they are. Transports that can
receive directly into that memory do; everything else is copied, or handed to the receiver.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zarr_manifest.sources.concurrency import decoding

# Memory for fewer bytes is not worth a call for itself: copying them takes less.
_LEAST_ROOM = 256 * 1024

# So that a transfer that nobody wants any more ends soon.
_MOST_ROOM = 1024 * 1024

NO_MEMORY = memoryview(b"")


class Receiver:
    """Takes the bytes of ranges; called in several threads at the same time.

    Attributes
    ----------
    memory : memoryview
        Of bytes, writable: what ranges fill that go somewhere as they are.
    """

    memory = NO_MEMORY

    def places(self, rows: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Return the first byte of `memory` that each range fills; -1 if it must be received."""
        return [-1] * len(rows)

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        """Take the bytes of some ranges that have no place; their memory is used again."""
        raise NotImplementedError


class Run(NamedTuple):
    """Adjacent ranges of an object whose places are adjacent, too.

    Attributes
    ----------
    start, stop : int
        First byte, and one past the last byte, in the object.
    place : int
        First byte in the receiver's memory.
    """

    start: int
    stop: int
    place: int

    def within(self, memory: memoryview, start: int, stop: int) -> memoryview:
        """Return where some of the object's bytes go."""
        shift = self.place - self.start
        return memory[start + shift : stop + shift]


def runs_of(
    starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], places: Sequence[int]
) -> list[Run]:
    """Join ranges that have a place, given in the order of their starts.

    Examples
    --------
    >>> runs_of(np.array([0, 4, 8]), np.array([4, 8, 9]), [20, 24, -1])
    [Run(start=0, stop=8, place=20)]
    """
    begins = np.array(places, np.int64)
    rows = np.flatnonzero(begins >= 0)
    starts, stops, begins = starts[rows], stops[rows], begins[rows]
    ends = begins + stops - starts
    is_next = (starts[1:] == stops[:-1]) & (begins[1:] == ends[:-1])
    firsts = np.flatnonzero(np.append(True, ~is_next)[: len(rows)])
    lasts = np.append(firsts, len(rows))[1:] - 1
    columns = (starts[firsts], stops[lasts], begins[firsts])
    return [Run(*each) for each in zip(*(column.tolist() for column in columns), strict=True)]


class Arrival:
    """Gives ranges their bytes, each as soon as it is complete, and all of one answer.

    They are decoded while the rest arrives, before their memory leaves the cache.

    Parameters
    ----------
    rows : sequence of int
        Those that a request covers, ordered by their starts.
    spans : sequence of (int, int)
        First byte and one past the last byte of each.
    start : int
        First byte of the request.
    receiver : Receiver
        Takes the bytes.
    stop : threading.Event
        Once it is set, nothing is received any more.
    """

    def __init__(
        self,
        rows: Sequence[int],
        spans: Sequence[tuple[int, int]],
        start: int,
        receiver: Receiver,
        stop: threading.Event,
    ) -> None:
        self._rows = rows
        self._spans = spans
        self._start = start
        self._receiver = receiver
        self._stop = stop
        self._complete = 0
        self._bodies: dict[int, memoryview] = {}
        self._received: set[int] = set()
        self._known: _Places | None = None
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Find the places while the request is under way."""
        self._places()

    def _places(self) -> _Places:
        with self._lock:
            if self._known is None:
                starts, stops = np.array(self._spans, np.int64).T
                places = self._receiver.places(self._rows, (stops - starts).tolist())
                # What is received directly would be missing in another range of the same bytes.
                is_apart = (starts[1:] >= np.maximum.accumulate(stops)[:-1]).all()
                runs = runs_of(starts, stops, places) if is_apart else []
                memory = np.frombuffer(self._receiver.memory, np.uint8)
                self._known = _Places(places, runs, memory)
            return self._known

    def room(self, before: int) -> memoryview | None:
        """Return where the bytes after so many others go as they are, if there is room for many.

        Who receives some there does not hand them to `take`.
        """
        self._begin(before)
        known, first = self._places(), self._start + before
        number = bisect.bisect_right(known.runs, first, key=lambda run: run.start) - 1
        if number < 0 or known.runs[number].stop - first < _LEAST_ROOM:
            return None
        run = known.runs[number]
        return run.within(self._receiver.memory, first, min(run.stop, first + _MOST_ROOM))

    def take(self, before: int, piece: memoryview) -> None:
        """Take a piece: from the beginning, or the one that follows the last."""
        self._begin(before)
        bodies = self._place(before, piece)
        if bodies:
            with decoding():
                self._receive(bodies)

    def _begin(self, before: int) -> None:
        if before == 0:
            self._complete = 0
            self._bodies.clear()

    def _place(self, before: int, piece: memoryview) -> dict[int, memoryview]:
        """Put a piece where it belongs, and return ranges without a place, once complete."""
        first = self._start + before
        last = first + len(piece)
        known = self._places()
        complete: dict[int, memoryview] = {}
        for number in range(self._complete, len(self._rows)):
            start, stop = self._spans[number]
            if start >= last:
                break
            if number == self._complete and stop <= last:
                self._complete += 1
            begin, end = max(start, first), min(stop, last)
            if begin >= end:
                continue  # inside a longer one, and complete
            place, part = known.places[number], piece[begin - first : end - first]
            if place >= 0:
                # Unlike memoryviews, arrays let other threads run while they are copied.
                target = known.memory[place + begin - start : place + end - start]
                target[:] = np.frombuffer(part, np.uint8)
            elif number not in self._received:  # of an earlier attempt
                self._keep(number, begin - start, part)
                if stop <= last:
                    complete[number] = self._bodies.pop(number)
        return complete

    def _keep(self, number: int, position: int, part: memoryview) -> None:
        start, stop = self._spans[number]
        if len(part) == stop - start:
            self._bodies[number] = part
        else:
            if number not in self._bodies:
                self._bodies[number] = memoryview(bytearray(stop - start))
            self._bodies[number][position : position + len(part)] = part

    def _receive(self, bodies: dict[int, memoryview]) -> None:
        if not self._stop.is_set():
            rows = [self._rows[number] for number in bodies]
            self._receiver.receive(rows, list(bodies.values()))
            self._received.update(bodies)

    def finish(self, body: memoryview) -> None:
        """Take everything."""
        self._begin(0)
        self._receive(self._place(0, body))

    def left(self) -> list[int]:
        """Return the rows that have not been received."""
        return [row for number, row in enumerate(self._rows) if number not in self._received]


class _Places(NamedTuple):
    """Where ranges go: each, and joined; and the receiver's memory as an array."""

    places: Sequence[int]
    runs: Sequence[Run]
    memory: npt.NDArray[np.uint8]
