"""xarray reads a hierarchy with every kind of node: by zarr's engine, by ours, and with dask."""

from __future__ import annotations

import operator
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import dask
import fsspec
import pytest
import upath
import xarray as xr
import zarr
from zarr.storage import LocalStore

import zarr_manifest as zm
from tests.hierarchies import Values, assert_same, consolidate, files_below
from tests.processes import CONTEXT, cluster
from tests.servers.http_files import FileServer

# zarr says so of sources and v2 nodes that lie in a v3 group; of nothing else here.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:Object at (raw|old|v2) is not recognized as a component of a Zarr hierarchy"
    ),
]


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


def test_dask_processes(store: zm.ManifestStore, values: Values) -> None:
    # One pool: dask starts processes anew for each computation otherwise.
    workers = ProcessPoolExecutor(1, CONTEXT)
    with workers, dask.config.set(scheduler="processes", pool=workers):
        assert_datasets(
            lambda group: xr.open_zarr(
                store, group=group, chunks={}, consolidated=False, mask_and_scale=False
            ),
            values,
        )


def test_dask_distributed(root: Path, store: zm.ManifestStore, values: Values) -> None:
    with cluster(threads_per_worker=2) as client:
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


def contents(root: Path) -> dict[str, Any]:
    buffer = zarr.buffer.default_buffer_prototype().buffer
    return {key: buffer.from_bytes(body) for key, body in files_below(root).items()}


def below_home(root: Path) -> str:
    return f"~/{root.name}"


@pytest.mark.parametrize(
    "location",
    [contents, fsspec.get_mapper, below_home, lambda root: Path(below_home(root)), upath.UPath],
    ids=["dict", "FSMap", "~", "~ in a Path", "UPath"],
)
def test_xarray_engine_opens_what_the_engine_of_xarray_does(
    location: Any, root: Path, values: Values, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    assert_datasets(lambda group: xr.open_dataset(location(root), group=group, **ENGINE), values)


@pytest.mark.servers
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_xarray_engine_opens_with_storage_options(root: Path, values: Values) -> None:
    consolidate(root)  # a web server cannot list
    options: Any = {"headers": {"X-Token": "secret"}}
    engine = ENGINE | {"consolidated": True}
    with FileServer(root.parent) as server:
        url = f"{server.url}/data.zarr"
        assert_datasets(
            lambda group: xr.open_dataset(url, group=group, storage_options=options, **engine),
            values,
        )
        assert all(request.headers.get("x-token") == "secret" for request in server.requests)
    with pytest.raises(TypeError, match="storage_options are for a URL"):
        xr.open_dataset(root, storage_options=options, **ENGINE)


def test_xarray_needs_no_engine_for_a_store(root: Path, store: zm.ManifestStore) -> None:
    options: dict[str, Any] = {"consolidated": False, "mask_and_scale": False}
    with xr.open_dataset(store, **options) as dataset, xr.open_datatree(store, **options) as tree:
        assert dataset["inline"].shape == tree["inline"].shape
    guessed = xr.backends.list_engines()["zarr-manifest"].guess_can_open
    for location in (str(root), root, LocalStore(root), {}, b"", None):
        assert not guessed(location)


def test_xarray_engine_never_writes(root: Path, values: Values) -> None:
    before = files_below(root)
    with xr.open_dataset(root, **ENGINE) as dataset:
        dataset.load()
    assert files_below(root) == before


@pytest.mark.usefixtures("values")
@pytest.mark.parametrize(
    "setting",
    [{"allow": ["s3://b/"]}, {"base": "s3://b/"}, {"verify": "auto"}, {"limits": zm.Limits()}],
)
@pytest.mark.parametrize("way", [xr.open_dataset, xr.open_datatree, xr.open_groups])
def test_xarray_engine_drops_no_settings(root: Path, way: Any, setting: dict[str, Any]) -> None:
    (name,) = setting
    with pytest.raises(TypeError, match=f"a ManifestStore has its own settings.* {name}"):
        way(zm.ManifestStore(root, verify="never"), **ENGINE, **setting)
    opened = way(root, **ENGINE, **setting)
    for each in opened.values() if way is xr.open_groups else [opened]:
        each.close()
