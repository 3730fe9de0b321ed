"""One hierarchy with every kind of node, and every way into it reads the same values."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from obstore.store import LocalStore as ObstoreLocalStore
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import (
    LocalStore,
    MemoryStore,
    ObjectStore,
)

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import (
    FIELD,
    Values,
    assert_same,
    by_open_array,
    consolidate,
    copy_into,
    write_manifest_array,
)
from tests.servers.http_files import FileServer

MANIFEST_ARRAYS = ("a/b/external", "inline", "sharded_manifest")
# zarr says so of sources and v2 nodes that lie in a v3 group; of nothing else here.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
)
CONSOLIDATED_V3 = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")


def is_v2(path: str) -> bool:
    return path in ("old", "v2/inside")


# Ways in through zarr ----------------------------------------------------------


def by_open(store: Store, path: str) -> Any:
    return zarr.open(store, path=path, mode="r")


def by_root(store: Store, path: str) -> Any:
    return zarr.open(store, mode="r", zarr_format=3)[path]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "way_in",
    combinations(
        [
            by_open,
            by_open_array,
            by_root,
            step_by_step,
            by_members,
            by_parent_arrays,
        ],
        besides=[by_open_array, step_by_step, by_members],
    ),
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


@pytest.mark.slow
@CONSOLIDATED_V3
def test_consolidated_by_zarr_through_the_store(root: Path, values: Values) -> None:
    consolidate(root)
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


@pytest.mark.servers
def test_http_url_consolidated(root: Path, values: Values) -> None:
    consolidate_by_hand(root)
    with FileServer(root.parent) as server:
        store = zm.ManifestStore(f"{server.url}/data.zarr", read_only=True)
        for path, read in read_consolidated(store):
            assert_same(read, values, path)
        asked = [r.target for r in server.requests if r.method == "GET"]
        assert "/data.zarr/a/b/external/zarr.json" not in asked


# Codec pipelines ---------------------------------------------------------------


@pytest.mark.slow
def test_the_fused_pipeline(root: Path, values: Values) -> None:
    import zarr.core.codec_pipeline as pipelines

    if not hasattr(pipelines, "FusedCodecPipeline"):
        pytest.skip(f"zarr {zarr.__version__} has no FusedCodecPipeline")
    memory = MemoryStore()
    copy_into(memory, root)
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}):
        for underneath in (LocalStore(root), memory, ObjectStore(ObstoreLocalStore(root))):
            store = zm.ManifestStore(underneath)
            for path in values:
                array = by_open_array(store, path)
                assert_same(array[:], values, path)
                assert_same(array[1:2, 5:8], {path: values[path][1:2, 5:8]}, path)


def test_the_fused_pipeline_reads_native_arrays_synchronously(
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
        array = by_open_array(zm.ManifestStore(root), "native")
        assert_same(array[:], values, "native")
    assert "native/c/1/1" in asked


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


async def test_chunks_of_an_array_whose_declaration_is_wrong(
    root: Path, store: zm.ManifestStore
) -> None:
    """Who asks for a chunk without having read ``zarr.json`` is told, too."""
    document = json.loads((root / "inline" / "zarr.json").read_text())
    document["storage_transformers"][0]["configuration"]["x"] = 1
    (root / "inline" / "zarr.json").write_text(json.dumps(document))
    for _ in range(2):
        with pytest.raises(zm.errors.InvalidConfigurationError, match="inline"):
            await store.get("inline/c/0/0", default_buffer_prototype())
