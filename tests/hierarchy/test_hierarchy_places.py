"""Wherever a hierarchy lies, and however its place is named, it reads the same values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from obstore.store import LocalStore as ObstoreLocalStore
from obstore.store import MemoryStore as ObstoreMemoryStore
from zarr.abc.store import Store
from zarr.storage import (
    FsspecStore,
    LocalStore,
    MemoryStore,
    ObjectStore,
    WrapperStore,
    ZipStore,
)

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import (
    Values,
    assert_same,
    by_open_array,
    copy_into,
    write_hierarchy,
    write_manifest_array,
)
from tests.servers.http_files import FileServer

# zarr says so of sources and v2 nodes that lie in a v3 group; of nothing else here.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
)


def memory_store(root: Path, tmp_path: Path) -> Store:
    store = MemoryStore()
    copy_into(store, root)
    return store


def zip_store(root: Path, tmp_path: Path) -> Store:
    with ZipStore(tmp_path / "data.zip", mode="w") as written:
        copy_into(written, root)
    return ZipStore(tmp_path / "data.zip", mode="r")


def fsspec_local(root: Path, tmp_path: Path) -> Store:
    return FsspecStore.from_url(f"local://{root}", read_only=True)


def fsspec_memory(root: Path, tmp_path: Path) -> Store:
    store = FsspecStore.from_url(f"memory://{tmp_path.name}/data.zarr")
    copy_into(store, root)
    return store


def obstore_memory(root: Path, tmp_path: Path) -> Store:
    store = ObjectStore(ObstoreMemoryStore())
    copy_into(store, root)
    return store


LOCATIONS: dict[str, Callable[[Path, Path], Any]] = {
    "str": lambda root, _: str(root),
    "file URL": lambda root, _: root.as_uri(),
    "LocalStore": lambda root, _: LocalStore(root),
    "MemoryStore": memory_store,
    "ZipStore": zip_store,
    "FsspecStore local": fsspec_local,
    "FsspecStore memory": fsspec_memory,
    "ObjectStore local": lambda root, _: ObjectStore(ObstoreLocalStore(root)),
    "ObjectStore memory": obstore_memory,
    "obstore": lambda root, _: ObstoreLocalStore(root),
    "WrapperStore": lambda root, _: WrapperStore(LocalStore(root)),
    "ManifestStore": lambda root, _: zm.ManifestStore(root),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", combinations(LOCATIONS, besides=["str", "ZipStore", "FsspecStore memory"])
)
def test_locations(kind: str, root: Path, values: Values, tmp_path: Path) -> None:
    with zm.ManifestStore(LOCATIONS[kind](root, tmp_path)) as store:
        for path in values:
            assert_same(by_open_array(store, path)[:], values, path)
        group = zarr.open_group(store, mode="r", zarr_format=3)
        for path, node in group.members(max_depth=None):
            if isinstance(node, zarr.Array):
                assert_same(node[:], values, path)
                assert_same(node[4:, ::3], {path: values[path][4:, ::3]}, path)


@pytest.mark.slow
def test_memory_url(root: Path, values: Values, tmp_path: Path) -> None:
    fsspec_memory(root, tmp_path)
    store = zm.ManifestStore(f"memory://{tmp_path.name}/data.zarr")
    for path in values:
        assert_same(by_open_array(store, path)[:], values, path)


@pytest.mark.slow
def test_file_url_with_spaces(tmp_path: Path) -> None:
    root = tmp_path / "my data" / "ü.zarr"
    values = write_hierarchy(root)
    store = zm.ManifestStore(root.as_uri())
    for path in values:
        assert_same(by_open_array(store, path)[:], values, path)


def test_relative_path(root: Path, values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    store = zm.ManifestStore(root.name)
    for path in values:
        assert_same(by_open_array(store, path)[:], values, path)


@pytest.mark.servers
def test_http_url(root: Path, values: Values) -> None:
    with FileServer(root.parent) as server:
        store = zm.ManifestStore(f"{server.url}/data.zarr", read_only=True)
        group = zarr.open_group(store, mode="r", zarr_format=3)
        for path in values:
            assert_same(by_open_array(store, path)[:], values, path)
            if path not in ("old", "v2/inside"):  # a v3 group has no v2 nodes
                assert_same(group[path][:], values, path)
        asked = [r.target for r in server.requests if not r.is_question]
        assert asked.count("/data.zarr/a/b/external/manifest.json") == 1


@pytest.mark.servers
def test_the_query_of_a_url_is_sent_with_every_request(root: Path, values: Values) -> None:
    with FileServer(root.parent) as server:
        store = zm.ManifestStore(f"{server.url}/data.zarr?token=secret", read_only=True)
        path = "a/b/external"
        assert_same(by_open_array(store, path)[:], values, path)
        targets = [r.target for r in server.requests]
    assert f"/data.zarr/{path}/zarr.json?token=secret" in targets
    assert [target for target in targets if not target.endswith("?token=secret")] == []
    assert "secret" not in repr(store) + str(store)


@pytest.mark.servers
def test_http_loads_the_manifest_once_for_a_hundred_chunks(tmp_path: Path) -> None:
    data = np.arange(1, 401, dtype="<i4")
    manifest = {str(i): {"path": "raw.bin", "offset": 16 * i, "length": 16} for i in range(100)}
    write_manifest_array(tmp_path, "x", data, (4,), manifest)
    (tmp_path / "x" / "raw.bin").write_bytes(data.tobytes())
    with FileServer(tmp_path) as server, zarr.config.set({"async.concurrency": 100}):
        array = zarr.open_array(zm.ManifestStore(server.url, read_only=True), path="x", mode="r")
        np.testing.assert_array_equal(array[:], data)
        asked = [r.target for r in server.requests if not r.is_question]
    assert asked.count("/x/manifest.json") == 1
    assert asked.count("/x/raw.bin") < 10  # neighbours are read together
