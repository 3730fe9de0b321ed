"""Ranges of many objects, in columns: of local files in threads, of remote objects by requests."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from zarr_manifest.errors import ManifestError, RangeOutOfBoundsError
from zarr_manifest.format import Conditions
from zarr_manifest.locations import Location
from zarr_manifest.sources.arrival import Arrival, Receiver, runs_of
from zarr_manifest.sources.byte_ranges import SourceRange, out_of_bounds
from zarr_manifest.sources.concurrency import (
    Budget,
    all_or_none,
    in_decoding_thread,
    thread_count,
)
from zarr_manifest.sources.directories import OpenFile
from zarr_manifest.sources.local_files import FileReader
from zarr_manifest.sources.plan import PlannedRequest
from zarr_manifest.sources.sources import DEFAULT_MAX_REQUEST, Sources


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

    @classmethod
    def joined(cls, parts: Sequence[ManyRanges]) -> ManyRanges:
        """Return the ranges of all parts, one after the other, with each object once."""
        objects: dict[SourceObject, int] = {}
        numbers = [
            np.array([objects.setdefault(each, len(objects)) for each in part.objects], np.int64)
            for part in parts
        ]
        return cls(
            list(objects),
            np.concatenate(
                [n[part.object_numbers] for n, part in zip(numbers, parts, strict=True)]
            ),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.stops for part in parts]),
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


# Memory for bytes requested but not yet received, by all that read at the
# same time: all tasks of an event loop, and zarr has one per process.
MOST_BYTES_IN_FLIGHT = 128 * 1024 * 1024

# Of one answer, at most: the memory of ranges that have been received is free.
_MOST_HELD = 32 * 1024 * 1024

_budgets = WeakKeyDictionary[asyncio.AbstractEventLoop, Budget]()


async def read_ranges(
    sources: Sources, ranges: ManyRanges, receiver: Receiver, max_size: int = DEFAULT_MAX_REQUEST
) -> None:
    """Read ranges of objects, and hand each to the receiver exactly once.

    Requests that several ranges share are no longer than `max_size` bytes.

    Raises
    ------
    RangeError
        A range cannot be read. What is still running then is stopped first.
    """
    local: list[_FileRanges] = []
    others: list[tuple[SourceObject, list[int]]] = []
    by_object = list(ranges.by_object())
    files = await sources.local_files([source.location for source, _ in by_object])
    for (source, rows), file in zip(by_object, files, strict=True):
        if isinstance(file, ManifestError):
            raise RangeError(rows[0], file) from file.__cause__
        if file is None:
            others.append((source, rows))
        else:
            local.append(_FileRanges(*file, source, rows))
    reading = _Reading(sources, ranges, receiver, max_size, threading.Event())
    shares = _divided(ranges, local, thread_count())
    reads = [in_decoding_thread(reading.read_files, share) for share in shares]
    await all_or_none([*reads, *reading.requests(others)], reading.stop)


def _budget() -> Budget:
    loop = asyncio.get_running_loop()
    budget = _budgets.get(loop)
    if budget is None:
        budget = _budgets[loop] = Budget(MOST_BYTES_IN_FLIGHT)
    return budget


# Servers limit connections of one client; more gain little even over long distances.
_MOST_REQUESTS = 32

# So many bytes of local files are worth another thread.
_WORTH_A_THREAD = 1024 * 1024

# One vectored read fills at most 1024 views of memory on Linux.
_MOST_VIEWS = 512

# After so many bytes, a thread checks whether to stop.
_MOST_BYTES_PER_CALL = 16 * 1024 * 1024

type _Planned = tuple[SourceObject, list[int], PlannedRequest]


class _FileRanges(Struct, frozen=True):
    """Some ranges of one file, ordered by their starts."""

    reader: FileReader
    key: str
    source: SourceObject
    rows: list[int]


class _Reading(Struct, frozen=True):
    """Reads ranges by requests, and those of files in the calling thread, until it is stopped."""

    sources: Sources
    ranges: ManyRanges
    receiver: Receiver
    max_size: int
    stop: threading.Event

    def requests(
        self, objects: Sequence[tuple[SourceObject, list[int]]]
    ) -> list[Coroutine[Any, Any, None]]:
        """Return as many reads as there are requests at a time; each takes the next of all."""

        def planned() -> Iterator[_Planned]:
            for source, rows in objects:
                spans = self.ranges.spans(rows)
                for request in self.sources.plan(source.location, spans, self.max_size):
                    yield source, [rows[member] for member in request.members], request

        requests, budget = planned(), _budget()
        first = list(itertools.islice(requests, _MOST_REQUESTS))
        requests = itertools.chain(first, requests)
        return [self._read(requests, budget) for _ in first]

    async def _read(self, requests: Iterator[_Planned], budget: Budget) -> None:
        for source, rows, request in requests:
            size = request.stop - request.start
            # Of several ranges, the first are used while the others arrive.
            async with budget.taken(size if len(rows) == 1 else min(size, _MOST_HELD)):
                await self._answer(source, rows, request)

    async def _answer(self, source: SourceObject, rows: list[int], request: PlannedRequest) -> None:
        span = SourceRange(request.start, request.stop, True)
        arrival = Arrival(rows, self.ranges.spans(rows), request.start, self.receiver, self.stop)
        # Once all requests that can be sent now have been.
        preparing = asyncio.get_running_loop().call_soon(arrival.prepare)
        try:
            body = await self.sources.fetch(source.location, span, source.conditions, arrival)
        except RangeOutOfBoundsError as error:
            if len(rows) == 1:
                raise RangeError(rows[0], error) from error.__cause__
        except ManifestError as error:
            raise RangeError(rows[0], error) from error.__cause__
        else:
            if body:
                await in_decoding_thread(arrival.finish, body)
            return
        finally:
            preparing.cancel()
        # Some of the merged ranges may be inside the object.
        left = arrival.left()
        for row, bounds in zip(left, self.ranges.spans(left), strict=True):
            await self._answer(source, [row], PlannedRequest(*bounds, (0,)))

    def read_files(self, share: Iterable[_FileRanges]) -> None:
        """Read one thread's share of the ranges of files."""
        for part in share:
            if self.stop.is_set():
                return
            with (
                _naming(part.rows[0], part.source.location),
                part.reader.opened(part.key, part.source.conditions) as file,
            ):
                self._require_within(part, file)
                others = self._read_to_places(part, file)
                self._read_others(structs.replace(part, rows=others), file)

    def _require_within(self, part: _FileRanges, file: OpenFile) -> None:
        beyond = np.flatnonzero(self.ranges.stops[part.rows] > file.size)
        if len(beyond):
            row = part.rows[int(beyond[0])]
            ((first, last),) = self.ranges.spans([row])
            with _naming(row, part.source.location):
                raise out_of_bounds(SourceRange(first, last, True), file.size)

    def _read_to_places(self, part: _FileRanges, file: OpenFile) -> list[int]:
        """Read ranges directly to their places, adjacent ones together; return other rows."""
        starts, stops = self.ranges.starts[part.rows], self.ranges.stops[part.rows]
        places = self.receiver.places(part.rows, (stops - starts).tolist())
        views: list[memoryview] = []
        call_start = call_stop = 0
        for run in runs_of(starts, stops, places):
            for start in range(run.start, run.stop, _MOST_BYTES_PER_CALL):
                stop = min(start + _MOST_BYTES_PER_CALL, run.stop)
                is_full = len(views) == _MOST_VIEWS or stop - call_start > _MOST_BYTES_PER_CALL
                if start != call_stop or is_full:
                    if self.stop.is_set():
                        return []
                    file.read_into(call_start, views)
                    views, call_start = [], start
                views.append(run.within(self.receiver.memory, start, stop))
                call_stop = stop
        file.read_into(call_start, views)
        return [row for row, place in zip(part.rows, places, strict=True) if place < 0]

    def _read_others(self, part: _FileRanges, file: OpenFile) -> None:
        for request in self.sources.plan(part.source.location, self.ranges.spans(part.rows)):
            if self.stop.is_set():
                return
            rows = [part.rows[member] for member in request.members]
            body = memoryview(file.read(request.start, request.stop))
            start, spans = request.start, self.ranges.spans(rows)
            self.receiver.receive(rows, [body[a - start : b - start] for a, b in spans])


def _divided(
    ranges: ManyRanges, files: Sequence[_FileRanges], threads: int
) -> list[list[_FileRanges]]:
    """Divide the ranges of files among threads, about the same number of bytes for each."""
    sizes = ranges.stops - ranges.starts
    total = sum(int(sizes[file.rows].sum()) for file in files)
    threads = min(threads, -(-total // _WORTH_A_THREAD))
    if threads < 2:
        return [list(files)] if files else []
    each = -(-total // threads)
    divided: list[list[_FileRanges]] = [[] for _ in range(threads)]
    before = 0
    for file in files:
        ends = before + np.cumsum(sizes[file.rows])
        before = int(ends[-1])
        owners = (ends - 1) // each
        cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(file.rows)]
        for first, last in itertools.pairwise(cuts):
            divided[int(owners[first])].append(structs.replace(file, rows=file.rows[first:last]))
    return [share for share in divided if share]


@contextmanager
def _naming(row: int, location: Location) -> Generator[None]:
    """Say which range an error is about."""
    try:
        yield
    except ManifestError as error:
        located = error.in_context(location=str(location))
        raise RangeError(row, located) from error.__cause__
