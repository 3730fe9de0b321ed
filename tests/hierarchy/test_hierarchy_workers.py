"""Stores that are pickled, fresh, or shared by many: values, and manifests loaded once."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import RangeByteRequest, Store, SuffixByteRequest
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore

import zarr_manifest as zm
from tests.counting_store import Counting
from tests.hierarchies import (
    Values,
    assert_same,
    by_open_array,
    copy_into,
    write_manifest_array,
)
from tests.servers.http_files import FileServer

PROTOTYPE = default_buffer_prototype()
# zarr says so of sources and v2 nodes that lie in a v3 group; of nothing else here.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
)


@pytest.mark.slow
def test_pickled_store_and_arrays(store: zm.ManifestStore, values: Values) -> None:
    again = pickle.loads(pickle.dumps(store))
    assert again == store
    for path in values:
        assert_same(by_open_array(again, path)[:], values, path)
        array = pickle.loads(pickle.dumps(by_open_array(store, path)))
        assert_same(array[:], values, path)


def chunk_of(values: Values, path: str) -> bytes:
    return values[path][3:6, 4:8].tobytes()


@pytest.mark.slow
def test_a_fresh_store_asked_for_a_chunk_only(store: zm.ManifestStore, values: Values) -> None:
    for path in ("a/b/external", "inline"):
        key, expected = f"{path}/c/1/1", chunk_of(values, path)
        for fresh in (lambda: pickle.loads(pickle.dumps(store)), lambda: zm.ManifestStore(store)):
            assert sync(fresh().get(key, PROTOTYPE)).to_bytes() == expected
            assert fresh().get_sync(key).to_bytes() == expected
            assert sync(fresh().exists(key))
            assert sync(fresh().getsize(key)) == len(expected)
            part = sync(
                fresh().get_partial_values(PROTOTYPE, [(key, RangeByteRequest(4, 9)), (key, None)])
            )
            assert [p.to_bytes() for p in part] == [expected[4:9], expected]
            suffix = fresh().get_sync(key, prototype=PROTOTYPE, byte_range=SuffixByteRequest(5))
            assert suffix.to_bytes() == expected[-5:]


@pytest.mark.skipif(not hasattr(Store, "get_ranges"), reason="older zarr has no such method")
def test_a_fresh_store_yields_ranges(store: zm.ManifestStore, values: Values) -> None:
    key, expected = "a/b/external/c/1/1", chunk_of(values, "a/b/external")
    ranges = [RangeByteRequest(0, 4), SuffixByteRequest(8), RangeByteRequest(40, 48)]
    wanted = {0: expected[:4], 1: expected[-8:], 2: expected[40:48]}

    async def collect(fresh: zm.ManifestStore) -> dict[int, bytes]:
        found = {}
        async for group in fresh.get_ranges(key, ranges, prototype=PROTOTYPE):
            found.update({i: part.to_bytes() for i, part in group})
        return found

    assert sync(collect(pickle.loads(pickle.dumps(store)))) == wanted
    if hasattr(Store, "get_ranges_sync"):
        fresh = pickle.loads(pickle.dumps(store))
        found = fresh.get_ranges_sync(key, ranges, prototype=PROTOTYPE)
        assert {i: part.to_bytes() for i, part in found} == wanted


def test_a_fresh_store_gets_many(store: zm.ManifestStore, values: Values) -> None:
    keys = ["a/b/external/c/1/1", "inline/c/1/1", "native/zarr.json", "inline/c/9/9"]

    async def collect() -> dict[str, bytes | None]:
        fresh = pickle.loads(pickle.dumps(store))
        requests = [(key, PROTOTYPE, None) for key in keys]
        return {k: v and v.to_bytes() async for k, v in fresh._get_many(requests)}

    found = sync(collect())
    assert found["a/b/external/c/1/1"] == chunk_of(values, "a/b/external")
    assert found["inline/c/1/1"] == chunk_of(values, "inline")
    assert json.loads(found["native/zarr.json"] or b"")["node_type"] == "array"
    assert found["inline/c/9/9"] is None


@pytest.mark.slow
def test_threads(store: zm.ManifestStore, values: Values) -> None:
    paths = list(values) * 8
    with ThreadPoolExecutor(16) as pool:
        read = pool.map(lambda path: by_open_array(store, path)[:], paths)
        for path, array in zip(paths, read, strict=True):
            assert_same(array, values, path)


def test_several_event_loops(store: zm.ManifestStore, values: Values) -> None:
    async def read() -> bytes:
        keys = [f"a/b/external/c/{i}/{j}" for i in range(2) for j in range(2)]
        found = await asyncio.gather(*(store.get(key, PROTOTYPE) for key in keys))
        return found[3].to_bytes()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(asyncio.run, read()) for _ in range(8)]:
            assert future.result() == chunk_of(values, "a/b/external")


def test_two_event_loops_that_open_it_at_the_same_time(
    root: Path, values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    """zarr takes the second for an error."""
    together, opened = threading.Barrier(2), LocalStore._open

    async def open_late(self: Any) -> None:
        await asyncio.to_thread(together.wait, 10)
        await opened(self)

    monkeypatch.setattr(LocalStore, "_open", open_late)
    store = zm.ManifestStore(LocalStore(root, read_only=True))

    async def read() -> bytes:
        found = await store.get("a/b/external/c/1/1", PROTOTYPE)
        return found.to_bytes()

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(asyncio.run, read()) for _ in range(2)]:
            assert future.result() == chunk_of(values, "a/b/external")


@pytest.fixture
def hundred(tmp_path: Path) -> tuple[Counting, bytes]:
    """A store with an array "x" of a hundred chunks, and their bytes."""
    data = np.arange(1, 401, dtype="<i4")
    manifest = {str(i): {"path": "raw.bin", "offset": 16 * i, "length": 16} for i in range(100)}
    write_manifest_array(tmp_path, "x", data, (4,), manifest)
    (tmp_path / "x" / "raw.bin").write_bytes(data.tobytes())
    memory = MemoryStore()
    copy_into(memory, tmp_path)
    return Counting(memory), data.tobytes()


def test_a_hundred_chunks_at_once_load_the_manifest_once(hundred: tuple[Counting, bytes]) -> None:
    underneath, expected = hundred
    store = zm.ManifestStore(underneath)

    async def read() -> bytes:
        chunks = await asyncio.gather(*(store.get(f"x/c/{i}", PROTOTYPE) for i in range(100)))
        return b"".join(chunk.to_bytes() for chunk in chunks)

    assert sync(read()) == expected
    assert underneath.asked.count("x/manifest.json") == 1


@pytest.mark.slow
def test_a_hundred_threads_load_the_manifest_once(hundred: tuple[Counting, bytes]) -> None:
    underneath, expected = hundred
    array: Any = zarr.open_array(zm.ManifestStore(underneath), path="x", mode="r+")
    with ThreadPoolExecutor(20) as pool:
        chunks = list(pool.map(lambda i: array[4 * i : 4 * i + 4].tobytes(), range(100)))
    assert b"".join(chunks) == expected
    assert underneath.asked.count("x/manifest.json") == 1


@pytest.mark.servers
def test_a_worker_opens_a_manifest_once(root: Path, http_server: FileServer) -> None:
    """dask pickles the store with each of its tasks."""
    entries = {str(i): {"data": bytes([i] * 4)} for i in range(8)}
    zm.create_array(root, "x", entries, shape=32, chunks=4, dtype="u1", inline=False)
    for file in root.rglob("*.json"):
        http_server.put(file.relative_to(root).as_posix(), file.read_bytes())
    array: Any = zarr.open_array(zm.ManifestStore(http_server.url), path="x", mode="r")
    pickled = pickle.dumps(array)
    tasks: list[Any] = [pickle.loads(pickled) for _ in range(8)]
    http_server.clear()
    for i, task in enumerate(tasks):
        assert task[4 * i : 4 * i + 4].tolist() == [i] * 4
    assert len([each for each in http_server.requests if "/manifest-" in each.target]) == 1


def test_a_worker_sees_what_the_store_had_seen(root: Path) -> None:
    zm.create_array(root, "w", {"0": {"data": b"\1"}}, shape=2, chunks=1, dtype="u1")
    store = zm.ManifestStore(root)
    pickle.loads(pickle.dumps(store))
    zm.create_array(root, "x", {"0": {"data": b"\1"}}, shape=2, chunks=1, dtype="u1")
    array: Any = zarr.open_array(store, path="x", mode="r")
    assert array[:].tolist() == [1, 0]
    again = pickle.loads(pickle.dumps(store))
    metadata = json.loads((root / "x" / "zarr.json").read_text())
    del metadata["storage_transformers"], metadata["chunk-manifest-json"]
    (root / "x" / "zarr.json").write_text(json.dumps(metadata))
    with pytest.raises(zm.ManifestError):
        zarr.open_array(again, path="x", mode="r")[:]
