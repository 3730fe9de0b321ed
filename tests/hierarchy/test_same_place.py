"""Stores are equal if their objects are in the same place: zarr asks before it overwrites."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from obstore.store import HTTPStore, S3Store
from obstore.store import LocalStore as ObstoreLocalStore
from obstore.store import MemoryStore as ObstoreMemoryStore
from zarr.abc.store import Store
from zarr.storage import (
    FsspecStore,
    LocalStore,
    LoggingStore,
    MemoryStore,
    ObjectStore,
    WrapperStore,
    ZipStore,
)

import zarr_manifest as zm
from tests.combinations import crossed
from tests.hierarchies import FIELD, files_below, read, split_into_source, write_manifest_array
from zarr_manifest.stores import same_place

S3 = {"region": "eu-west-1", "skip_signature": True}


def in_directory(path: Path) -> list[Store]:
    """Every kind of store in one directory."""
    return [
        LocalStore(path),
        LocalStore(path, read_only=True),
        LocalStore(path / ".." / path.name),
        ObjectStore(ObstoreLocalStore(path), read_only=True),
        FsspecStore.from_url(path.as_uri()),
        WrapperStore(LocalStore(path)),
        LoggingStore(WrapperStore(LocalStore(path))),
    ]


@pytest.mark.slow
def test_directories(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to("a")
    here, elsewhere = (
        [(store, zm.ManifestStore(store)) for store in in_directory(tmp_path / name)]
        for name in ("a", "b")
    )
    for one in [*in_directory(tmp_path / "a"), LocalStore(tmp_path / "link")]:
        reader = zm.ManifestStore(one)
        for other, other_reader in here:
            assert same_place(one, other)
            assert reader == other_reader
            assert reader == other
        for other, other_reader in elsewhere:
            assert not same_place(one, other)
            assert reader != other_reader
            assert reader != other


def test_settings_do_not_matter(tmp_path: Path) -> None:
    store = zm.ManifestStore(tmp_path)
    for other in (
        zm.ManifestStore(tmp_path, allow=["s3://b/"], base="..", verify="never", max_gap=-1),
        zm.ManifestStore(str(tmp_path), limits=zm.Limits(entries=1), read_only=True),
        store.with_read_only(True),
        pickle.loads(pickle.dumps(store)),
    ):
        assert store == other
    assert zm.ManifestStore(store) == store
    assert store != tmp_path
    assert store != 1


@pytest.mark.slow
def test_buckets_and_web_servers() -> None:
    groups: list[list[Store]] = [
        [
            ObjectStore(S3Store("bucket", prefix="a/h", **S3)),
            ObjectStore(S3Store.from_url("s3://bucket/a/h/", **S3), read_only=True),
            FsspecStore.from_url("s3://bucket/a/h", storage_options={"anon": True}),
        ],
        [ObjectStore(S3Store("bucket", prefix="a", **S3))],
        [ObjectStore(S3Store("other", prefix="a/h", **S3))],
        [
            ObjectStore(HTTPStore("https://example.com/a/h")),
            FsspecStore.from_url("https://example.com/a/h"),
        ],
        [FsspecStore.from_url("memory://a/h")],
    ]
    for number, group in enumerate(groups):
        for store in group:
            for other_number, others in enumerate(groups):
                for other in others:
                    assert same_place(store, other) == (number == other_number)


def test_memory(tmp_path: Path) -> None:
    one: dict[str, Any] = {}
    zarr.create_array(MemoryStore(one), data=FIELD)
    other = dict(one)
    assert MemoryStore(one) == MemoryStore(other)
    assert zm.ManifestStore(MemoryStore(one)) == zm.ManifestStore(MemoryStore(one, read_only=True))
    assert zm.ManifestStore(MemoryStore(one)) != zm.ManifestStore(MemoryStore(other))
    assert zm.ManifestStore(MemoryStore(one)) != MemoryStore(other)
    objects = ObstoreMemoryStore()
    assert zm.ManifestStore(objects) == zm.ManifestStore(ObjectStore(objects, read_only=True))
    assert zm.ManifestStore(objects) != zm.ManifestStore(ObstoreMemoryStore())
    archive, two = ZipStore(tmp_path / "z", mode="w"), ZipStore(tmp_path / "y", mode="w")
    assert zm.ManifestStore(archive) == zm.ManifestStore(archive)
    assert zm.ManifestStore(archive) != zm.ManifestStore(two)


# What it is for --------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "h.zarr"
    zarr.create_group(root)
    manifest, source = split_into_source(FIELD, (3, 4), path="raw.bin")
    write_manifest_array(root, "x", FIELD, (3, 4), manifest)
    (root / "x" / "raw.bin").write_bytes(source)
    return root


def by_path(root: Path) -> Any:
    return root


def by_local_store(root: Path) -> Any:
    return LocalStore(root)


def by_object_store(root: Path) -> Any:
    return ObjectStore(ObstoreLocalStore(root))


def by_manifest_store(root: Path) -> Any:
    return zm.ManifestStore(root, allow=["s3://other/"])


needs_guard = pytest.mark.skipif(
    not hasattr(zarr.core.array, "_stores_share_data"), reason="zarr overwrites without asking"
)


@needs_guard
@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize(
    ("enabled", "target"),
    crossed([False, True], [by_path, by_local_store, by_object_store, by_manifest_store]),
)
def test_an_array_cannot_be_overwritten_with_itself(
    root: Path, target: Callable[[Path], Any], mode: Any, enabled: bool
) -> None:
    data = zarr.open_array(zm.ManifestStore(root), path="x", mode=mode)
    before = files_below(root)

    def overwrite() -> None:
        with pytest.raises(ValueError, match="overlap"):
            zarr.from_array(target(root), name="x", data=data, overwrite=True)

    if enabled:
        with zm.enable():
            overwrite()
    else:
        overwrite()
    assert files_below(root) == before
    np.testing.assert_array_equal(read(zm.ManifestStore(root), "x"), FIELD)


@needs_guard
def test_an_array_in_memory_can_be_copied_into_an_equal_store() -> None:
    stores = [zm.ManifestStore(MemoryStore()) for _ in range(2)]
    for store in stores:
        zarr.create_array(store, name="x", data=FIELD)
    data = zarr.open_array(stores[0], path="x")
    zarr.from_array(stores[1], name="x", data=data, overwrite=True)
    np.testing.assert_array_equal(read(stores[1], "x"), FIELD)
    with pytest.raises(ValueError, match="overlap"):
        zarr.from_array(stores[0], name="x", data=data, overwrite=True)
