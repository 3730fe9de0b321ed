"""Members of groups where they cannot be listed: an error, never a group that appears empty."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.core.sync import sync
from zarr.storage import FsspecStore

import zarr_manifest as zm
from tests.command_line.commands import run
from tests.hierarchies import consolidate
from tests.servers.http_files import FileServer, status

MEMBERS: dict[str, Callable[[Any], Any]] = {
    "zarr": lambda store: list(zarr.open_group(store, mode="r").members()),
    "arrays": lambda store: list(zarr.open_group(store, mode="r").array_keys()),
    "of a group below": lambda store: list(zarr.open_group(store, mode="r")["g"].members()),  # type: ignore[union-attr]
    "xarray": lambda store: xr.open_zarr(store),
    "unconsolidated": lambda store: xr.open_zarr(store, consolidated=False),
    "engine": lambda store: xr.open_dataset(store, engine="zarr-manifest"),
    "tree": lambda store: xr.open_datatree(store, engine="zarr"),
    "keys": lambda store: sync(_keys(store)),
    "locations": lambda store: store.locations(),
}


async def _keys(store: zm.ManifestStore) -> list[str]:
    return [key async for key in store.list_prefix("g/")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    """Serve a hierarchy without consolidated metadata; GET lists nothing, and PROPFIND is 404."""
    for name, below in (("a", {}), ("g/b", {"fill_value": 1})):
        zm.create_array(
            tmp_path,
            name,
            {"0": {"data": np.arange(4, dtype="u1").tobytes()}},
            shape=4,
            chunks=4,
            dtype="u1",
            dimension_names=["x"],
            **below,
        )
    with FileServer(tmp_path) as found:
        yield found


@pytest.mark.servers
@pytest.mark.filterwarnings("ignore:Failed to open Zarr store with consolidated metadata")
@pytest.mark.parametrize("how", MEMBERS)
def test_members_of_a_web_server_are_an_error(server: FileServer, how: str) -> None:
    with pytest.raises(zm.errors.SourceError, match="cannot be listed") as raised:
        MEMBERS[how](zm.ManifestStore(server.url, read_only=True))
    assert "zarr.consolidate_metadata(root.store)" in str(raised.value.remedy)
    assert not [request for request in server.requests if request.method == "PROPFIND"]


@pytest.mark.servers
def test_on_the_command_line(server: FileServer) -> None:
    done = run("info", server.url)
    assert done.status != 0
    assert "zarr-manifest snapshot" in done.stderr


@pytest.mark.servers
@pytest.mark.filterwarnings("ignore:Failed to open Zarr store with consolidated metadata")
@pytest.mark.parametrize("index", [None, b"<a href='/about.html'>about</a>"])
@pytest.mark.parametrize("how", ["xarray", "of a group below"])
def test_members_that_fsspec_does_not_find_are_an_error(
    server: FileServer, how: str, index: bytes | None
) -> None:
    pytest.importorskip("aiohttp")
    from fsspec.implementations.http import HTTPFileSystem

    for path in ("", "g", "g/"):
        if index is None:
            server.script(path, status(404), sticky=True)
        else:
            server.put(path, index)
    file_system = HTTPFileSystem(asynchronous=True, skip_instance_cache=True)
    store = FsspecStore(file_system, path=server.url, read_only=True)
    try:
        with pytest.raises(zm.errors.SourceError, match="cannot be listed"):
            MEMBERS[how](zm.ManifestStore(store))
    finally:
        sync(file_system._session.close())


@pytest.mark.servers
def test_arrays_open_by_name(server: FileServer) -> None:
    group = zarr.open_group(zm.ManifestStore(server.url), mode="r")
    for array in (group["a"], group["g/b"], group["g"]["b"]):  # type: ignore[index]
        assert array[:].tolist() == [0, 1, 2, 3]  # type: ignore[index,union-attr]


@pytest.mark.servers
def test_nothing_is_changed_through_a_web_server(server: FileServer) -> None:
    store = zm.ManifestStore(server.url)
    assert store.read_only
    with pytest.raises(ValueError, match="read-only"):
        zarr.open_group(store, mode="r+")
    with pytest.raises(zm.errors.ReadOnlyError, match="on a web server cannot be changed"):
        store.with_read_only(False)
    for sole_writer in (False, True):
        with pytest.raises(zm.errors.ReadOnlyError, match="on a web server cannot be changed"):
            zm.create_array(
                server.url, "new", {}, shape=1, chunks=1, dtype="u1", sole_writer=sole_writer
            )
    assert {request.method for request in server.requests} <= {"GET", "HEAD"}


@pytest.mark.servers
def test_the_remedy_works(server: FileServer, tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):  # that consolidated metadata are no standard
        consolidate(tmp_path)
    found = xr.open_zarr(zm.ManifestStore(server.url))
    assert found["a"].values.tolist() == [0, 1, 2, 3]


def test_directories_without_metadata_are_listed(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "g" / "b", shape=1, dtype="u1")
    store = zm.ManifestStore(tmp_path)

    async def names(path: str) -> list[str]:
        return [name async for name in store.list_dir(path)]

    assert sync(names("")) == ["g"]
    assert sync(names("g")) == ["b"]
    assert sync(names("nothing")) == []
