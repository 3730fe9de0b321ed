"""Checks one block of chunks: the objects that they lie in, and then their bytes.

What a reader would refuse is a fault; unlike a reader, it goes on after the first. Workers of any
engine take a checker with them, and open the hierarchy once in each process.
"""

from __future__ import annotations

import asyncio
import functools
import math
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import structs

from zarr_manifest.errors import (
    ManifestError,
    RangeOutOfBoundsError,
    SourceChangedError,
    SourceNotFoundError,
)
from zarr_manifest.format import Conditions, limit_exceeded, verify_checksum
from zarr_manifest.hierarchy import InspectedHierarchy
from zarr_manifest.inspection.blocks import EACH, ChunkBlock
from zarr_manifest.inspection.damage import (
    DAMAGED,
    MOST_NAMES,
    BlockResult,
    Examined,
    Fault,
    Finding,
)
from zarr_manifest.inspection.decoding import ChunkDecoding
from zarr_manifest.locations import AllowList, Location, StoreLocation
from zarr_manifest.manifest import TO_THE_END
from zarr_manifest.showing import counted
from zarr_manifest.sources import (
    ObjectVersion,
    Pace,
    SourceObject,
    SourceRange,
    Sources,
    in_decoding_thread,
    object_states,
    out_of_bounds,
    read_each,
)
from zarr_manifest.zarr_internals import sync

# Requests for states that run at a time.
_AT_ONCE = 100

# Objects whose state is remembered; beyond this many, forget them all, and ask again.
_MOST_OBJECTS = 2**16

# So many bytes that were read are recorded together.
_RECORDED = 2**20

_FIRST_BYTE = SourceRange(0, 1, False)


type Record = Callable[[Examined], None]


class _TimeIsUpError(Exception):
    """Whoever asked for a block waits no longer."""


class BlockChecker:
    """Checks blocks of one hierarchy, in several threads at the same time.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        The hierarchy.
    per_second : float
        Number of requests for states that begin in a second.
    """

    def __init__(self, hierarchy: InspectedHierarchy, per_second: float) -> None:
        self._made_of = hierarchy, per_second
        self._sources = hierarchy.sources
        self._allow = AllowList(hierarchy.allow)
        self._pace = Pace(_AT_ONCE, per_second)
        self._known: dict[ObjectVersion, tuple[asyncio.Future[list[_State]], int]] = {}
        self._decodings: dict[str, ChunkDecoding | Fault] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._pickled,)

    @functools.cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(self._made_of)

    def check(
        self,
        block: ChunkBlock,
        known: Sequence[Examined] = (),
        record: Record | None = None,
        until: float = math.inf,
    ) -> BlockResult | Examined:
        """Check the chunks of a block; return those that were read if there is no time for all.

        Parameters
        ----------
        block : ChunkBlock
            The block.
        known : sequence of Examined
            Chunks that need not be read again.
        record : callable, optional
            Given what has been read, in any thread; that is not returned again.
        until : float
            When to stop, in seconds since 1970.
        """
        if time.time() >= until:
            return Examined(block.key, [])
        return sync(self._check(block, known, record, until))

    async def _check(
        self, block: ChunkBlock, known: Sequence[Examined], record: Record | None, until: float
    ) -> BlockResult | Examined:
        check = _Check(block)
        states, asked = await self._states(block.ranges.objects)
        check.result.objects = len(asked)
        local = self._sources.is_on_disk
        for source, rows in block.ranges.by_object():
            state = states[source]
            if source.conditions.etag is not None and local(source.location):
                # Files have no tags; reading makes one of their status.
                state = await self._state_of_file(source, state)
            check.compare(np.array(rows), source, state)
        check.recall(known)
        if block.wanted.any():
            decoding = await asyncio.to_thread(self._decoding, block)
            if isinstance(decoding, Fault):
                for position in np.flatnonzero(block.wanted).tolist():
                    check.faults.setdefault(position, decoding)
            decodes = decoding if isinstance(decoding, ChunkDecoding) else None
            reader = _ChunkExaminer(check, decodes, record, until)
            if block.inline:
                await in_decoding_thread(reader.read_inline)
            try:
                await reader.read_ranges(self._sources)
            except _TimeIsUpError:
                for version in asked:  # they count once the block has been checked
                    self._known.pop(version, None)
                return reader.unrecorded()
        return check.finished(self._source_of)

    async def _states(
        self, objects: Sequence[SourceObject]
    ) -> tuple[dict[SourceObject, _State], list[ObjectVersion]]:
        """Return the state of each object, and those that no block has needed before.

        Each is asked for once.
        """
        versions = [ObjectVersion(each.location, each.conditions.version) for each in objects]
        if len(self._known) > _MOST_OBJECTS:
            self._known.clear()
        new = [each for each in dict.fromkeys(versions) if each not in self._known]
        if new:
            asking = asyncio.ensure_future(object_states(self._sources, new, self._pace))
            self._known |= {each: (asking, number) for number, each in enumerate(new)}
        known = [self._known[each] for each in versions]
        states = [(await asking)[number] for asking, number in known]
        return dict(zip(objects, states, strict=True)), new

    async def _state_of_file(self, source: SourceObject, state: _State) -> _State:
        if isinstance(state, ManifestError):
            return state
        try:
            await self._sources.fetch(source.location, _FIRST_BYTE, source.conditions)
        except RangeOutOfBoundsError:
            pass  # it is empty
        except ManifestError as error:
            return error
        return structs.replace(state, etag=source.conditions.etag)

    def _decoding(self, block: ChunkBlock) -> ChunkDecoding | Fault | None:
        if block.metadata is None:
            return None
        if block.array not in self._decodings:
            try:
                self._decodings[block.array] = ChunkDecoding(block.metadata)
            except Exception as error:  # of any codec
                problem = f"zarr cannot open the array: {type(error).__name__}: {error}"
                self._decodings[block.array] = Fault("unsupported", problem)
        return self._decodings[block.array]

    def _source_of(self, location: Location) -> str:
        if isinstance(location, StoreLocation):
            return "hierarchy"
        return self._allow.match(location) or location.origin


@functools.lru_cache(maxsize=4)
def _opened(pickled: bytes) -> BlockChecker:
    return BlockChecker(*pickle.loads(pickled))


type _State = Conditions | ManifestError


# A native chunk of fill values, by the rules of Zarr.
_ABSENT = Fault("", "")


class _Check:
    """What is found in a block, chunk by chunk."""

    def __init__(self, block: ChunkBlock) -> None:
        self.block = block
        self.result = BlockResult(block.key, block.array, len(block), block.empty)
        self.faults: dict[int, Fault] = {}
        self.stops = block.ranges.stops.copy()
        self.examined = np.zeros(len(block), np.bool_)

    def compare(self, rows: npt.NDArray[np.int64], source: SourceObject, state: _State) -> None:
        """Compare an object's state with what entries record, and with where its chunks end."""
        block = self.block
        if isinstance(state, ManifestError):
            self.fail(rows, state)
            return
        if state.size is not None:
            to_the_end = rows[self.stops[rows] == TO_THE_END]
            self.stops[to_the_end] = state.size
            starts, stops = block.ranges.starts[rows], self.stops[rows]
            empty = (block.ranges.stops[rows] == TO_THE_END) & (starts >= stops) & (starts > 0)
            for row in rows[empty | (stops > state.size)].tolist():
                span = SourceRange(int(block.ranges.starts[row]), int(self.stops[row]), True)
                error = out_of_bounds(span, state.size).in_context(location=str(source.location))
                self.fail([row], error)
        try:
            source.conditions.require(state)
        except SourceChangedError as error:
            self.fail(rows, error.in_context(location=str(source.location)))

    def recall(self, known: Sequence[Examined]) -> None:
        """Take chunks as read before."""
        for examined in known:
            for first, last in examined.runs:
                self.examined[first : last + 1] = True
            self.faults = examined.faults | self.faults

    def fail(self, rows: Sequence[int] | npt.NDArray[np.int64], error: ManifestError) -> None:
        """Record an error of ranges, unless something else is wrong with their chunks."""
        if self.block.is_native and isinstance(error, SourceNotFoundError):
            fault = _ABSENT
        else:
            fault = Fault.of(error)
        for position in self.block.ranged[rows].tolist():
            self.faults.setdefault(position, fault)

    def wanted_rows(self) -> npt.NDArray[np.int64]:
        """Return the ranges that are to be read, of chunks in which nothing is wrong so far."""
        block = self.block
        sizes = self.stops - block.ranges.starts
        for row in np.flatnonzero(block.wanted[block.ranged] & (sizes > block.most)).tolist():
            problem = f"for this chunk, {counted(int(sizes[row]), 'byte')} would be read"
            self.fail([row], limit_exceeded(problem, block.most, "chunk_bytes"))
        is_wanted = (block.wanted & ~self.examined)[block.ranged]
        is_wanted[np.isin(block.ranged, list(self.faults))] = False
        return np.flatnonzero(is_wanted)

    def apart(self, rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
        """Return ranges in groups, lest a request that merges them spans what was read before."""
        ranges, was_read = self.block.ranges, self.examined[self.block.ranged]
        if not was_read.any():
            return [rows]
        order = np.lexsort((ranges.starts, ranges.object_numbers))
        groups = np.empty(len(order), np.int64)
        groups[order] = np.cumsum(was_read[order])
        return [rows[groups[rows] == number] for number in np.unique(groups[rows])]

    def finished(self, source_of: Callable[[Location], str]) -> BlockResult:
        """Return what was found."""
        block, result = self.block, self.result
        sizes = self.stops - block.ranges.starts
        result.read = int(np.count_nonzero(self.examined))
        result.nbytes = int(sizes[self.examined[block.ranged]].sum())
        if block.metadata is None:  # nothing was decoded
            examined = np.flatnonzero(self.examined).tolist()
            result.uncompared = sum(position not in block.checksums for position in examined)
        objects = block.ranges.objects
        names = ["native" if block.is_native else source_of(each.location) for each in objects]
        labels = list(dict.fromkeys(("inline", *names)))
        # The source of each chunk; none of those without bytes.
        sources = np.full(len(block), -1, np.int64)
        sources[list(block.inline)] = 0
        by_object = np.array([labels.index(name) for name in names], np.int64)
        sources[block.ranged] = by_object[block.ranges.object_numbers]
        is_absent = [position for position, fault in self.faults.items() if fault is _ABSENT]
        sources[is_absent] = -1
        result.empty += len(is_absent)
        result.sampled = int(np.count_nonzero(block.wanted & (sources >= 0)))
        found: dict[tuple[str, Fault], list[int]] = {}
        first: dict[tuple[str, str | None], Fault] = {}
        for position, fault in sorted(self.faults.items(), key=lambda item: item[0]):
            if fault is not _ABSENT:
                if fault.location is not None:  # one finding an object, whatever the range
                    fault = first.setdefault((fault.code, fault.location), fault)
                found.setdefault((labels[int(sources[position])], fault), []).append(position)
                result.damaged += bool(block.wanted[position]) and fault.state in DAMAGED
        sources[list(self.faults)] = -1
        for number, count in enumerate(np.bincount(sources[sources >= 0]).tolist()):
            if count:
                result.counts[labels[number]] = {"ok": count}
        for (source, fault), positions in found.items():
            states = result.counts.setdefault(source, {})
            states[fault.state] = states.get(fault.state, 0) + len(positions)
            result.findings.append(
                Finding(
                    block.array,
                    fault.state,
                    fault.code,
                    fault.message,
                    source,
                    fault.location,
                    tuple(map(block.name, positions[:MOST_NAMES])),
                    len(positions),
                )
            )
        result.time = time.time()
        return result


class _ChunkExaminer:
    """Reads the chunks of a block that are wanted, and takes their bytes, in any thread."""

    def __init__(
        self, check: _Check, decoding: ChunkDecoding | None, record: Record | None, until: float
    ) -> None:
        self._check = check
        self._decoding = decoding
        self._record = record
        self._until = until
        self._unrecorded: list[int] = []
        self._unrecorded_bytes = 0
        self._lock = threading.Lock()

    def read_inline(self) -> None:
        """Check the chunks whose bytes the manifest holds."""
        block = self._check.block
        for position, body in block.inline.items():
            if block.wanted[position]:
                self._examine(position, memoryview(body))

    async def read_ranges(self, sources: Sources) -> None:
        """Read all ranges, and go on after a failure."""
        check = self._check
        ranges = structs.replace(check.block.ranges, stops=check.stops)
        for rows in check.apart(check.wanted_rows()):
            positions = check.block.ranged[rows].tolist()
            use = functools.partial(self._take, rows.tolist(), positions)
            fail = functools.partial(self._fail, rows)
            await read_each(sources, ranges.of_rows(rows), use, fail)

    def _fail(
        self, rows: npt.NDArray[np.int64], numbers: Sequence[int], error: ManifestError
    ) -> None:
        self._check.fail(rows[numbers], error)

    def _take(
        self,
        rows: Sequence[int],
        positions: Sequence[int],
        numbers: Sequence[int],
        bodies: Sequence[memoryview],
    ) -> None:
        for number, body in zip(numbers, bodies, strict=True):
            self._examine(positions[number], body, rows[number])
        with self._lock:
            self._unrecorded += [positions[number] for number in numbers]
            self._unrecorded_bytes += sum(map(len, bodies)) + EACH * len(bodies)
            is_much = self._unrecorded_bytes >= _RECORDED
        if self._record is not None and is_much:
            self._record(self.unrecorded())
        if time.time() >= self._until:
            raise _TimeIsUpError

    def unrecorded(self) -> Examined:
        """Return what has been read since this was asked for."""
        with self._lock:
            examined, self._unrecorded, self._unrecorded_bytes = self._unrecorded, [], 0
        return Examined.of(self._check.block.key, examined, self._check.faults)

    def _examine(self, position: int, body: memoryview, row: int | None = None) -> None:
        """Compare the bytes of a chunk with its checksum, and decode them."""
        check, block = self._check, self._check.block
        checksum = block.checksums.get(position)
        fault = None
        try:
            if checksum is not None:
                verify_checksum(checksum, body)
        except ManifestError as error:
            fault = Fault.of(error)
        if fault is None and self._decoding is not None:
            failure = self._decoding.failure(block.index(position), body)
            if failure is not None:
                fault = Fault("undecodable", f"undecodable: {failure}")
        if fault is not None and row is not None:
            source = block.ranges.objects[int(block.ranges.object_numbers[row])]
            fault = structs.replace(fault, location=str(source.location))
        if fault is not None:
            check.faults[position] = fault
        check.examined[position] = True
