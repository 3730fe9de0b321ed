"""``enable()`` and what zarr is given as a store: read through a ManifestStore, or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import upath
import xarray as xr
import zarr
from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore, MemoryStore, StorePath

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import FIELD, Values, by_open_array, copy_into, write_hierarchy
from tests.servers.http_files import FileServer
from zarr_manifest.errors import UnsupportedTransformerError

pytestmark = pytest.mark.filterwarnings(
    "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
)


@pytest.fixture
def values(root: Path) -> Values:
    return write_hierarchy(root)


def by_group(location: Any, path: str) -> Any:
    return zarr.open_group(location, mode="r")[path]


def by_members(location: Any, path: str) -> Any:
    return dict(zarr.open_group(location, mode="r").members(max_depth=None))[path]


EACH_ACCESS = pytest.mark.parametrize(
    "access",
    combinations([by_group, by_members, by_open_array], besides=[by_group]),
    ids=lambda f: f.__name__,
)

takes_remote_paths = pytest.mark.skipif(
    tuple(map(int, zarr.__version__.split(".")[:2])) < (3, 2), reason="zarr takes no remote UPath"
)


def local_mapping(root: Path) -> Any:
    return fsspec.get_mapper(str(root))


def local_path(root: Path) -> Any:
    return upath.UPath(root)


@pytest.mark.slow
@pytest.mark.parametrize("make", [local_mapping, local_path], ids=lambda make: make.__name__)
def test_locations_of_fsspec(make: Callable[[Path], Any], root: Path, values: Values) -> None:
    with zm.enable():
        group = zarr.open_group(make(root), mode="r")
        assert type(group.store) is zm.ManifestStore
        np.testing.assert_array_equal(group["a/b/external"][:], values["a/b/external"])


@pytest.mark.servers
@pytest.mark.parametrize(
    "make", [fsspec.get_mapper, pytest.param(upath.UPath, marks=takes_remote_paths)]
)
def test_remote_locations_of_fsspec(make: Any, root: Path, values: Values) -> None:
    with FileServer(root.parent) as server, zm.enable():
        group = zarr.open_group(make(f"{server.url}/data.zarr"), mode="r")
        assert type(group.store) is zm.ManifestStore
        np.testing.assert_array_equal(group["a/b/external"][:], values["a/b/external"])


def local(root: Path) -> Store:
    return LocalStore(root)


def of_fsspec(root: Path) -> Store:
    # As dask.array.from_zarr and ome-zarr make them of paths.
    return FsspecStore.from_url(root.as_uri())


def in_memory(root: Path) -> Store:
    store = MemoryStore()
    copy_into(store, root)
    return store


EACH_STORE = pytest.mark.parametrize(
    "make", combinations([local, of_fsspec, in_memory], besides=[local]), ids=lambda f: f.__name__
)


@EACH_STORE
@EACH_ACCESS
def test_stores_that_are_not_opened_are_refused(
    access: Any, make: Callable[[Path], Store], root: Path, values: Values
) -> None:
    store = make(root)
    with zm.enable():
        for path in ("inline", "a/b/external"):
            with pytest.raises(UnsupportedTransformerError, match="stores=True") as caught:
                access(store, path)
            assert caught.value.array is not None
        np.testing.assert_array_equal(zarr.open_group(store, mode="r")["native"], values["native"])
    assert np.all(by_group(store, "inline")[:] == -1)  # zarr's own doing


@EACH_STORE
@EACH_ACCESS
def test_stores_are_opened_if_asked_for(
    access: Any, make: Callable[[Path], Store], root: Path, values: Values
) -> None:
    with zm.enable(stores=True) as activation:
        for path in ("inline", "a/b/external", "native"):
            np.testing.assert_array_equal(access(make(root), path)[:], values[path])
        ours = zm.ManifestStore(root)
        assert zarr.open_group(ours, mode="r+").store is ours
        assert "stores=True" in repr(activation)
        with zm.enable(), pytest.raises(UnsupportedTransformerError):
            by_group(make(root), "inline")


@pytest.mark.slow
@pytest.mark.parametrize("stores", [False, True])
def test_dicts_and_places_within_stores_are_refused(
    stores: bool, root: Path, values: Values
) -> None:
    contents: dict[str, Any] = {
        file.relative_to(root).as_posix(): zarr.core.buffer.cpu.Buffer.from_bytes(file.read_bytes())
        for file in root.rglob("*")
        if file.is_file()
    }
    with zm.enable(stores=stores):
        for location in (contents, StorePath(LocalStore(root))):
            with pytest.raises(UnsupportedTransformerError, match="ManifestStore"):
                by_group(location, "inline")
        assert zarr.create_array({}, data=FIELD)[0, 0] == FIELD[0, 0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_consolidated_metadata_are_refused_too(root: Path, values: Values) -> None:
    zarr.consolidate_metadata(root)
    assert b"consolidated_metadata" in (root / "zarr.json").read_bytes()
    with zm.enable():
        group = zarr.open_group(LocalStore(root), mode="r", use_consolidated=True)
        with pytest.raises(UnsupportedTransformerError):
            group["inline"]


def test_transformers_that_may_be_ignored_are_ignored(root: Path, values: Values) -> None:
    document = json.loads((root / "native" / "zarr.json").read_text())
    document["storage_transformers"] = [{"name": "x", "must_understand": False}]
    (root / "native" / "zarr.json").write_text(json.dumps(document))
    with zm.enable():
        np.testing.assert_array_equal(by_group(LocalStore(root), "native")[:], values["native"])


@pytest.mark.slow
def test_our_own_functions_work_meanwhile(root: Path, values: Values) -> None:
    with zm.enable():
        zm.write_manifest(root, "inline", {"0.0": {}})
        zm.create_array(root, "new", shape=(2,), chunks=(1,), dtype="u1", entries={})
        assert zm.validate(LocalStore(root)) == []
        assert "4 manifest arrays" in repr(zm.contents(LocalStore(root)))


@pytest.mark.slow
def test_dask_and_xarray(root: Path, values: Values) -> None:
    import dask.array

    with zm.enable(), pytest.raises(UnsupportedTransformerError):
        dask.array.from_zarr(str(root), component="inline")
    with zm.enable(stores=True):
        read = dask.array.from_zarr(str(root), component="inline")
        np.testing.assert_array_equal(read.compute(), values["inline"])
        options: dict[str, Any] = {"consolidated": False, "mask_and_scale": False}
        for location in (LocalStore(root), str(root)):
            with xr.open_dataset(location, engine="zarr", **options) as dataset:
                np.testing.assert_array_equal(dataset["inline"].values, values["inline"])
