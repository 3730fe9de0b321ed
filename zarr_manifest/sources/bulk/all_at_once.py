"""Ranges of many objects, wherever they are: local files in threads, others as requests."""

from __future__ import annotations

import asyncio
import threading
from weakref import WeakKeyDictionary

from zarr_manifest.errors import ManifestError
from zarr_manifest.sources.bulk.decoding_threads import in_decoding_thread, thread_count
from zarr_manifest.sources.bulk.local_ranges import LocalReading, Part, shares
from zarr_manifest.sources.bulk.ranges import ManyRanges, RangeError, Receiver, SourceObject
from zarr_manifest.sources.bulk.requested_ranges import RequestedReading
from zarr_manifest.sources.bulk.waiting import Budget, all_or_none
from zarr_manifest.sources.sources import Sources

__all__ = ["MOST_BYTES_IN_FLIGHT", "read_ranges"]

# Memory for what has been requested, and has not been received yet, by all that read at the
# same time: those that an event loop runs, which for zarr is everybody in a process.
MOST_BYTES_IN_FLIGHT = 128 * 1024 * 1024

_budgets = WeakKeyDictionary[asyncio.AbstractEventLoop, Budget]()


async def read_ranges(sources: Sources, ranges: ManyRanges, receiver: Receiver) -> None:
    """Read ranges of objects, and hand each to the receiver exactly once.

    Raises
    ------
    RangeError
        A range cannot be read. What is still running then is stopped first.
    """
    local: list[Part] = []
    others: list[tuple[SourceObject, list[int]]] = []
    by_object = list(ranges.by_object())
    files = await sources.local_files([source.location for source, _ in by_object])
    for (source, rows), file in zip(by_object, files, strict=True):
        if isinstance(file, ManifestError):
            raise RangeError(rows[0], file) from file.__cause__
        if file is None:
            others.append((source, rows))
        else:
            local.append(Part(*file, source, rows))
    stop = threading.Event()
    reading = LocalReading(sources, ranges, receiver, stop)
    divided = shares(ranges, local, thread_count())
    requested = RequestedReading(sources, ranges, receiver, _budget())
    reads = [in_decoding_thread(reading.read, share) for share in divided]
    await all_or_none([*reads, *requested.reads(others)], stop)


def _budget() -> Budget:
    loop = asyncio.get_running_loop()
    budget = _budgets.get(loop)
    if budget is None:
        budget = _budgets[loop] = Budget(MOST_BYTES_IN_FLIGHT)
    return budget
