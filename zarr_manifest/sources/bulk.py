"""Many ranges of many objects at once, as a whole selection needs them.

Ranges come in columns, and go where the receiver wants them: straight to their destination where
nothing has to be decoded, or to be decoded in the thread that read them. Local files are opened
once, and read in several threads; everything else is requested concurrently. The bytes in flight
are bounded, however many ranges there are.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.errors import ManifestError, RangeOutOfBoundsError
from zarr_manifest.format import Conditions
from zarr_manifest.locations import Location
from zarr_manifest.sources.byte_ranges import SourceRange, out_of_bounds
from zarr_manifest.sources.local_files import FileReader, OpenFile
from zarr_manifest.sources.plan import PlannedRequest
from zarr_manifest.sources.sources import Sources

__all__ = [
    "MOST_BYTES_IN_FLIGHT",
    "ManyRanges",
    "RangeError",
    "Receiver",
    "SourceObject",
    "in_decoding_thread",
    "read_ranges",
]

# Memory for what has been requested, and has not been received yet.
MOST_BYTES_IN_FLIGHT = 128 * 1024 * 1024

# Servers limit connections of one client; more gain little even over long distances.
_MOST_REQUESTS = 32

# Files of one object are shared among threads if there is this much to read, in bytes.
_WORTH_A_THREAD = 1024 * 1024

# One vectored read fills at most 1024 destinations on Linux.
_MOST_DESTINATIONS = 512


class SourceObject(NamedTuple):
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


async def read_ranges(sources: Sources, ranges: ManyRanges, receiver: Receiver) -> None:
    """Read ranges of objects, and hand each to the receiver exactly once.

    Raises
    ------
    RangeError
        A range cannot be read. What is still running then is stopped first.
    """
    local: list[tuple[FileReader, str, SourceObject, list[int]]] = []
    remote: list[tuple[SourceObject, list[int]]] = []
    by_object = list(_rows_by_object(ranges))
    files = await sources.local_files([ranges.objects[n].location for n, _ in by_object])
    for (number, rows), file in zip(by_object, files, strict=True):
        source = ranges.objects[number]
        if isinstance(file, ManifestError):
            raise RangeError(rows[0], file) from file.__cause__
        if file is None:
            remote.append((source, rows))
        else:
            local.append((*file, source, rows))
    stop = threading.Event()
    shares = _shares(ranges, local)
    reads = [
        in_decoding_thread(_read_share, sources, ranges, receiver, share, stop) for share in shares
    ]
    await _all_or_none([*reads, *_remote_reads(sources, ranges, receiver, remote)], stop)


async def _all_or_none(reads: Sequence[asyncio.Future[None]], stop: threading.Event) -> None:
    """Wait for reads; after a failure stop the others, which use what the caller will release."""
    if not reads:
        return
    try:
        await asyncio.gather(*reads)
    except BaseException:
        stop.set()
        for read in reads:
            if isinstance(read, asyncio.Task):
                read.cancel()
        # Threads cannot be cancelled; they stop after what they are reading.
        await asyncio.wait(reads)
        raise


def _rows_by_object(ranges: ManyRanges) -> Iterator[tuple[int, list[int]]]:
    """Yield each object with the rows of its ranges, ordered by their starts."""
    order = np.lexsort((ranges.stops, ranges.starts, ranges.object_numbers))
    numbers = ranges.object_numbers[order]
    for rows in np.split(order, np.flatnonzero(np.diff(numbers)) + 1) if len(order) else ():
        yield int(ranges.object_numbers[rows[0]]), rows.tolist()


# Local files -----------------------------------------------------------------


class _Part(NamedTuple):
    """Some ranges of one file."""

    reader: FileReader
    key: str
    source: SourceObject
    rows: list[int]


def _shares(
    ranges: ManyRanges, files: Sequence[tuple[FileReader, str, SourceObject, list[int]]]
) -> list[list[_Part]]:
    """Divide the ranges of files among threads, about the same number of bytes for each."""
    sizes = ranges.stops - ranges.starts
    total = sum(int(sizes[rows].sum()) for *_, rows in files)
    threads = min(_threads(), -(-total // _WORTH_A_THREAD))
    if threads < 2:
        return [[_Part(*file) for file in files]] if files else []
    each = -(-total // threads)
    shares: list[list[_Part]] = [[] for _ in range(threads)]
    before = 0
    for reader, key, source, rows in files:
        ends = before + np.cumsum(sizes[rows])
        before = int(ends[-1])
        owners = (ends - 1) // each
        cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(rows)]
        for first, last in pairwise(cuts):
            shares[int(owners[first])].append(_Part(reader, key, source, rows[first:last]))
    return [share for share in shares if share]


def _read_share(
    sources: Sources,
    ranges: ManyRanges,
    receiver: Receiver,
    share: Sequence[_Part],
    stop: threading.Event,
) -> None:
    for part in share:
        with (
            _naming(part.rows[0], part.source.location),
            part.reader.opened(part.key, part.source.conditions) as file,
        ):
            _require_within(ranges, part, file)
            others = _read_to_destinations(ranges, receiver, part, file, stop)
            _read_others(sources, ranges, receiver, part._replace(rows=others), file, stop)


def _require_within(ranges: ManyRanges, part: _Part, file: OpenFile) -> None:
    beyond = np.flatnonzero(ranges.stops[part.rows] > file.size)
    if len(beyond):
        row = part.rows[int(beyond[0])]
        span = SourceRange(int(ranges.starts[row]), int(ranges.stops[row]), True)
        with _naming(row, part.source.location):
            raise out_of_bounds(span, file.size)


def _read_to_destinations(
    ranges: ManyRanges, receiver: Receiver, part: _Part, file: OpenFile, stop: threading.Event
) -> list[int]:
    """Read ranges to where they go as they are, adjacent ones at once; return the other rows."""
    starts, stops = ranges.starts[part.rows].tolist(), ranges.stops[part.rows].tolist()
    others: list[int] = []
    run: list[memoryview] = []
    run_start = run_stop = 0
    for row, first, last in zip(part.rows, starts, stops, strict=True):
        view = receiver.destination(row)
        if view is None:
            others.append(row)
            continue
        if first != run_stop or len(run) == _MOST_DESTINATIONS:
            file.read_into(run_start, run)
            if stop.is_set():
                return []
            run, run_start = [], first
        run.append(view)
        run_stop = last
    file.read_into(run_start, run)
    return others


def _read_others(
    sources: Sources,
    ranges: ManyRanges,
    receiver: Receiver,
    part: _Part,
    file: OpenFile,
    stop: threading.Event,
) -> None:
    starts, stops = ranges.starts[part.rows].tolist(), ranges.stops[part.rows].tolist()
    for request in sources.plan(part.source.location, list(zip(starts, stops, strict=True))):
        if stop.is_set():
            return
        rows = [part.rows[member] for member in request.members]
        body = memoryview(file.read(request.start, request.stop))
        receiver.receive(rows, _bodies(ranges, rows, request, body))


@contextmanager
def _naming(row: int, location: Location) -> Generator[None]:
    """Say which range an error is about."""
    try:
        yield
    except ManifestError as error:
        located = error.in_context(location=str(location))
        raise RangeError(row, located) from error.__cause__


def _bodies(
    ranges: ManyRanges, rows: Sequence[int], request: PlannedRequest, body: memoryview
) -> list[memoryview]:
    starts, stops = ranges.starts[rows].tolist(), ranges.stops[rows].tolist()
    return [
        body[first - request.start : last - request.start]
        for first, last in zip(starts, stops, strict=True)
    ]


# Everything else -------------------------------------------------------------


def _remote_reads(
    sources: Sources,
    ranges: ManyRanges,
    receiver: Receiver,
    objects: Sequence[tuple[SourceObject, list[int]]],
) -> list[asyncio.Future[None]]:
    """Start as many tasks as there may be requests; each takes the next request of all."""
    reading = _RemoteReading(sources, ranges, receiver)
    requests = reading.planned(objects)
    budget = _Budget(MOST_BYTES_IN_FLIGHT)

    async def work() -> None:
        for source, rows, request in requests:
            async with budget.taken(request.stop - request.start):
                await reading.answer(source, rows, request)

    wanted = min(_MOST_REQUESTS, sum(len(rows) for _, rows in objects))
    return [asyncio.ensure_future(work()) for _ in range(wanted)]


class _RemoteReading(Struct, frozen=True):
    sources: Sources
    ranges: ManyRanges
    receiver: Receiver

    def planned(
        self, objects: Sequence[tuple[SourceObject, list[int]]]
    ) -> Iterator[tuple[SourceObject, list[int], PlannedRequest]]:
        starts, stops = self.ranges.starts, self.ranges.stops
        for source, rows in objects:
            spans = list(zip(starts[rows].tolist(), stops[rows].tolist(), strict=True))
            for request in self.sources.plan(source.location, spans):
                yield source, [rows[member] for member in request.members], request

    async def answer(self, source: SourceObject, rows: list[int], request: PlannedRequest) -> None:
        span = SourceRange(request.start, request.stop, True)
        try:
            body = await self.sources.fetch_alone(source.location, span, source.conditions)
        except RangeOutOfBoundsError as error:
            if len(rows) == 1:
                raise RangeError(rows[0], error) from error.__cause__
            # Some of the merged ranges may be inside the object.
            for row in rows:
                alone = PlannedRequest(
                    int(self.ranges.starts[row]), int(self.ranges.stops[row]), (0,)
                )
                await self.answer(source, [row], alone)
            return
        except ManifestError as error:
            raise RangeError(rows[0], error) from error.__cause__
        await in_decoding_thread(self._deliver, rows, request, body)

    def _deliver(self, rows: list[int], request: PlannedRequest, body: memoryview) -> None:
        decoded: list[int] = []
        bodies: list[memoryview] = []
        for row, part in zip(rows, _bodies(self.ranges, rows, request, body), strict=True):
            view = self.receiver.destination(row)
            if view is None:
                decoded.append(row)
                bodies.append(part)
            else:
                view[:] = part
        if decoded:
            self.receiver.receive(decoded, bodies)


class _Budget:
    """A number of bytes that may be in flight; what is larger than all of it goes alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._changed = asyncio.Condition()

    def taken(self, nbytes: int) -> _Taken:
        return _Taken(self, nbytes)

    async def take(self, nbytes: int) -> None:
        async with self._changed:
            await self._changed.wait_for(
                lambda: not self._taken or self._taken + nbytes <= self._most
            )
            self._taken += nbytes

    async def give_back(self, nbytes: int) -> None:
        async with self._changed:
            self._taken -= nbytes
            self._changed.notify_all()


class _Taken:
    def __init__(self, budget: _Budget, nbytes: int) -> None:
        self._budget, self._nbytes = budget, nbytes

    async def __aenter__(self) -> None:
        await self._budget.take(self._nbytes)

    async def __aexit__(self, *error: object) -> None:
        await self._budget.give_back(self._nbytes)


# Threads ---------------------------------------------------------------------

_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def _threads() -> int:
    return os.cpu_count() or 1


def in_decoding_thread[**P](
    call: Callable[P, None], *args: P.args, **kwargs: P.kwargs
) -> asyncio.Future[None]:
    """Call a function in one of as many threads as there are processors."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_threads(), thread_name_prefix="zarr-manifest-bulk")
        pool = _pool
    return asyncio.wrap_future(pool.submit(call, *args, **kwargs))


def _forget_pool() -> None:
    """Start without the threads of the parent, which a forked process does not have."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
