"""An archive of netCDF files and the hierarchy beside it can be moved together."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from obstore.store import S3Store
from zarr.storage import ZipStore

import zarr_manifest as zm
from tests.servers.http_files import FileServer
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import read_files, write_hierarchy

DAYS = np.arange(8.0).reshape(4, 2)


@pytest.fixture
def together(tmp_path: Path) -> Path:
    """The directory with two netCDF files, and a hierarchy of both beside them."""
    archive = tmp_path / "first" / "archive"
    archive.mkdir(parents=True)
    for part in range(2):
        days = xr.Dataset({"sst": (("time", "x"), DAYS[2 * part : 2 * part + 2])})
        days["time"] = [2 * part, 2 * part + 1]
        days.to_netcdf(archive / f"{part}.nc", engine="h5netcdf")
    root = archive.parent / "archive.zarr"
    files = [(archive / f"{part}.nc").as_uri() for part in range(2)]
    report = write_hierarchy(root, read_files(files), inline_below=0)
    assert report.refused == []
    return archive.parent


def sst(location: object, allow: list[str] | dict[str, zm.Access]) -> list[list[float]]:
    """The values of the hierarchy at a location, which are those of the files."""
    store = zm.ManifestStore(location, allow=allow, read_only=True)  # type: ignore[arg-type]
    with xr.open_zarr(store, consolidated=None) as opened:
        values: list[list[float]] = opened.sst.values.tolist()
    return values


def test_no_path_is_absolute(together: Path) -> None:
    metadata = json.loads((together / "archive.zarr" / "sst" / "zarr.json").read_text())
    assert metadata["storage_transformers"][0]["configuration"]["base"] == "../"
    (document,) = (together / "archive.zarr" / "sst").glob("manifest*.json")
    paths = {entry["path"] for entry in json.loads(document.read_text()).values()}
    assert paths == {"../archive/0.nc", "../archive/1.nc"}


def test_local(together: Path) -> None:
    moved = together.with_name("second")
    together.rename(moved)
    archive = f"{moved.as_uri()}/archive/"
    root = moved / "archive.zarr"
    assert [each.prefix for each in zm.ManifestStore(root).locations() if each.prefix] == [archive]
    with pytest.raises(zm.errors.LocationNotAllowedError, match=archive):
        sst(root, [])
    assert sst(root, [archive]) == DAYS.tolist()


def test_an_array_that_is_opened_directly(together: Path) -> None:
    archive = str(together / "archive")
    store = zm.ManifestStore(together / "archive.zarr" / "sst", allow=[archive], read_only=True)
    assert zarr.open_array(store, mode="r")[:].tolist() == DAYS.tolist()


@pytest.mark.servers
def test_a_web_server(together: Path) -> None:
    with FileServer() as server:
        for path in (path for path in together.rglob("*") if path.is_file()):
            name = f"data/{path.relative_to(together).as_posix()}"
            modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
            server.put(name, path.read_bytes(), last_modified=modified)
        root, archive = f"{server.url}/data/archive.zarr", f"{server.url}/data/archive/"
        with pytest.raises(zm.errors.LocationNotAllowedError, match=archive):
            sst(root, [])
        assert sst(root, [archive]) == DAYS.tolist()


@pytest.mark.servers
def test_a_bucket(together: Path, s3_server: S3Server, s3_bucket: str) -> None:
    for path in (path for path in together.rglob("*") if path.is_file()):
        name = path.relative_to(together).as_posix()
        s3_server.put(s3_bucket, name, path.read_bytes())
    root = S3Store.from_url(f"s3://{s3_bucket}/archive.zarr", **s3_server.options)
    bucket = S3Store.from_url(f"s3://{s3_bucket}", **s3_server.options)
    archive = f"s3://{s3_bucket}/archive/"
    with pytest.raises(zm.errors.LocationNotAllowedError, match=archive):
        sst(root, [])
    # A copy is younger than what the entries record, which `refresh` would record anew.
    store = zm.ManifestStore(root, allow={archive: bucket}, conditions="ignore", read_only=True)
    assert xr.open_zarr(store).sst.values.tolist() == DAYS.tolist()


def test_a_hierarchy_without_a_url(together: Path, tmp_path: Path) -> None:
    root = together / "archive.zarr"
    with zipfile.ZipFile(tmp_path / "h.zip", "w") as zipped:
        for path in root.rglob("*.json"):
            zipped.write(path, path.relative_to(root))
    with pytest.raises(zm.errors.InvalidPathError, match="has no URL"):
        sst(ZipStore(tmp_path / "h.zip", mode="r"), ["file:///"])
