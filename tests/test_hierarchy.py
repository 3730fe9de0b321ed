"""One hierarchy with every kind of node, and every way into it reads the same values."""

from __future__ import annotations

import io
import json
import operator
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr
import zarr
from obstore.store import LocalStore as ObstoreLocalStore
from obstore.store import MemoryStore as ObstoreMemoryStore
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import (
    FsspecStore,
    LocalStore,
    MemoryStore,
    ObjectStore,
    WrapperStore,
    ZipStore,
)

import zarr_manifest as zm
from tests.hierarchies import (
    FIELD,
    Values,
    assert_same,
    by_open_array,
    copy_into,
    files_below,
    write_hierarchy,
    write_manifest_array,
)
from tests.servers.http_files import FileServer

PROTOTYPE = default_buffer_prototype()
MANIFEST_ARRAYS = ("a/b/external", "inline", "sharded_manifest")
# zarr says so of sources and v2 nodes that lie in a v3 group; of nothing else here.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
)
CONSOLIDATED_V3 = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data.zarr"


@pytest.fixture
def values(root: Path) -> Values:
    return write_hierarchy(root)


@pytest.fixture
def store(root: Path, values: Values) -> zm.ManifestStore:
    return zm.ManifestStore(root, read_only=True)


def is_v2(path: str) -> bool:
    return path in ("old", "v2/inside")


# Ways in through zarr ----------------------------------------------------------


def by_open(store: Store, path: str) -> Any:
    return zarr.open(store, path=path, mode="r")


def by_root(store: Store, path: str) -> Any:
    return zarr.open(store, mode="r", zarr_format=3)[path]


def by_root_group(store: Store, path: str) -> Any:
    return zarr.open_group(store, mode="r", zarr_format=3)[path]


def step_by_step(store: Store, path: str) -> Any:
    node: Any = zarr.open_group(store, mode="r", zarr_format=3)
    for name in path.split("/"):
        node = node[name]
    return node


def by_members(store: Store, path: str) -> Any:
    group = zarr.open_group(store, mode="r", zarr_format=3)
    return dict(group.members(max_depth=None))[path]


def by_parent_arrays(store: Store, path: str) -> Any:
    parent, _, name = path.rpartition("/")
    return dict(zarr.open_group(store, path=parent, mode="r").arrays())[name]


@pytest.mark.parametrize(
    "way_in",
    [by_open, by_open_array, by_root, by_root_group, step_by_step, by_members, by_parent_arrays],
)
def test_zarr(way_in: Callable[[Store, str], Any], store: zm.ManifestStore, values: Values) -> None:
    for path in values:
        # A v3 group does not list the v2 nodes in it; that is zarr's own rule.
        if is_v2(path) and way_in not in (by_open, by_open_array):
            continue
        array = way_in(store, path)
        assert_same(array[:], values, path)
        assert_same(way_in(store, path)[2:5, 3:7], {path: values[path][2:5, 3:7]}, path)


def test_a_v2_group_alongside(store: zm.ManifestStore, values: Values) -> None:
    assert_same(zarr.open_group(store, path="v2", mode="r")["inside"][:], values, "v2/inside")


def test_members_and_attributes(store: zm.ManifestStore, values: Values) -> None:
    group = zarr.open_group(store, mode="r")
    found = {path for path, _ in group.members(max_depth=None)}
    assert found == {p for p in values if not is_v2(p)} | {"a", "a/b", "a/b/empty"}
    assert group["a/b"].attrs["path"] == "a/b"
    assert group["native"].attrs["path"] == "native"


def test_tree(store: zm.ManifestStore) -> None:
    pytest.importorskip("rich")
    text = str(zarr.open_group(store, mode="r").tree())
    for name in ("external", "inline", "sharded_manifest", "native", "sharded", "empty"):
        assert name in text


def test_a_manifest_array_at_the_root(tmp_path: Path) -> None:
    manifest = {"0.0": {"path": "raw.bin"}}
    write_manifest_array(tmp_path, "", FIELD, FIELD.shape, manifest)
    (tmp_path / "raw.bin").write_bytes(FIELD.tobytes())
    store = zm.ManifestStore(tmp_path)
    np.testing.assert_array_equal(zarr.open(store, mode="r")[:], FIELD)
    np.testing.assert_array_equal(zarr.open_array(store, mode="r")[:], FIELD)


# Consolidated metadata ---------------------------------------------------------


def read_consolidated(store: Store) -> Iterator[tuple[str, Any]]:
    for group in (
        zarr.open_consolidated(store, mode="r", zarr_format=3),
        zarr.open_group(store, mode="r", use_consolidated=True, zarr_format=3),
        zarr.open_group(store, mode="r", zarr_format=3),
    ):
        assert group.metadata.consolidated_metadata is not None
        for path, node in group.members(max_depth=None):
            if isinstance(node, zarr.Array):
                yield path, node[:]
                yield path, group[path][:]


@CONSOLIDATED_V3
def test_consolidated_by_zarr_through_the_store(root: Path, values: Values) -> None:
    zarr.consolidate_metadata(zm.ManifestStore(root), zarr_format=3)
    consolidated = json.loads((root / "zarr.json").read_text())["consolidated_metadata"]["metadata"]
    for path in MANIFEST_ARRAYS:
        own = json.loads((root / path / "zarr.json").read_text())
        assert consolidated[path]["storage_transformers"] == own["storage_transformers"]
    found = set()
    for path, read in read_consolidated(zm.ManifestStore(root)):
        assert_same(read, values, path)
        found.add(path)
    assert found == {path for path in values if not is_v2(path)}


def consolidate_by_hand(root: Path) -> None:
    metadata = {
        file.parent.relative_to(root).as_posix(): json.loads(file.read_text())
        for file in sorted(root.rglob("zarr.json"))
        if file.parent != root
    }
    document = json.loads((root / "zarr.json").read_text())
    document["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": metadata,
    }
    (root / "zarr.json").write_text(json.dumps(document))


def test_consolidated_by_hand(root: Path, values: Values) -> None:
    consolidate_by_hand(root)
    for path, read in read_consolidated(zm.ManifestStore(root)):
        assert_same(read, values, path)


def test_consolidated_alone_is_enough(root: Path, values: Values) -> None:
    """The arrays' own documents are not asked for."""
    consolidate_by_hand(root)
    for path in MANIFEST_ARRAYS:
        (root / path / "zarr.json").unlink()
    group = zarr.open_consolidated(zm.ManifestStore(root), zarr_format=3)
    for path in MANIFEST_ARRAYS:
        assert_same(group[path][:], values, path)


def test_pickled_array_of_consolidated_metadata(root: Path, values: Values) -> None:
    """A worker that received only the array finds its declaration in the array's document."""
    consolidate_by_hand(root)
    group = zarr.open_consolidated(zm.ManifestStore(root), zarr_format=3)
    for path in MANIFEST_ARRAYS:
        assert_same(pickle.loads(pickle.dumps(group[path]))[:], values, path)


# xarray and dask ---------------------------------------------------------------


def assert_datasets(read: Callable[[str | None], xr.Dataset], values: Values) -> None:
    for group, names in ((None, ("inline", "sharded_manifest", "native")), ("a/b", ("external",))):
        with read(group) as dataset:
            for name in names:
                path = f"{group}/{name}" if group else name
                assert dataset[name].dims == ("y", "x")
                assert_same(dataset[name].values, values, path)


@pytest.mark.parametrize("chunks", [None, {}])
def test_xarray(chunks: dict[str, int] | None, store: zm.ManifestStore, values: Values) -> None:
    with dask.config.set(scheduler="threads"):
        assert_datasets(
            lambda group: xr.open_zarr(
                store, group=group, chunks=chunks, consolidated=False, mask_and_scale=False
            ),
            values,
        )


def test_xarray_consolidated(root: Path, values: Values) -> None:
    consolidate_by_hand(root)
    with xr.open_zarr(zm.ManifestStore(root), mask_and_scale=False) as dataset:
        assert_same(dataset["inline"].values, values, "inline")


def test_dask_processes(store: zm.ManifestStore, values: Values) -> None:
    with dask.config.set(scheduler="processes", num_workers=2):
        assert_datasets(
            lambda group: xr.open_zarr(
                store, group=group, chunks={}, consolidated=False, mask_and_scale=False
            ),
            values,
        )


def test_dask_distributed(root: Path, store: zm.ManifestStore, values: Values) -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        processes=True, n_workers=2, threads_per_worker=2, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster) as client:
        assert_datasets(
            lambda group: xr.open_zarr(
                store, group=group, chunks={}, consolidated=False, mask_and_scale=False
            ),
            values,
        )
        arrays = {path: zarr.open_array(store, path=path, mode="r") for path in values}
        futures = {
            path: client.submit(operator.getitem, array, slice(None))
            for path, array in arrays.items()
        }
        for path, future in futures.items():
            assert_same(future.result(timeout=60), values, path)
        # A worker that received the store alone.
        opened = client.submit(zarr.open_array, store, path="a/b/external", mode="r")
        read = client.submit(operator.getitem, opened, slice(None))
        assert_same(read.result(timeout=60), values, "a/b/external")


ENGINE: dict[str, Any] = {"engine": "zarr-manifest", "consolidated": False, "mask_and_scale": False}


def test_xarray_engine(root: Path, values: Values) -> None:
    for location in (str(root), root, zm.ManifestStore(root), LocalStore(root)):
        assert_datasets(
            lambda group, location=location: xr.open_dataset(location, group=group, **ENGINE),
            values,
        )


def test_xarray_engine_opens_trees(root: Path, values: Values) -> None:
    with xr.open_datatree(root, **ENGINE) as tree:
        assert_same(tree["a/b/external"].values, values, "a/b/external")
        assert_same(tree["inline"].values, values, "inline")
        assert_same(tree["a/sharded"].values, values, "a/sharded")
        assert tree["a/b"].attrs["path"] == "a/b"


def test_xarray_engine_opens_groups(root: Path, values: Values) -> None:
    groups = xr.open_groups(root, **ENGINE)
    assert_same(groups["/a/b"]["external"].values, values, "a/b/external")
    for dataset in groups.values():
        dataset.close()


def test_xarray_engine_never_writes(root: Path, values: Values) -> None:
    before = files_below(root)
    with xr.open_dataset(root, **ENGINE) as dataset:
        dataset.load()
    assert files_below(root) == before


# Codec pipelines ---------------------------------------------------------------


@pytest.mark.parametrize("pipeline", ["BatchedCodecPipeline", "FusedCodecPipeline"])
def test_codec_pipelines(pipeline: str, root: Path, values: Values) -> None:
    import zarr.core.codec_pipeline as pipelines

    if not hasattr(pipelines, pipeline):
        pytest.skip(f"zarr {zarr.__version__} has no {pipeline}")
    memory = MemoryStore()
    copy_into(memory, root)
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}"}):
        for underneath in (LocalStore(root), memory, ObjectStore(ObstoreLocalStore(root))):
            store = zm.ManifestStore(underneath)
            for path in values:
                array = by_open_array(store, path)
                assert type(array._async_array.codec_pipeline).__name__ == pipeline
                assert_same(array[:], values, path)
                assert_same(array[1:2, 5:8], {path: values[path][1:2, 5:8]}, path)


def test_the_fused_pipeline_reads_synchronously(
    root: Path, values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zarr.core.codec_pipeline as pipelines

    if not hasattr(pipelines, "FusedCodecPipeline"):
        pytest.skip(f"zarr {zarr.__version__} has no FusedCodecPipeline")
    asked: list[str] = []
    get_sync = zm.ManifestStore.get_sync

    def noting(self: zm.ManifestStore, key: str, **options: Any) -> Any:
        asked.append(key)
        return get_sync(self, key, **options)

    monkeypatch.setattr(zm.ManifestStore, "get_sync", noting)
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}):
        array = by_open_array(zm.ManifestStore(root), "a/b/external")
        assert_same(array[:], values, "a/b/external")
    assert "a/b/external/c/1/1" in asked


# Stores and locations ----------------------------------------------------------


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
    "Path": lambda root, _: root,
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


@pytest.mark.parametrize("kind", LOCATIONS)
def test_locations(kind: str, root: Path, values: Values, tmp_path: Path) -> None:
    with zm.ManifestStore(LOCATIONS[kind](root, tmp_path)) as store:
        for path in values:
            assert_same(by_open_array(store, path)[:], values, path)
        group = zarr.open_group(store, mode="r", zarr_format=3)
        for path, node in group.members(max_depth=None):
            if isinstance(node, zarr.Array):
                assert_same(node[:], values, path)
                assert_same(node[4:, ::3], {path: values[path][4:, ::3]}, path)


def test_memory_url(root: Path, values: Values, tmp_path: Path) -> None:
    fsspec_memory(root, tmp_path)
    store = zm.ManifestStore(f"memory://{tmp_path.name}/data.zarr")
    for path in values:
        assert_same(by_open_array(store, path)[:], values, path)


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


def test_http_url(root: Path, values: Values) -> None:
    with FileServer(root.parent) as server:
        store = zm.ManifestStore(f"{server.url}/data.zarr", read_only=True)
        group = zarr.open_group(store, mode="r", zarr_format=3)
        for path in values:
            assert_same(by_open_array(store, path)[:], values, path)
            if not is_v2(path):
                assert_same(group[path][:], values, path)
        asked = [r.target for r in server.requests if r.method == "GET"]
        assert asked.count("/data.zarr/a/b/external/manifest.json") == 1


def test_http_url_consolidated(root: Path, values: Values) -> None:
    consolidate_by_hand(root)
    with FileServer(root.parent) as server:
        store = zm.ManifestStore(f"{server.url}/data.zarr", read_only=True)
        for path, read in read_consolidated(store):
            assert_same(read, values, path)
        asked = [r.target for r in server.requests if r.method == "GET"]
        assert "/data.zarr/a/b/external/zarr.json" not in asked


def test_http_loads_the_manifest_once_for_a_hundred_chunks(tmp_path: Path) -> None:
    data = np.arange(1, 401, dtype="<i4")
    manifest = {str(i): {"path": "raw.bin", "offset": 16 * i, "length": 16} for i in range(100)}
    write_manifest_array(tmp_path, "x", data, (4,), manifest)
    (tmp_path / "x" / "raw.bin").write_bytes(data.tobytes())
    with FileServer(tmp_path) as server, zarr.config.set({"async.concurrency": 100}):
        array = zarr.open_array(zm.ManifestStore(server.url, read_only=True), path="x", mode="r")
        np.testing.assert_array_equal(array[:], data)
        asked = [r.target for r in server.requests]
    assert asked.count("/x/manifest.json") == 1
    assert asked.count("/x/raw.bin") < 10  # neighbours are read together


# Listing -----------------------------------------------------------------------


def test_referenced_chunks_are_listed(store: zm.ManifestStore, values: Values) -> None:
    async def collect(keys: Any) -> list[str]:
        return sorted([key async for key in keys])

    chunks = [f"a/b/external/c/{i}/{j}" for i in range(2) for j in range(2)]
    everything = sync(collect(store.list()))
    assert len(everything) == len(set(everything))
    assert set(chunks) < set(everything)
    assert sync(collect(store.list_prefix("a/b/external/c/"))) == chunks
    assert sync(collect(store.list_prefix("a/b/external/c/1"))) == chunks[2:]
    assert sync(collect(store.list_dir("a/b/external"))) == ["c", "manifest.json", "zarr.json"]
    assert sync(collect(store.list_dir("a/b/external/c"))) == ["0", "1"]
    assert sync(collect(store.list_dir("a/b/external/c/1"))) == ["0", "1"]
    array = by_open_array(store, "a/b/external")
    assert array.nchunks_initialized == 4
    assert array.nbytes_stored() >= values["a/b/external"].nbytes


def test_native_chunks_of_manifest_arrays_are_not_listed(tmp_path: Path) -> None:
    """They are not read either: what the manifest does not name is missing."""
    data = np.arange(8, dtype="u1")
    array = write_manifest_array(tmp_path, "g/x", data, (2,), {"1": {}})
    zarr.create_group(tmp_path)
    zarr.create_array(tmp_path, name="native", data=data, chunks=(2,))
    (array / "c").mkdir()
    for i in range(4):
        (array / "c" / str(i)).write_bytes(b"??")
    (array / "c" / "other").write_bytes(b"")

    async def collect(keys: Any) -> list[str]:
        return sorted([key async for key in keys])

    for prefix in ("", "g/", "g/x/"):
        store = zm.ManifestStore(tmp_path)
        keys = sync(collect(store.list_prefix(prefix)))
        assert [key for key in keys if key.startswith("g/x/c")] == ["g/x/c/1", "g/x/c/other"]
        assert len([key for key in keys if key.startswith("native/c/")]) == (0 if prefix else 4)
    assert sync(collect(store.list_dir("g/x/c"))) == ["1", "other"]
    assert sync(collect(store.list_dir("native/c"))) == ["0", "1", "2", "3"]
    (array / "manifest.json").write_text("{}")
    (array / "c" / "other").unlink()
    store = zm.ManifestStore(tmp_path)
    assert sync(collect(store.list_dir("g/x"))) == ["manifest.json", "zarr.json"]


def test_info_complete(store: zm.ManifestStore) -> None:
    printed = io.StringIO()
    print(by_open_array(store, "inline").info_complete(), file=printed)
    assert "Chunks Initialized : 4" in printed.getvalue()
