"""Many ranges at once: each is handed over once, and nothing goes on after a failure."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import obstore as obs
import obstore.store
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tests.sources.receivers import Collector
from zarr_manifest.errors import RangeOutOfBoundsError, SourceNotFoundError
from zarr_manifest.format import NO_CONDITIONS
from zarr_manifest.locations import Base
from zarr_manifest.sources import (
    ManyRanges,
    RangeError,
    SourceObject,
    Sources,
    in_decoding_thread,
    read_ranges,
    reader_of,
)
from zarr_manifest.sources.concurrency import Budget

SIZE = 4096
BODY = np.random.default_rng(0).integers(0, 256, SIZE, "u1").tobytes()


def ranges_of(urls: Sequence[str], rows: Sequence[tuple[int, int, int]]) -> ManyRanges:
    objects = [SourceObject(Base.parse("./").resolve(url), NO_CONDITIONS) for url in urls]
    columns = np.array(rows, np.int64).reshape(len(rows), 3).T
    return ManyRanges(objects, *columns)


@pytest.fixture
def files(tmp_path: Path) -> Sources:
    return sources_in(tmp_path)


def sources_in(directory: Path, **options: Any) -> Sources:
    """Objects of 4 KiB: two files, and two of a store that stands in for a remote one."""
    remote = obstore.store.MemoryStore()
    for name in "ab":
        (directory / name).write_bytes(BODY)
        obs.put(remote, name, BODY)
    hierarchy = reader_of(obstore.store.MemoryStore())
    return Sources({directory.as_uri(): None, "s3://b/": remote}, hierarchy, **options)


def urls_in(directory: Path) -> list[str]:
    return [f"{directory.as_uri()}/a", f"{directory.as_uri()}/b", "s3://b/a", "s3://b/b"]


# Each begins where the one before has ended.
ADJACENT = st.lists(st.integers(1, 300), max_size=12).map(
    lambda sizes: [(0, b - a, b) for a, b in zip(sizes, accumulate(sizes), strict=True)]
)
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, SIZE - 1), st.integers(1, 300)).map(
        lambda row: (row[0], row[1], min(SIZE, row[1] + row[2]))
    ),
    max_size=60,
)


@pytest.mark.slow
@examples(2)
@given(
    rows=ROWS | ADJACENT,
    chosen=st.sets(st.integers(0, 59)),
    max_gap=st.sampled_from([-1, 0, 50, 5000]),
    worth_a_thread=st.sampled_from([1, 1000, 10**6]),
    at_once=st.sampled_from([1, 100, 10**6]),
)
def test_each_range_is_handed_over_once(
    rows: Any, chosen: set[int], max_gap: int, worth_a_thread: int, at_once: int
) -> None:
    with tempfile.TemporaryDirectory() as given, pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarr_manifest.sources.range_reading._WORTH_A_THREAD", worth_a_thread)
        patch.setattr("zarr_manifest.sources.range_reading._MOST_BYTES_PER_CALL", at_once)
        directory = Path(given)
        ranges = ranges_of(urls_in(directory), rows)
        collector = Collector(ranges, chosen.__contains__)
        asyncio.run(read_ranges(sources_in(directory, max_gap=max_gap), ranges, collector))
    assert sorted(collector.asked) == list(range(len(rows)))
    assert collector.found() == [BODY[start:stop] for _, start, stop in rows]


@pytest.mark.parametrize("where", [0, 2], ids=["file", "request"])
@pytest.mark.parametrize("as_they_are", [False, True])
def test_a_range_beyond_the_end_is_named(where: int, as_they_are: bool, tmp_path: Path) -> None:
    """Also if it was merged with others."""
    rows = [(where, 0, 10), (where, SIZE - 5, SIZE + 5), (where, 10, 20)]
    ranges = ranges_of(urls_in(tmp_path), rows)
    with pytest.raises(RangeError) as raised:
        asyncio.run(
            read_ranges(sources_in(tmp_path), ranges, Collector(ranges, lambda _: as_they_are))
        )
    assert raised.value.row == 1
    assert isinstance(raised.value.error, RangeOutOfBoundsError)
    assert raised.value.error.location == urls_in(tmp_path)[where]


@pytest.mark.parametrize("where", [0, 2], ids=["file", "request"])
def test_an_object_that_does_not_exist_is_named(where: int, tmp_path: Path) -> None:
    urls = [*urls_in(tmp_path), f"{urls_in(tmp_path)[where]}.gone"]
    ranges = ranges_of(urls, [(1, 0, 10), (4, 0, 10)])
    with pytest.raises(RangeError) as raised:
        asyncio.run(read_ranges(sources_in(tmp_path), ranges, Collector(ranges, lambda _: False)))
    assert raised.value.row == 1
    assert isinstance(raised.value.error, SourceNotFoundError)
    assert raised.value.error.location == urls[4]


# What goes on after a failure ------------------------------------------------------------


class Slow(Collector):
    """Takes its time, and says when it has begun."""

    def __init__(self, ranges: ManyRanges) -> None:
        super().__init__(ranges, lambda _: False)
        self.begun = threading.Event()
        self.running = 0
        self.lock = threading.Lock()

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        with self.lock:
            self.running += 1
        self.begun.set()
        time.sleep(0.2)
        super().receive(rows, bodies)
        with self.lock:
            self.running -= 1


@pytest.mark.parametrize("where", [0, 2], ids=["file", "request"])
@pytest.mark.parametrize("times", [1, 2])
def test_nothing_is_received_after_a_cancelled_read(
    where: int, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that has begun is waited for, however often the read is cancelled."""
    monkeypatch.setattr("zarr_manifest.sources.range_reading._WORTH_A_THREAD", 1)
    rows = [(where, 10 * i, 10 * i + 10) for i in range(100)]
    ranges = ranges_of(urls_in(tmp_path), rows)
    slow = Slow(ranges)

    async def run() -> None:
        task = asyncio.ensure_future(read_ranges(sources_in(tmp_path, max_gap=-1), ranges, slow))
        await asyncio.to_thread(slow.begun.wait)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert slow.running == 0
        assert 0 < len(slow.bodies) < len(rows)

    asyncio.run(run())


def test_a_failure_stops_the_others(tmp_path: Path) -> None:
    """Requests for 1,000 ranges of one object are not made once one of another has failed."""
    urls = ["s3://b/gone", "s3://b/a"]
    rows = [(0, 0, 10), *((1, 4 * i, 4 * i + 1) for i in range(1000))]
    ranges = ranges_of(urls, rows)
    collector = Collector(ranges, lambda _: False)
    with pytest.raises(RangeError) as raised:
        asyncio.run(read_ranges(sources_in(tmp_path, max_gap=-1), ranges, collector))
    assert raised.value.row == 0
    received = len(collector.bodies)
    assert received < 500
    time.sleep(0.05)
    assert len(collector.bodies) == received


def test_what_the_receiver_raises_is_raised_as_it_is(tmp_path: Path) -> None:
    class Failing(Collector):
        def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
            raise ValueError("cannot be decoded")

    for where in (0, 2):
        ranges = ranges_of(urls_in(tmp_path), [(where, 0, 10)])
        with pytest.raises(ValueError, match="cannot be decoded"):
            asyncio.run(read_ranges(sources_in(tmp_path), ranges, Failing(ranges, lambda _: False)))


def test_all_reads_fail_or_none() -> None:
    """The first in order of those that failed counts; asyncio has nothing to complain about."""
    complaints: list[Any] = []
    ranges = ranges_of([f"https://own/{i}" for i in range(3)], [(i, 0, 10) for i in range(3)])

    class Failing:
        def __init__(self) -> None:
            self.together = asyncio.Barrier(3)

        async def read_range(self, *_: object) -> Any:
            await self.together.wait()
            raise FileNotFoundError

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
        sources = Sources({"https://own/": Failing()}, reader_of(obstore.store.MemoryStore()))
        with pytest.raises(RangeError) as raised:
            await read_ranges(sources, ranges, Collector(ranges, lambda _: False))
        assert raised.value.row == 0

    asyncio.run(run())
    assert complaints == []


# Bytes in flight ---------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(1, 120), max_size=40), cancelled=st.sets(st.integers(0, 39)))
def test_a_budget_is_kept_and_everybody_gets_a_turn(sizes: list[int], cancelled: set[int]) -> None:
    budget = Budget(100)
    taken: list[int] = []
    served: list[int] = []

    async def use(number: int, nbytes: int) -> None:
        async with budget.taken(nbytes):
            taken.append(nbytes)
            assert sum(taken) <= 100 or taken == [nbytes]
            try:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                served.append(number)
            finally:
                taken.remove(nbytes)

    async def run() -> None:
        tasks = [asyncio.ensure_future(use(*each)) for each in enumerate(sizes)]
        await asyncio.sleep(0)
        for number in cancelled & set(range(len(tasks))):
            tasks[number].cancel()
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks, return_exceptions=True)
        kept = [i for i in range(len(sizes)) if not tasks[i].cancelled()]
        assert sorted(served) == kept
        async with asyncio.timeout(10), budget.taken(100):  # all of it has been given back
            pass

    asyncio.run(run())
    assert taken == []


# Threads ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    ranges = ranges_of(urls_in(tmp_path), [(0, 0, 10)])
    sources = sources_in(tmp_path)

    def read() -> bytes:
        collector = Collector(ranges, lambda _: False)
        asyncio.run(read_ranges(sources, ranges, collector))
        return collector.found()[0]

    assert read() == BODY[:10]
    child = os.fork()
    if child == 0:
        os._exit(0 if read() == BODY[:10] else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0


@pytest.mark.slow
def test_several_event_loops_read_at_the_same_time(tmp_path: Path) -> None:
    rows = [(i % 4, 10 * i, 10 * i + 10) for i in range(200)]
    ranges = ranges_of(urls_in(tmp_path), rows)
    sources = sources_in(tmp_path)

    def read(_: int) -> list[bytes]:
        collector = Collector(ranges, lambda row: row % 2 == 0)
        asyncio.run(read_ranges(sources, ranges, collector))
        return collector.found()

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(read, range(8)):
            assert found == [BODY[start:stop] for _, start, stop in rows]


async def test_a_call_that_has_not_begun_is_not_made_if_it_is_cancelled() -> None:
    gate = threading.Event()
    made: list[int] = []

    def wait() -> Iterator[int]:
        gate.wait(10)
        yield from ()

    busy = [asyncio.ensure_future(in_decoding_thread(made.extend, wait())) for _ in range(64)]
    late = asyncio.ensure_future(in_decoding_thread(made.append, 1))
    await asyncio.sleep(0.01)
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    gate.set()
    await asyncio.gather(*busy)
    assert made == []
