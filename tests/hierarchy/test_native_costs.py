"""What a warm read costs: no request for anything but the chunk, and little of the processor.

Calls of Python functions stand for the time of the processor: their number does not depend on the
machine. Which functions they are does not matter.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import Store
from zarr.storage import LocalStore, MemoryStore

import zarr_manifest as zm
from tests.counted_requests import Requests
from tests.hierarchies import FIELD, copy_into, split_into_source, write_manifest_array
from tests.hierarchy.chunk_reads import READS, Read


@READS
def test_a_manifest_chunk_is_one_request(tmp_path: Path, chunk: Read) -> None:
    manifest, source = split_into_source(FIELD, (3, 4), path="../raw.bin", start=8)
    write_manifest_array(tmp_path, "x", FIELD, (3, 4), manifest, fill_value=-1)
    memory = MemoryStore()
    copy_into(memory, tmp_path)
    requests = Requests(MemoryStore(memory._store_dict | {"raw.bin": memory_of(source)}))
    store = zm.ManifestStore(requests)
    assert chunk(store, "x/c/1/1")
    requests.made.clear()
    assert chunk(store, "x/c/1/1")
    assert {key for _, key in requests.made} <= {"raw.bin"}


def memory_of(body: bytes) -> Any:
    return zarr.buffer.default_buffer_prototype().buffer.from_bytes(body)


@pytest.mark.parametrize(
    ("encoding", "path"),
    [
        *(("default", path) for path in ("deep/er/native", "2024", "2024/7")),
        # Not "2024": its "2024/1/1" may be a chunk of an array "2024/1" as well.
        ("v2", "deep/er/native"),
    ],
)
@READS
def test_native_chunks_need_no_metadata(path: str, encoding: Any, chunk: Read) -> None:
    """Whatever an array is called, and its chunks: its metadata are read once."""
    requests = Requests(MemoryStore())
    zarr.create_group(requests).create_array(
        path,
        data=FIELD,
        chunks=(3, 4),
        chunk_key_encoding={"name": encoding, "separator": "/"},
    )
    store = zm.ManifestStore(requests)
    array: Any = zarr.open_group(store, mode="r+")
    for name in path.split("/"):
        array = array[name]
    key = f"{path}/{array.metadata.encode_chunk_key((1, 1))}"
    requests.made.clear()
    assert chunk(store, key)
    assert {asked for _, asked in requests.made} <= {key}  # ranges are not listed


# What our store adds to what zarr does alone ---------------------------------------------

CHUNKS = 100


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    """A native array of 100 chunks, and a group of 100 arrays, in a directory and in memory."""
    root = tmp_path_factory.mktemp("native")
    group = zarr.create_group(root, path="deep/er")
    group.create_array("read", data=np.arange(CHUNKS * 4), chunks=4, compressors=None)
    for number in range(CHUNKS):
        group.create_array(f"opened/{number}", shape=4, chunks=4, dtype="i4")
    memory = MemoryStore()
    copy_into(memory, root)
    return {"file": LocalStore(root), "memory": memory}


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


@pytest.mark.slow
@pytest.mark.parametrize(("action", "most"), [(read, 6), (open_members, 22)])
def test_calls_that_a_native_array_adds(
    native: dict[str, Store], action: Callable[[Store], None], most: float
) -> None:
    """In memory: what zarr itself calls for a file depends on the version of Python."""
    alone = calls_of_all(action, native["memory"], ())
    ours = calls_of_all(action, zm.ManifestStore(native["memory"], read_only=True), ())
    assert ours - alone <= most


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can")
@pytest.mark.parametrize("action", [read, open_members])
def test_a_native_file_is_opened_at_once(
    native: dict[str, Store], action: Callable[[Store], None]
) -> None:
    """However deep it is in the hierarchy; that one call is none of Python's."""
    store = zm.ManifestStore(native["file"], read_only=True)
    assert calls_of_all(action, store, (os.open,)) < 1.2
    assert calls_of_all(action, store, (os.close,)) < 2.2
