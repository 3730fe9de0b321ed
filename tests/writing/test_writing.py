"""Writing through the store: native values as usual; manifest arrays stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync

import zarr_manifest as zm
from tests.hierarchies import (
    FIELD,
    MANIFEST_ARRAYS,
    Values,
    files_below,
    read,
    split_into_source,
    write_manifest_array,
)

BUFFER = default_buffer_prototype().buffer
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


@pytest.mark.slow
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


@pytest.mark.slow
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
