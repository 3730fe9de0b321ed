"""Writing through the store: native nodes as usual; manifest arrays keep all that they have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.hierarchies import (
    FIELD,
    MANIFEST_ARRAYS,
    SOURCES,
    Values,
    declared,
    files_below,
    read,
    split_into_source,
    write_manifest_array,
)

BUFFER = default_buffer_prototype().buffer
CONSOLIDATED_V3 = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
pytestmark = pytest.mark.filterwarnings(
    "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
)


@pytest.fixture
def store(root: Path, values: Values) -> zm.ManifestStore:
    return zm.ManifestStore(root)


def assert_all_read(root: Path, values: Values) -> None:
    for path, expected in values.items():
        np.testing.assert_array_equal(read(zm.ManifestStore(root), path), expected, err_msg=path)


# Native nodes ------------------------------------------------------------------


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_native_arrays_and_groups(
    store: zm.ManifestStore, root: Path, values: Values, zarr_format: Any
) -> None:
    path = f"new{zarr_format}"
    group = zarr.create_group(store, path=path, zarr_format=zarr_format)
    array = group.create_array("x", data=FIELD, chunks=(2, 2))
    array[0, 0] = 99
    array.attrs["units"] = "K"
    group.attrs["title"] = "t"
    expected = FIELD.copy()
    expected[0, 0] = 99
    np.testing.assert_array_equal(read(store, f"{path}/x"), expected)
    plain = zarr.open_group(root, path=path, mode="r", zarr_format=zarr_format)
    np.testing.assert_array_equal(plain["x"][:], expected)
    assert plain["x"].attrs["units"] == "K"
    assert plain.attrs["title"] == "t"
    assert_all_read(root, values)


@pytest.mark.slow
def test_native_arrays_are_written_byte_for_byte_as_without_the_store(tmp_path: Path) -> None:
    for location in (tmp_path / "plain", zm.ManifestStore(tmp_path / "ours")):
        group = zarr.create_group(location)
        array = group.create_array("x", data=FIELD, chunks=(2, 2), shards=(4, 4))
        array.attrs["nan"] = float("nan")
        array.resize((4, 4))
        array.append(np.ones((2, 4), FIELD.dtype))
        group.create_array("gone", data=FIELD)
        del group["gone"]
    assert files_below(tmp_path / "plain") == files_below(tmp_path / "ours")


@pytest.mark.slow
def test_existing_native_arrays(store: zm.ManifestStore, root: Path, values: Values) -> None:
    for path in ("native", "a/sharded", "old", "v2/inside"):
        array = zarr.open_array(store, path=path, mode="r+")
        array[1:3, 2:7] = 5
        values[path] = values[path].copy()
        values[path][1:3, 2:7] = 5
        np.testing.assert_array_equal(array[:], values[path])
    assert_all_read(root, values)


@pytest.mark.slow
def test_writing_synchronously(store: zm.ManifestStore, root: Path, values: Values) -> None:
    key = "native/c/0/0"
    before = store.get_sync(key)
    store.set_sync(key, BUFFER.from_bytes(b"abc"))
    assert (root / key).read_bytes() == b"abc"
    store.delete_sync(key)
    assert not (root / key).exists()
    store.set_sync(key, before)
    assert_all_read(root, values)


# Chunks of manifest arrays are read-only ---------------------------------------


def refused(root: Path, act: Callable[[], Any]) -> zm.errors.ReadOnlyError:
    before = files_below(root)
    with pytest.raises(zm.errors.ReadOnlyError) as caught:
        act()
    assert files_below(root) == before
    assert caught.value.code == "read_only"
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize("path", MANIFEST_ARRAYS)
def test_assigning_to_a_manifest_array(
    path: str, store: zm.ManifestStore, root: Path, values: Values
) -> None:
    array = zarr.open_array(store, path=path, mode="r+")
    for selection in (slice(None), (0, 0), (slice(0, 3), slice(0, 4))):
        error = refused(root, lambda selection=selection: array.__setitem__(selection, 7))
        assert path in str(error)
    # Fill values too, for which zarr would delete chunks.
    refused(root, lambda: array.__setitem__(slice(None), -1))
    assert_all_read(root, values)


@pytest.mark.parametrize("present", [True, False])
def test_setting_chunk_keys(present: bool, root: Path, values: Values) -> None:
    manifest, _ = split_into_source(FIELD, (3, 4), path="../raw/external.bin")
    if not present:
        del manifest["1.1"]
    write_manifest_array(root, "x", FIELD, (3, 4), manifest)
    key, value = "x/c/1/1", BUFFER.from_bytes(b"\1" * 48)
    for act in (
        lambda s: sync(s.set(key, value)),
        lambda s: s.set_sync(key, value),
        lambda s: sync(s.set_if_not_exists(key, value)),
        lambda s: sync(s._set_many([(key, value)])),
    ):
        error = refused(root, lambda act=act: act(zm.ManifestStore(root)))
        assert "array 'x'" in str(error)
        assert "1.1" in str(error)


@pytest.mark.slow
def test_deleting_chunk_keys(store: zm.ManifestStore, root: Path) -> None:
    key = "a/b/external/c/1/1"
    for act in (
        lambda s: sync(s.delete(key)),
        lambda s: s.delete_sync(key),
    ):
        refused(root, lambda act=act: act(store))
        refused(root, lambda act=act: act(zm.ManifestStore(root)))


def test_deleting_a_chunk_that_is_not_there_is_nothing(tmp_path: Path) -> None:
    write_manifest_array(tmp_path, "x", FIELD, (3, 4), {"0.0": {}})
    store = zm.ManifestStore(tmp_path)
    before = files_below(tmp_path)
    for key in ("x/c/0/0", "x/c/1/1"):  # empty, absent
        sync(store.delete(key))
        store.delete_sync(key)
    assert files_below(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["BatchedCodecPipeline", "FusedCodecPipeline"])
def test_no_pipeline_writes(pipeline: str, root: Path, values: Values) -> None:
    import zarr.core.codec_pipeline as pipelines

    if not hasattr(pipelines, pipeline):
        pytest.skip(f"zarr {zarr.__version__} has no {pipeline}")
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{pipeline}"}):
        for path in MANIFEST_ARRAYS:
            array = zarr.open_array(zm.ManifestStore(root), path=path, mode="r+")
            refused(root, lambda array=array: array.__setitem__((slice(0, 3), slice(0, 4)), 7))


# Metadata of manifest arrays keeps its declaration -----------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", MANIFEST_ARRAYS)
def test_attributes(path: str, store: zm.ManifestStore, root: Path, values: Values) -> None:
    before = declared(root, path)
    array = zarr.open_array(store, path=path, mode="r+")
    array.attrs["units"] = "K"
    array.attrs.put({"long_name": "ü", "nan": float("nan")})
    array = array.update_attributes({"more": [1, 2]})
    assert declared(root, path) == before
    again = zarr.open_array(zm.ManifestStore(root), path=path, mode="r")
    assert again.attrs["long_name"] == "ü"
    assert again.attrs["more"] == [1, 2]
    np.testing.assert_array_equal(array[:], values[path])
    assert_all_read(root, values)


def test_attributes_by_a_store_that_saw_nothing(root: Path, values: Values) -> None:
    """Rewriting without having read: what is stored counts, not what is remembered."""
    before = declared(root, "inline")
    document = zm.ManifestStore(root).get_sync("inline/zarr.json")
    assert "storage_transformers" not in json.loads(document.to_bytes())
    zm.ManifestStore(root).set_sync("inline/zarr.json", document)
    assert declared(root, "inline") == before
    sync(zm.ManifestStore(root).set("inline/zarr.json", document))
    assert declared(root, "inline") == before
    assert_all_read(root, values)


@pytest.mark.parametrize("path", ["a/b/external", "inline"])
def test_shrinking_over_references_is_refused(
    path: str, store: zm.ManifestStore, root: Path, values: Values
) -> None:
    array = zarr.open_array(store, path=path, mode="r+")
    error = refused(root, lambda: array.resize((3, 8)))
    assert "zarr_manifest.edit" in str(error)
    assert_all_read(root, values)
    with zm.edit(root) as group:
        group[path].resize((3, 8))
    np.testing.assert_array_equal(read(zm.ManifestStore(root), path), values[path][:3])


def test_shrinking_without_deleting_references(
    store: zm.ManifestStore, root: Path, values: Values
) -> None:
    before, path = files_below(root), "a/b/external"
    array = zarr.open_array(store, path=path, mode="r+")
    sync(array.async_array.resize((3, 8), delete_outside_chunks=False))
    np.testing.assert_array_equal(read(store, path), values[path][:3])
    changed = {key for key, body in files_below(root).items() if before.get(key) != body}
    assert changed == {f"{path}/zarr.json"}
    with zm.edit(root) as group:
        group[path].resize((6, 8))
    np.testing.assert_array_equal(read(store, path), values[path])


def test_shrinking_over_chunks_without_reference(tmp_path: Path) -> None:
    manifest, source = split_into_source(FIELD, (3, 4), path="raw.bin")
    manifest["1.0"] = {}
    del manifest["1.1"]
    write_manifest_array(tmp_path, "x", FIELD, (3, 4), manifest)
    (tmp_path / "x" / "raw.bin").write_bytes(source)
    store = zm.ManifestStore(tmp_path)
    zarr.open_array(store, path="x", mode="r+").resize((3, 8))
    np.testing.assert_array_equal(read(store, "x"), FIELD[:3])
    assert declared(tmp_path, "x")


@CONSOLIDATED_V3
def test_consolidated_metadata(store: zm.ManifestStore, root: Path, values: Values) -> None:
    before = {path: declared(root, path) for path in MANIFEST_ARRAYS}

    def assert_declared() -> None:
        document = json.loads((root / "zarr.json").read_text())
        members = document["consolidated_metadata"]["metadata"]
        for path, declaration in before.items():
            assert declared(root, path) == declaration
            assert members[path]["storage_transformers"] == declaration
        assert (
            "storage_transformers" not in members["native"]
            or not members["native"]["storage_transformers"]
        )

    zarr.consolidate_metadata(store, zarr_format=3)
    assert_declared()
    zarr.consolidate_metadata(store, zarr_format=3)  # again, over what was written
    assert_declared()
    group = zarr.open_group(store, mode="r+", zarr_format=3)
    assert group.metadata.consolidated_metadata is not None
    group.attrs["title"] = "new"
    assert_declared()
    fresh = zarr.open_group(zm.ManifestStore(root), mode="r+", zarr_format=3)
    fresh.attrs["title"] = "newer"
    assert_declared()
    group = zarr.open_group(zm.ManifestStore(root), mode="r", zarr_format=3)
    assert group.attrs["title"] == "newer"
    for path in MANIFEST_ARRAYS:
        np.testing.assert_array_equal(group[path][:], values[path])
    zarr.open_array(store, path="inline", mode="r+").attrs["units"] = "K"
    zarr.consolidate_metadata(store, zarr_format=3)
    assert_declared()
    assert_all_read(root, values)


@CONSOLIDATED_V3
def test_consolidated_metadata_of_a_nested_group(
    store: zm.ManifestStore, root: Path, values: Values
) -> None:
    zarr.consolidate_metadata(store, path="a", zarr_format=3)
    document = json.loads((root / "a" / "zarr.json").read_text())
    member = document["consolidated_metadata"]["metadata"]["b/external"]
    assert member["storage_transformers"] == declared(root, "a/b/external")
    group = zarr.open_consolidated(zm.ManifestStore(root), path="a", mode="r", zarr_format=3)
    np.testing.assert_array_equal(group["b/external"][:], values["a/b/external"])


# Deleting ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", [*MANIFEST_ARRAYS, "a", "a/b"])
def test_deleting_a_node_leaves_sources(
    path: str, store: zm.ManifestStore, root: Path, values: Values
) -> None:
    before = files_below(root)
    del zarr.open_group(store, mode="r+", zarr_format=3)[path]
    after = files_below(root)
    assert after == {k: v for k, v in before.items() if not k.startswith(f"{path}/")}
    assert set(SOURCES) <= set(after)
    for reader in (store, zm.ManifestStore(root)):
        assert path not in zarr.open_group(reader, mode="r", zarr_format=3)
        kept = [p for p in values if p != path and not p.startswith(f"{path}/")]
        for other in kept:
            np.testing.assert_array_equal(read(reader, other), values[other])


@pytest.mark.parametrize("path", ["g/x", "g", ""])
@pytest.mark.parametrize("where", ["raw.bin", "sub/raw.bin", "c/0/0"])
def test_a_source_within_the_node_is_kept(where: str, path: str, tmp_path: Path) -> None:
    zarr.create_group(tmp_path)
    manifest, source = split_into_source(FIELD, (3, 4), path=where)
    array = write_manifest_array(tmp_path, "g/x", FIELD, (3, 4), manifest)
    file = array / where
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(source)
    sync(zm.ManifestStore(tmp_path).delete_dir(path))
    assert file.read_bytes() == source
    assert not (array / "zarr.json").exists()


def test_a_source_that_another_array_refers_to_is_kept(tmp_path: Path) -> None:
    """Chunks of a native array, referred to from a manifest array next to it."""
    zarr.create_group(tmp_path)
    zarr.create_array(tmp_path / "native", data=FIELD, chunks=(6, 8), compressors=None)
    write_manifest_array(tmp_path, "virtual", FIELD, (6, 8), {"0.0": {"path": "../native/c/0/0"}})
    store = zm.ManifestStore(tmp_path)
    np.testing.assert_array_equal(read(store, "virtual"), FIELD)
    del zarr.open_group(store, mode="r+")["virtual"]
    np.testing.assert_array_equal(read(store, "native"), FIELD)


def test_clearing_keeps_sources(store: zm.ManifestStore, root: Path) -> None:
    sync(store.clear())
    assert set(files_below(root)) == set(SOURCES)


# Read-only stores --------------------------------------------------------------


def test_read_only_stores_refuse(root: Path, values: Values) -> None:
    before = files_below(root)
    value = BUFFER.from_bytes(b"x")
    for store in (
        zm.ManifestStore(root, read_only=True),
        zm.ManifestStore(root).with_read_only(True),
    ):
        assert store.read_only
        for act in (
            lambda s: sync(s.set("native/c/0/0", value)),
            lambda s: sync(s.set("zarr.json", value)),
            lambda s: s.set_sync("native/c/0/0", value),
            lambda s: sync(s.set_if_not_exists("new", value)),
            lambda s: sync(s.delete("native/c/0/0")),
            lambda s: s.delete_sync("native/c/0/0"),
            lambda s: sync(s.delete_dir("native")),
            lambda s: sync(s.clear()),
            lambda s: zarr.create_array(s, name="new", shape=1, dtype="i1"),
            lambda s: zarr.open_group(s, mode="r+"),
        ):
            with pytest.raises(ValueError, match="read-only"):
                act(store)
    assert files_below(root) == before


def test_in_memory(values: Values, root: Path) -> None:
    memory = MemoryStore()
    for key, body in files_below(root).items():
        sync(memory.set(key, BUFFER.from_bytes(body)))
    store = zm.ManifestStore(memory)
    array = zarr.open_array(store, path="a/b/external", mode="r+")
    with pytest.raises(zm.errors.ReadOnlyError):
        array[:] = 1
    array.attrs["units"] = "K"
    np.testing.assert_array_equal(read(store, "a/b/external"), values["a/b/external"])
    sync(store.clear())
    assert sorted(memory._store_dict) == list(SOURCES)
