"""Ranges of local files: opened once for each thread, and read where they go."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct, structs

from zarr_manifest.sources.bulk.ranges import ManyRanges, Receiver, SourceObject, naming
from zarr_manifest.sources.byte_ranges import out_of_bounds
from zarr_manifest.sources.local_files import FileReader
from zarr_manifest.sources.open_file import OpenFile
from zarr_manifest.sources.sources import Sources

__all__ = ["LocalReading", "Part", "shares"]

# Files of one object are shared among threads if there is this much to read, in bytes.
_WORTH_A_THREAD = 1024 * 1024

# One vectored read fills at most 1024 destinations on Linux.
_MOST_DESTINATIONS = 512

# After so many bytes, a thread looks whether it is to stop.
_MOST_AT_ONCE = 16 * 1024 * 1024


class Part(Struct, frozen=True):
    """Some ranges of one file, ordered by their starts."""

    reader: FileReader
    key: str
    source: SourceObject
    rows: list[int]


def shares(ranges: ManyRanges, files: Sequence[Part], threads: int) -> list[list[Part]]:
    """Divide the ranges of files among threads, about the same number of bytes for each."""
    sizes = ranges.stops - ranges.starts
    total = sum(int(sizes[file.rows].sum()) for file in files)
    threads = min(threads, -(-total // _WORTH_A_THREAD))
    if threads < 2:
        return [list(files)] if files else []
    each = -(-total // threads)
    divided: list[list[Part]] = [[] for _ in range(threads)]
    before = 0
    for file in files:
        ends = before + np.cumsum(sizes[file.rows])
        before = int(ends[-1])
        owners = (ends - 1) // each
        cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(file.rows)]
        for first, last in pairwise(cuts):
            divided[int(owners[first])].append(structs.replace(file, rows=file.rows[first:last]))
    return [share for share in divided if share]


class LocalReading(Struct, frozen=True):
    """Reads ranges of files, in the calling thread.

    Parameters
    ----------
    sources : Sources
        Say how ranges are merged.
    ranges : ManyRanges
        The ranges.
    receiver : Receiver
        Takes their bytes.
    stop : threading.Event
        Once it is set, nothing more is read.
    """

    sources: Sources
    ranges: ManyRanges
    receiver: Receiver
    stop: threading.Event

    def read(self, share: Iterable[Part]) -> None:
        """Read the ranges that one thread has to read."""
        for part in share:
            if self.stop.is_set():
                return
            with (
                naming(part.rows[0], part.source.location),
                part.reader.opened(part.key, part.source.conditions) as file,
            ):
                self._require_within(part, file)
                others = self._read_to_destinations(part, file)
                self._read_others(structs.replace(part, rows=others), file)

    def _require_within(self, part: Part, file: OpenFile) -> None:
        beyond = np.flatnonzero(self.ranges.stops[part.rows] > file.size)
        if len(beyond):
            row = part.rows[int(beyond[0])]
            with naming(row, part.source.location):
                raise out_of_bounds(self.ranges.span(row), file.size)

    def _read_to_destinations(self, part: Part, file: OpenFile) -> list[int]:
        """Read ranges to where they go as they are, adjacent ones at once; return other rows."""
        others: list[int] = []
        run: list[memoryview] = []
        run_start = run_stop = 0
        for row, (first, last) in zip(part.rows, self.ranges.spans(part.rows), strict=True):
            view = self.receiver.destination(row)
            if view is None:
                others.append(row)
                continue
            full = len(run) == _MOST_DESTINATIONS or run_stop - run_start >= _MOST_AT_ONCE
            if first != run_stop or full:
                if self.stop.is_set():
                    return []
                file.read_into(run_start, run)
                run, run_start = [], first
            run.append(view)
            run_stop = last
        file.read_into(run_start, run)
        return others

    def _read_others(self, part: Part, file: OpenFile) -> None:
        for request in self.sources.plan(part.source.location, self.ranges.spans(part.rows)):
            if self.stop.is_set():
                return
            rows = [part.rows[member] for member in request.members]
            body = memoryview(file.read(request.start, request.stop))
            self.receiver.receive(rows, self.ranges.bodies(rows, request, body))
