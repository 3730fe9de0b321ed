"""The cache of documents: what it keeps, and who waits for whom."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.servers.http_files import FileServer
from zarr_manifest.hierarchy.manifest_documents import DocumentCache


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 5)), max_size=30),
    st.integers(0, 12),
)
def test_the_cache_keeps_the_latest_that_fit(asked: list[tuple[str, int]], capacity: int) -> None:
    cache = DocumentCache[str, tuple[str, int]](capacity, lambda value: value[1])
    model: dict[str, tuple[str, int]] = {}
    made: list[str] = []

    async def make(value: tuple[str, int]) -> tuple[str, int]:
        made.append(value[0])
        return value

    for key, size in asked:
        made.clear()
        value = (key, size)
        found = asyncio.run(cache.get(key, lambda value=value: make(value)))
        assert found == model.get(key, value)
        assert made == ([] if key in model else [key])
        model[key] = model.pop(key, value)
        while sum(n for _, n in model.values()) > capacity and len(model) > 1:
            model.pop(next(iter(model)))


@pytest.mark.servers
def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zarr_manifest.hierarchy.manifest_documents._MOST_MEMORY", 1)
    entries = {str(i): {"data": bytes([i])} for i in range(4)}
    options: Any = {"shape": 4, "chunks": 1, "dtype": "u1", "partition_shape": (2,)}
    zm.create_array(tmp_path, "a", entries, **options, compressors=None)
    with FileServer(tmp_path) as server:
        array: Any = zarr.open_array(zm.ManifestStore(server.url), path="a", mode="r")
        for _ in range(2):
            assert [int(array[i]) for i in range(4)] == [0, 1, 2, 3]
        asked = [each.target for each in server.requests if "/manifest/" in each.target]
    assert len(asked) == 4
    assert asked[:2] == asked[2:]


class Gate:
    """Makes values when it is told to, and counts."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.started = threading.Event()
        self.made = 0
        self.fails: Exception | None = None

    async def make(self) -> int:
        self.started.set()
        while not self.open.is_set():
            await asyncio.sleep(0.001)
        return self._answer()

    def _answer(self) -> int:
        self.made += 1
        if self.fails is not None:
            raise self.fails
        return self.made


def new_cache() -> DocumentCache[str, int]:
    return DocumentCache[str, int](1000, lambda _: 1)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def test_who_waits_gets_what_the_first_one_makes() -> None:
    cache, gate = new_cache(), Gate()
    tasks = [asyncio.ensure_future(cache.get("k", gate.make)) for _ in range(5)]
    await until(gate.started.is_set)
    gate.open.set()
    assert await asyncio.gather(*tasks) == [1] * 5
    assert await cache.get("k", gate.make) == 1


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_cancelling_one_reader_does_not_disturb_the_others(cancelled: int) -> None:
    cache, gate = new_cache(), Gate()
    tasks = [asyncio.ensure_future(cache.get("k", gate.make)) for _ in range(3)]
    await until(gate.started.is_set)
    tasks[cancelled].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[cancelled]
    gate.open.set()
    others = [task for task in tasks if task is not tasks[cancelled]]
    assert await asyncio.gather(*others) == [1, 1]


async def test_failures_reach_all_who_wait_and_are_not_kept() -> None:
    cache, gate = new_cache(), Gate()
    gate.fails = zm.errors.SourceError("broken")
    tasks = [asyncio.ensure_future(cache.get("k", gate.make)) for _ in range(3)]
    await until(gate.started.is_set)
    gate.open.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(answer, zm.errors.SourceError) for answer in answers)
    gate.fails = None
    assert await cache.get("k", gate.make) == 2


def test_event_loops_do_not_wait_for_each_other() -> None:
    cache, gate = new_cache(), Gate()
    with ThreadPoolExecutor(1) as pool:
        in_loop = pool.submit(lambda: asyncio.run(cache.get("k", gate.make)))
        assert gate.started.wait(10)
        opened = Gate()
        opened.open.set()
        assert asyncio.run(cache.get("k", opened.make)) == 1
        gate.open.set()
        in_loop.result(10)
    assert (gate.made, opened.made) == (1, 1)


def test_an_event_loop_that_was_stopped_keeps_no_other_waiting() -> None:
    cache, gate = new_cache(), Gate()
    stopped = asyncio.new_event_loop()
    task = stopped.create_task(cache.get("k", gate.make))
    stopped.call_soon(stopped.call_soon, stopped.stop)
    stopped.run_forever()
    assert gate.started.is_set()
    assert not task.done()
    opened = Gate()
    opened.open.set()

    async def read() -> int:
        return await asyncio.wait_for(cache.get("k", opened.make), 5)

    assert asyncio.run(read()) == 1
    gate.open.set()
    assert stopped.run_until_complete(task) == 1
    stopped.close()
