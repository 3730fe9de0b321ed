"""Partitioned manifests: the same values as whole ones, and only the documents that are touched."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.counting_store import Counting
from tests.hierarchies import copy_into, split_into_source, write_manifest_array
from tests.servers.http_files import FileServer, status
from zarr_manifest.format import Partitions, document_reference

type Index = tuple[int, ...]

PROTOTYPE = default_buffer_prototype()


# Arithmetic -------------------------------------------------------------------------

GRIDS = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 9)), max_size=3).map(
    lambda pairs: Partitions(tuple(n for n, _ in pairs), tuple(p for _, p in pairs))
)


@given(GRIDS)
def test_regions_cut_the_grid(partitions: Partitions) -> None:
    found: list[Index] = []
    for partition in partitions:
        region = list(itertools.product(*partitions.region(partition)))
        assert region
        assert all(partitions.owner(index) == partition for index in region)
        found += region
    assert sorted(found) == list(itertools.product(*map(range, partitions.grid_shape)))
    assert len(list(partitions)) == partitions.total == math.prod(partitions.counts)
    assert list(partitions) == sorted(partitions)


@given(st.lists(st.integers(0, 2**53), max_size=4))
def test_references(partition: list[int]) -> None:
    name = ".".join(map(str, partition)) or "0"
    assert document_reference("a/{partition}/b", partition) == f"a/{name}/b"


def test_huge_grids_cost_nothing() -> None:
    partitions = Partitions((2**53 - 1,) * 3, (1, 2**53 - 1, 7))
    assert next(iter(partitions)) == (0, 0, 0)
    assert partitions.owner((5, 6, 15)) == (5, 0, 2)


# Hierarchies ------------------------------------------------------------------------

SHAPE, CHUNKS = (7, 9), (2, 2)
DATA = np.arange(1, 64, dtype="<i2").reshape(SHAPE)


def write_partitioned(
    root: Path, entries: dict[str, Any], shape: list[int], template: str = "./m/{partition}.json"
) -> None:
    """Split entries by hand, and write one document for each block that has some."""
    array = write_manifest_array(root, "a", DATA, CHUNKS, template, fill_value=-1)
    document = array / "zarr.json"
    metadata = json.loads(document.read_text())
    metadata["storage_transformers"][0]["configuration"]["partition_shape"] = shape
    document.write_text(json.dumps(metadata))
    blocks: dict[str, dict[str, Any]] = {}
    for key, entry in entries.items():
        index = map(int, key.split("."))
        block = ".".join(str(i // p) for i, p in zip(index, shape, strict=True))
        blocks.setdefault(block, {})[key] = entry
    for block, content in blocks.items():
        file = array / template.replace("{partition}", block)
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))


@pytest.fixture
def entries(tmp_path: Path) -> dict[str, Any]:
    manifest, source = split_into_source(DATA, CHUNKS, path="../raw.bin", start=3)
    (tmp_path / "raw.bin").write_bytes(source)
    return manifest


def open_a(store: Any, **options: Any) -> Any:
    return zarr.open_array(zm.ManifestStore(store, read_only=True, **options), path="a", mode="r")


def manifest_requests(server: FileServer) -> list[str]:
    return [r.target for r in server.requests if not r.is_question and r.target.startswith("/a/m/")]


def test_threads_load_each_document_once(tmp_path: Path, entries: dict[str, Any]) -> None:
    write_partitioned(tmp_path, entries, [2, 2])
    memory = MemoryStore()
    copy_into(memory, tmp_path)
    underneath = Counting(memory)
    store = zm.ManifestStore(underneath)
    keys = [f"a/c/{key.replace('.', '/')}" for key in entries]
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda key: sync(store.get(key, PROTOTYPE)), keys))
    assert all(value is not None and len(value) == 8 for value in found)
    documents = sorted(key for key in underneath.asked if key.startswith("a/m/"))
    assert documents == [f"a/m/{i}.{j}.json" for i in range(2) for j in range(3)]


@pytest.mark.servers
def test_documents_that_do_not_exist_are_remembered(
    tmp_path: Path, entries: dict[str, Any]
) -> None:
    write_partitioned(tmp_path, {"0.0": entries["0.0"]}, [2, 2])
    with FileServer(tmp_path) as server:
        array = open_a(server.url)
        for _ in range(3):
            assert (array[4:, 4:] == -1).all()
        asked = [r.target for r in server.requests if r.target.startswith("/a/m/")]
    assert sorted(asked) == ["/a/m/1.1.json", "/a/m/1.2.json"]


@pytest.mark.servers
def test_outside_the_grid_nothing_is_loaded(tmp_path: Path, entries: dict[str, Any]) -> None:
    write_partitioned(tmp_path, entries, [2, 2])
    with FileServer(tmp_path) as server:
        store = zm.ManifestStore(server.url, read_only=True)
        assert asyncio.run(store.get("a/c/8/0", PROTOTYPE)) is None
        assert manifest_requests(server) == []


@pytest.mark.servers
def test_a_failure_is_not_a_missing_document_and_not_remembered(
    tmp_path: Path, entries: dict[str, Any]
) -> None:
    write_partitioned(tmp_path, entries, [2, 2])
    with FileServer(tmp_path) as server:
        array = open_a(server.url)
        server.script("a/m/0.0.json", status(403))
        with pytest.raises(zm.errors.SourceAccessDeniedError) as raised:
            array[0, 0]
        assert (raised.value.array, raised.value.location) == ("a", "a/m/0.0.json")
        assert array[0, 0] == DATA[0, 0]


@pytest.mark.parametrize(
    ("block", "content", "expected"),
    [
        ("0.1", {"c/0/0": {}}, zm.errors.InvalidChunkKeyError),
        ("0.1", {"0.2": {"path": ""}}, zm.errors.InvalidPathError),
        ("0.1", [], zm.errors.InvalidManifestError),
    ],
)
def test_an_invalid_document_is_an_error_only_where_it_is_read(
    tmp_path: Path, entries: dict[str, Any], block: str, content: Any, expected: Any
) -> None:
    write_partitioned(tmp_path, entries, [2, 2])
    (tmp_path / "a" / "m" / f"{block}.json").write_text(json.dumps(content))
    array = open_a(tmp_path)
    np.testing.assert_array_equal(array[:4, :4], DATA[:4, :4])
    with pytest.raises(expected) as raised:
        array[:]
    assert raised.value.array == "a"
    assert block in str(raised.value) or raised.value.chunk == "0.2"


def test_locations_are_authorised_document_by_document(
    tmp_path: Path, entries: dict[str, Any]
) -> None:
    entries["0.4"] = {"path": "s3://nobody/allowed.nc"}
    write_partitioned(tmp_path, entries, [2, 2])
    array = open_a(tmp_path)
    np.testing.assert_array_equal(array[:, :8], DATA[:, :8])
    with pytest.raises(zm.errors.LocationNotAllowedError, match="s3://nobody/"):
        array[0, 8]


def test_listing_sizes_and_locations_see_all_partitions(
    tmp_path: Path, entries: dict[str, Any]
) -> None:
    del entries["1.1"]
    entries["0.4"] = {"path": "s3://b/x.nc", "length": 5}
    entries["3.4"] = {"path": "s3://b/x.nc", "length": 6}
    write_partitioned(tmp_path, entries, [2, 2])
    store = zm.ManifestStore(tmp_path, allow=["s3://b/"])

    async def look() -> tuple[list[str], int]:
        keys = [key async for key in store.list_prefix("a/c/")]
        return keys, await store.getsize_prefix("a")

    keys, size = asyncio.run(look())
    assert sorted(keys) == sorted(f"a/c/{key.replace('.', '/')}" for key in entries)
    files = sum(f.stat().st_size for f in (tmp_path / "a").rglob("*") if f.is_file())
    assert size == files + sum(entry["length"] for entry in entries.values())
    found = {item.prefix: item for item in store.locations()}
    assert (found["s3://b/"].objects, found["s3://b/"].references) == (1, 2)
    assert found["s3://b/"].nbytes == 11
    assert found[None].references == len(entries) - 2
