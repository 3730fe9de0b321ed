"""Receivers that keep what they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from zarr_manifest.sources import ManyRanges, Receiver
from zarr_manifest.sources.arrival import Arrival


class Collector(Receiver):
    """Keeps the bytes of some ranges in its memory, one after the other, and of others by row.

    `asked` has the rows whose places were asked for, `bodies` what was received of others.
    """

    def __init__(self, ranges: ManyRanges, as_they_are: Callable[[int], bool]) -> None:
        self._spans = spans = ranges.spans(range(len(ranges)))
        self._as_they_are = as_they_are
        self._places = [0, *accumulate(stop - start for start, stop in spans)]
        self._filled = bytearray(self._places[-1])
        self.memory = memoryview(self._filled)
        self.asked: list[int] = []
        self.bodies: dict[int, bytes] = {}

    def places(self, rows: Sequence[int], sizes: Sequence[int]) -> list[int]:
        assert list(sizes) == [stop - start for start, stop in (self._spans[row] for row in rows)]
        self.asked += rows
        return [self._places[row] if self._as_they_are(row) else -1 for row in rows]

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        for row, body in zip(rows, bodies, strict=True):
            assert row not in self.bodies
            assert not self._as_they_are(row)
            self.bodies[row] = bytes(body)

    def found(self) -> list[bytes]:
        """Return the bytes of each range."""
        return [
            bytes(self.memory[self._places[row] : self._places[row + 1]])
            if self._as_they_are(row)
            else self.bodies[row]
            for row in range(len(self._spans))
        ]


class Taken(Arrival):
    """Takes pieces one after the other, and remembers where each begins."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.bytes = bytearray()

    def room(self, before: int) -> None:
        pass

    def take(self, before: int, piece: memoryview) -> None:
        assert before == len(self.bytes)
        self.begins.append(before)
        self.bytes += piece
