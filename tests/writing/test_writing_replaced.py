"""Nodes that are written in place of others: of manifest arrays, or of native ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync

import zarr_manifest as zm
from tests.hierarchies import (
    FIELD,
    MANIFEST_ARRAYS,
    SOURCES,
    Values,
    declared,
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


@pytest.mark.slow
@pytest.mark.parametrize("path", MANIFEST_ARRAYS)
def test_replacing_a_manifest_array_by_a_native_one(
    path: str, store: zm.ManifestStore, root: Path, values: Values
) -> None:
    np.testing.assert_array_equal(read(store, path), values[path])
    sources = {name: (root / name).read_bytes() for name in SOURCES}
    array = zarr.open_array(
        store, path=path, mode="w", shape=(4, 4), chunks=(2, 2), dtype="f8", fill_value=0
    )
    assert not declared(root, path)
    np.testing.assert_array_equal(array[:], 0)
    array[:] = 3.5
    for reader in (store, zm.ManifestStore(root), root):
        np.testing.assert_array_equal(read(reader, path), np.full((4, 4), 3.5))
    assert {name: (root / name).read_bytes() for name in SOURCES} == sources


def test_replacing_with_create_array(store: zm.ManifestStore, root: Path, values: Values) -> None:
    new = FIELD * 2
    zarr.create_array(store, name="inline", data=new, chunks=(2, 2), overwrite=True)
    assert not declared(root, "inline")
    for reader in (store, zm.ManifestStore(root), root):
        np.testing.assert_array_equal(read(reader, "inline"), new)


def test_replacing_through_the_group(store: zm.ManifestStore, root: Path, values: Values) -> None:
    group = zarr.open_group(store, mode="r+", zarr_format=3)
    new = FIELD * 3
    group.create_array("inline", data=new, chunks=(6, 4), overwrite=True)
    np.testing.assert_array_equal(group["inline"][:], new)
    assert not declared(root, "inline")


def test_replacing_by_a_group_and_by_v2(store: zm.ManifestStore, values: Values) -> None:
    np.testing.assert_array_equal(read(store, "inline"), values["inline"])
    group = zarr.create_group(store, path="inline", overwrite=True)
    group.create_array("c", data=FIELD, chunks=(3, 4))
    np.testing.assert_array_equal(read(store, "inline/c"), FIELD)
    np.testing.assert_array_equal(read(store, "a/b/external"), values["a/b/external"])
    zarr.create_array(
        store, name="a/b/external", data=FIELD, chunks=(3, 4), zarr_format=2, overwrite=True
    )
    np.testing.assert_array_equal(read(store, "a/b/external"), FIELD)


def test_deleted_and_made_again(store: zm.ManifestStore, root: Path, values: Values) -> None:
    np.testing.assert_array_equal(read(store, "inline"), values["inline"])
    group = zarr.open_group(store, mode="r+", zarr_format=3)
    del group["inline"]
    group.create_array("inline", data=FIELD, chunks=(3, 4))
    np.testing.assert_array_equal(group["inline"][:], FIELD)
    np.testing.assert_array_equal(read(root, "inline"), FIELD)


def test_a_native_array_that_was_read_becomes_a_manifest_array(tmp_path: Path) -> None:
    """Opening the array again is enough for a store object that knew it as native."""
    zarr.create_array(tmp_path / "x", data=FIELD, chunks=(3, 4), compressors=None)
    store = zm.ManifestStore(tmp_path)
    np.testing.assert_array_equal(read(store, "x"), FIELD)
    manifest, source = split_into_source(FIELD + 9, (3, 4), path="../raw.bin")
    (tmp_path / "raw.bin").write_bytes(source)
    document = json.loads((tmp_path / "x" / "zarr.json").read_text())
    declaration = {"name": "chunk-manifest-json", "configuration": {"manifest": manifest}}
    (tmp_path / "x" / "zarr.json").write_text(
        json.dumps({**document, "storage_transformers": [declaration]})
    )
    np.testing.assert_array_equal(read(store, "x"), FIELD + 9)


def test_a_declaration_can_be_written_and_replaced(tmp_path: Path) -> None:
    """What is written with a declaration of its own is written as it is."""
    manifest, source = split_into_source(FIELD, (3, 4), path="../raw.bin")
    (tmp_path / "raw.bin").write_bytes(source)
    write_manifest_array(tmp_path, "x", FIELD, (3, 4), manifest)
    store = zm.ManifestStore(tmp_path)
    np.testing.assert_array_equal(read(store, "x"), FIELD)
    text = (tmp_path / "x" / "zarr.json").read_text()
    new = text.replace('"./manifest.json"', '"./second.json"').encode()
    moved, other = split_into_source(FIELD + 5, (3, 4), path="../other.bin")
    (tmp_path / "other.bin").write_bytes(other)
    sync(store.set("x/second.json", BUFFER.from_bytes(json.dumps(moved).encode())))
    sync(store.set("x/zarr.json", BUFFER.from_bytes(new)))
    assert (tmp_path / "x" / "zarr.json").read_bytes() == new
    np.testing.assert_array_equal(read(store, "x"), FIELD + 5)
