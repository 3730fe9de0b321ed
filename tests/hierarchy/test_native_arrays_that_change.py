"""Native arrays that are moved, replaced or removed: an absent chunk is no fill value then."""

from __future__ import annotations

import asyncio
import json
import pickle
import shutil
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import obstore.store
import pytest
import zarr
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore, ObjectStore, WrapperStore

import zarr_manifest as zm
from tests.combinations import crossed
from tests.counted_requests import Requests
from tests.forked import Forked
from tests.hierarchies import FIELD, consolidate, declare_manifest, read, write_manifest_array
from tests.hierarchy.chunk_reads import PROTOTYPE, READS, WAYS, Read

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
KEY = "g/x/c/0/1"
CHUNK = FIELD[:3, 4:]
INLINE = {"data": b64encode(CHUNK.tobytes()).decode()}
STORES = [LocalStore, lambda path: ObjectStore(obstore.store.LocalStore(path))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A group "g" with a native array "x", and a manifest array whose chunks are beside it."""
    root = tmp_path / "h.zarr"
    zarr.create_group(root).create_group("g")
    zarr.create_array(root / "g/x", data=FIELD, chunks=(3, 4), compressors=None, fill_value=-1)
    write_manifest_array(root, "m", CHUNK, CHUNK.shape, {"0.0": INLINE}, fill_value=-1)
    return root


def opened(store: Store, path: str = "g/x", mode: Any = "r+") -> Any:
    return zarr.open_array(store, path=path, mode=mode)


# A directory that moves ------------------------------------------------------------------


def wrapped(path: Path) -> Store:
    return WrapperStore(LocalStore(path))


def moved(store: Any, place: Path) -> None:
    inner = getattr(store, "_store", store)
    sync(inner.move(place))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LocalStore, wrapped])
def test_a_store_that_moves(root: Path, kind: Callable[[Path], Store]) -> None:
    underneath = kind(root)
    store = zm.ManifestStore(underneath)
    native, manifest = opened(store), opened(store, "m")
    moved(underneath, root.with_name("moved.zarr"))
    np.testing.assert_array_equal(native[:], FIELD)
    np.testing.assert_array_equal(manifest[:], CHUNK)
    native[0, 0] = 77
    assert read(zm.ManifestStore(root.with_name("moved.zarr")), "g/x")[0, 0] == 77
    assert not root.exists()


def test_a_store_that_moves_between_two_tasks(root: Path) -> None:
    underneath = LocalStore(root)
    native = opened(zm.ManifestStore(underneath))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(native))[:], FIELD)
    moved(underneath, root.with_name("moved.zarr"))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(native))[:], FIELD)


@READS
def test_no_read_looks_where_a_store_was_before(root: Path, chunk: Read) -> None:
    underneath = LocalStore(root)
    store = zm.ManifestStore(underneath)
    opened(store)
    moved(underneath, root.with_name("moved.zarr"))
    write_manifest_array(root, "g/x", FIELD, (3, 4), {})
    assert chunk(store, KEY)


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_directory_that_is_moved_otherwise(root: Path, mode: Any) -> None:
    native = opened(zm.ManifestStore(root), mode=mode)
    root.rename(root.with_name("moved.zarr"))
    with pytest.raises(zm.errors.SourceNotFoundError, match=r"no 'g/x/zarr\.json'") as caught:
        native[:]
    assert caught.value.array == "g/x"


# An array that becomes another -----------------------------------------------------------


def declares(root: Path, **changes: Any) -> None:
    """Have another process write a manifest, and remove the native chunk that it names."""
    document = root / "g/x/zarr.json"
    metadata = {**json.loads(document.read_text()), **changes}
    document.write_text(json.dumps(metadata))
    declare_manifest(root / "g/x", {"0.1": INLINE})
    (root / KEY).unlink()


@pytest.mark.parametrize(("kind", "chunk"), crossed(STORES, WAYS))
def test_a_native_array_that_becomes_a_manifest_array(
    root: Path, chunk: Read, kind: Callable[[Path], Store]
) -> None:
    store = zm.ManifestStore(kind(root))
    native = opened(store)
    declares(root)
    assert chunk(store, KEY)
    np.testing.assert_array_equal(native[:3, 4:], CHUNK)
    np.testing.assert_array_equal(native[3:], -1)


@READS
def test_the_copy_in_a_group_says_that_it_is_native(root: Path, chunk: Read) -> None:
    consolidate(root)
    store = zm.ManifestStore(root)
    native: Any = zarr.open_group(store, mode="r+")["g/x"]
    np.testing.assert_array_equal(native[:], FIELD)
    declares(root)
    for _ in range(2):
        with pytest.raises(zm.errors.InvalidConfigurationError, match="contradict"):
            chunk(store, KEY)


class Slow(Requests):
    """Answers after 10 ms, with what was there when it was asked."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        found = await super().get(key, prototype, byte_range)
        await asyncio.sleep(0.01)
        return found


def test_each_chunk_is_read_before_the_metadata(root: Path) -> None:
    """One that is absent must not rely on what another reader was shown before that."""

    store = zm.ManifestStore(Slow(LocalStore(root)))
    opened(store)

    async def read_both() -> list[Any]:
        first = asyncio.ensure_future(store.get("g/x/c/1/7", PROTOTYPE))
        await asyncio.sleep(0.015)  # the metadata of the native array are on their way
        declares(root)
        return [await first, await store.get(KEY, PROTOTYPE)]

    first, second = asyncio.run(read_both())
    assert first is None
    assert second.to_bytes() == CHUNK.tobytes()


@READS
def test_a_manifest_array_with_other_chunk_keys(root: Path, chunk: Read) -> None:
    store = zm.ManifestStore(root)
    opened(store)
    declares(root, chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}})
    for _ in range(2):
        with pytest.raises(zm.errors.SourceNotFoundError, match="other chunks"):
            chunk(store, KEY)


class _Late(WrapperStore[LocalStore]):
    """Answers the second request for a chunk some turns of the event loop later."""

    turns = 0
    asked = 0

    async def get(self, key: str, *arguments: Any, **options: Any) -> Any:
        found = await super().get(key, *arguments, **options)
        if key == KEY:
            self.asked += 1
            for _ in range(self.turns if self.asked == 2 else 0):
                await asyncio.sleep(0)
        return found


@pytest.mark.slow
def test_a_reader_that_comes_while_another_finds_out(root: Path) -> None:
    """However late the second one is, neither takes a chunk of the new array for absent."""
    underneath = [_Late(LocalStore(root)) for _ in range(60)]
    stores = [zm.ManifestStore(each) for each in underneath]
    for store in stores:
        opened(store)
    declares(root, chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}})

    async def both(store: zm.ManifestStore) -> list[Any]:
        reads = (store.get(KEY, default_buffer_prototype()) for _ in range(2))
        return await asyncio.gather(*reads, return_exceptions=True)

    for turns, store in enumerate(stores):
        underneath[turns].turns = turns
        found = sync(both(store))
        assert [type(each) for each in found] == [zm.errors.SourceNotFoundError] * 2, turns


def removed(document: Path) -> None:
    document.unlink()


def emptied(document: Path) -> None:
    document.write_bytes(b"")


def a_group(document: Path) -> None:
    document.write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))


@pytest.mark.parametrize(("lose", "chunk"), crossed([removed, emptied, a_group], WAYS))
def test_a_native_array_that_goes(root: Path, chunk: Read, lose: Callable[[Path], None]) -> None:
    store = zm.ManifestStore(root)
    opened(store)
    lose(root / "g/x/zarr.json")
    (root / KEY).unlink()
    for _ in range(2):
        with pytest.raises(zm.errors.SourceNotFoundError, match="open the hierarchy again"):
            chunk(store, KEY)
        if lose is removed:  # zarr looks for it again
            with pytest.raises(FileNotFoundError):
                opened(store)


def test_a_native_array_that_this_store_removes(root: Path) -> None:
    shutil.rmtree(root / "m")
    store = zm.ManifestStore(root)
    group: Any = zarr.open_group(store, path="g", mode="r+")
    native = group["x"]
    del group["x"]
    np.testing.assert_array_equal(native[:], -1)  # as with zarr alone
    group.create_array("x", data=FIELD, chunks=(3, 4), fill_value=-1, compressors=None)
    np.testing.assert_array_equal(native[:], FIELD)


@pytest.mark.parametrize(("zarr_format", "chunk"), crossed([2, 3], WAYS))
def test_absent_chunks_of_native_arrays(tmp_path: Path, chunk: Read, zarr_format: Any) -> None:
    """They cost one request each, or two in hierarchies of Zarr v2."""
    memory = MemoryStore()
    zarr.create_array(
        memory, name="x", shape=100, chunks=1, dtype="i4", zarr_format=zarr_format, fill_value=-1
    )
    requests = Requests(memory)
    store = zm.ManifestStore(requests)
    array = opened(store, "x")
    assert (array[:] == -1).all()
    key = "x/c/5" if zarr_format == 3 else "x/5"
    requests.made.clear()
    assert not chunk(store, key)
    looks = [name for _, name in requests.made if not name.startswith(key)]
    asked = max(1, len(requests.made) - len(looks))  # ranges are not listed
    assert 0 < len(looks) <= asked * (4 - zarr_format)


@pytest.mark.slow
def test_chunks_that_are_absent_together_share_a_request(root: Path) -> None:
    array = zarr.create_array(root / "e", shape=200, chunks=1, dtype="i4", fill_value=-1)
    assert not (root / "e/c").exists()
    requests = Slow(LocalStore(root))
    array = opened(zm.ManifestStore(requests), "e")
    requests.made.clear()
    with zarr.config.set({"async.concurrency": 50}):
        assert (array[:] == -1).all()
    assert sum(name == "e/zarr.json" for _, name in requests.made) <= 20  # two for each 50, or so


def test_keys_that_belong_to_no_array_cost_nothing(root: Path) -> None:
    requests = Requests(LocalStore(root))
    store = zm.ManifestStore(requests)
    opened(store, "m")
    requests.made.clear()
    assert store.get_sync("m/other.json") is None
    assert requests.made == [("get", "m/other.json")]


# Synchronous reads -----------------------------------------------------------------------


@pytest.mark.slow
def test_more_synchronous_reads_than_threads_of_an_event_loop(root: Path, forked: Forked) -> None:
    """A read that needs metadata must not wait for a thread that another read occupies."""
    code = f"""
import asyncio, zarr, zarr_manifest as zm
from concurrent.futures import ThreadPoolExecutor
from zarr.core.sync import sync
zarr.config.set({{"threading.max_workers": 2}})
root = {str(root)!r}
stores = [zm.ManifestStore(root) for _ in range(8)]
def chunks(store):
    return [store.get_sync(key) for key in ("g/x/c/0/1", "m/c/0/0", "g/x/c/7/7")]
async def read():
    return await asyncio.gather(*(asyncio.to_thread(chunks, store) for store in stores))
for first, second, third in sync(read()):
    assert (len(first), len(second), third) == (48, 48, None)
"""
    done = forked.run(code)
    assert done.returncode == 0, done.stderr


def test_a_synchronous_read_within_an_event_loop(root: Path) -> None:
    async def chunk() -> Any:
        return zm.ManifestStore(root).get_sync(KEY)

    assert asyncio.run(chunk()).to_bytes() == CHUNK.tobytes()
