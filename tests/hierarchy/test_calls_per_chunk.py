"""A warm read of one chunk takes few Python calls: those of this package are counted.

Each number is an upper limit, and a little more than what it was when it was written down. It does
not depend on the machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import RangeByteRequest, Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore

import zarr_manifest as zm
from tests.hierarchies import FIELD, copy_into, split_into_source, write_manifest_array
from zarr_manifest.sources.openat2 import HAS_OPENAT2

PROTOTYPE = default_buffer_prototype()
PACKAGE = str(Path(zm.__file__).parent)


class Calls:
    """The functions of the package that were called, in order."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def note(self, frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            module = code.co_filename[len(PACKAGE) + 1 :]
            self.made.append(f"{module}:{code.co_qualname}")

    @contextmanager
    def counted(self) -> Iterator[None]:
        """In this thread, and in those of others that read files."""
        before = sys.getprofile()
        threading.setprofile_all_threads(self.note)
        try:
            yield
        finally:
            threading.setprofile_all_threads(before)


def without_loop(store: zm.ManifestStore, key: str) -> list[str]:
    calls = Calls()
    assert store.get_sync(key, prototype=PROTOTYPE)
    with calls.counted():
        store.get_sync(key, prototype=PROTOTYPE)
    return calls.made


def in_loop(read: Callable[[zm.ManifestStore, str], Any]) -> Callable[..., list[str]]:
    def count(store: zm.ManifestStore, key: str) -> list[str]:
        calls = Calls()

        async def twice() -> None:
            assert await read(store, key)
            with calls.counted():
                await read(store, key)

        asyncio.run(twice())
        return calls.made

    return count


def one(store: zm.ManifestStore, key: str) -> Any:
    return store.get(key, PROTOTYPE)


def part(store: zm.ManifestStore, key: str) -> Any:
    return store.get_partial_values(PROTOTYPE, [(key, RangeByteRequest(0, 4))])


WAYS = {"get_sync": without_loop, "get": in_loop(one), "get_partial_values": in_loop(part)}

# Calls without an event loop, with one, and of get_partial_values.
MOST = {
    ("file", "native"): (13, 15, 23),
    ("file", "manifest"): (27, 39, 45),
    ("file", "inline"): (21, 22, 27),
    ("memory", "native"): (4, 4, 8),
    ("memory", "manifest"): (33, 41, 47),
    ("memory", "inline"): (21, 22, 27),
}


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, Store]:
    """The same hierarchy in a directory and in memory."""
    zarr.create_group(tmp_path)
    manifest, source = split_into_source(FIELD, (3, 4), path="../raw.bin", start=8)
    (tmp_path / "raw.bin").write_bytes(source)
    write_manifest_array(tmp_path, "manifest", FIELD, (3, 4), manifest, fill_value=-1)
    inline = {"1.1": {"data": "AAAA" * 16}}
    write_manifest_array(tmp_path, "inline", FIELD, (3, 4), inline, fill_value=-1)
    zarr.create_array(tmp_path / "native", data=FIELD, chunks=(3, 4), compressors=None)
    memory = MemoryStore()
    copy_into(memory, tmp_path)
    return {"file": LocalStore(tmp_path), "memory": memory}


@pytest.mark.parametrize(("way", "number"), [(way, i) for i, way in enumerate(WAYS)])
@pytest.mark.parametrize(("kind", "name"), MOST)
def test_calls(stores: dict[str, Store], kind: str, name: str, way: str, number: int) -> None:
    store = zm.ManifestStore(stores[kind], read_only=True)
    zarr.open_array(store, path=name, mode="r")
    calls = WAYS[way](store, f"{name}/c/1/1")
    assert len(calls) <= MOST[kind, name][number], calls


def test_the_owner_of_a_chunk_is_found_out_once(stores: dict[str, Store]) -> None:
    store = zm.ManifestStore(stores["file"], read_only=True)
    sync(one(store, "manifest/zarr.json"))
    finding = [
        call for call in without_loop(store, "manifest/c/1/1") if "known" in call or "keys" in call
    ]
    names = [call.rpartition(":")[2] for call in finding]
    assert names.count("likely_owner") == names.count("KnownArrays.route") == 1


@pytest.mark.parametrize(
    ("encoding", "path"),
    [
        *(("default", path) for path in ("native", "deep/er/native", "2024", "2024/7")),
        # Not "2024": its "2024/1/1" may be a chunk of an array "2024/1" as well.
        *(("v2", path) for path in ("native", "deep/er/native")),
    ],
)
def test_native_chunks_need_no_metadata(tmp_path: Path, path: str, encoding: Any) -> None:
    """Whatever an array is called, and its chunks: its metadata are read once."""
    group = zarr.create_group(tmp_path)
    group.create_array(
        path,
        data=FIELD,
        chunks=(3, 4),
        chunk_key_encoding={"name": encoding, "separator": "/"},
    )
    store = zm.ManifestStore(tmp_path, read_only=True)
    array: Any = zarr.open_group(store, mode="r")
    for name in path.split("/"):
        array = array[name]
    key = f"{path}/{array.metadata.encode_chunk_key((1, 1))}"
    calls = without_loop(store, key)
    assert not [call for call in calls if "_stored" in call]


# What our store adds to what zarr does alone ---------------------------------------------

CHUNKS = 100


@pytest.fixture
def native(tmp_path: Path) -> dict[str, Store]:
    """A native array of 100 chunks, and a group of 100 arrays, in a directory and in memory."""
    group = zarr.create_group(tmp_path, path="deep/er")
    group.create_array("read", data=np.arange(CHUNKS * 4), chunks=4, compressors=None)
    for number in range(CHUNKS):
        group.create_array(f"opened/{number}", shape=4, chunks=4, dtype="i4")
    memory = MemoryStore()
    copy_into(memory, tmp_path)
    return {"file": LocalStore(tmp_path), "memory": memory}


def read(store: Store) -> None:
    zarr.open_array(store, path="deep/er/read", mode="r")[...]


def open_members(store: Store) -> None:
    group = zarr.open_group(store, path="deep/er/opened", mode="r", use_consolidated=False)
    assert len(dict(group.members())) == CHUNKS


def calls_of_all(action: Callable[[Store], None], store: Store, made: Sequence[Any]) -> float:
    """How often functions of the system, or all those in Python, are called for each chunk."""
    count = 0

    def note(_: Any, event: str, function: Any) -> None:
        nonlocal count
        count += function in made if event == "c_call" else event == "call" and not made

    action(store)
    threading.setprofile_all_threads(note)
    try:
        action(store)
    finally:
        threading.setprofile_all_threads(None)
    return count / CHUNKS


@pytest.mark.parametrize(("action", "most"), [(read, 4.5), (open_members, 19)])
def test_calls_that_a_native_array_adds(
    native: dict[str, Store], action: Callable[[Store], None], most: float
) -> None:
    """In memory: what zarr itself calls for a file depends on the version of Python."""
    alone = calls_of_all(action, native["memory"], ())
    ours = calls_of_all(action, zm.ManifestStore(native["memory"], read_only=True), ())
    assert ours - alone <= most


@pytest.mark.skipif(not HAS_OPENAT2, reason="only Linux can, since 5.6")
@pytest.mark.parametrize("action", [read, open_members])
def test_a_native_file_is_opened_at_once(
    native: dict[str, Store], action: Callable[[Store], None]
) -> None:
    """However deep it is in the hierarchy; that one call is none of Python's."""
    store = zm.ManifestStore(native["file"], read_only=True)
    assert calls_of_all(action, store, (os.open,)) < 1.2
    assert calls_of_all(action, store, (os.close,)) < 2.2
