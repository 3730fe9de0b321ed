"""Sources that are not in the recorded state: what is refused, and what is ignored."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import zarr_manifest as zm
from tests.hierarchies import split_into_source, write_manifest_array
from tests.servers.http_files import FileServer
from tests.servers.s3 import S3Server
from zarr_manifest.errors import SourceChangedError

VALUES = np.arange(8, dtype="<i4")
MANIFEST, SOURCE = split_into_source(VALUES, (4,), path="x")
LONG_AGO = "1999-12-31T23:59:59Z"


def hierarchy(root: Path, path: str, **conditions: Any) -> Path:
    entries = {key: {**entry, "path": path, **conditions} for key, entry in MANIFEST.items()}
    zarr.create_group(root)
    write_manifest_array(root, "x", VALUES, (4,), entries, dimension_names=["t"])
    return root


def read(root: Path, **settings: Any) -> Any:
    return zarr.open_group(zm.ManifestStore(root, **settings), mode="r")["x"][:]


@pytest.mark.slow
def test_a_changed_file_is_read_only_where_conditions_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(SOURCE)
    url = (tmp_path / "x.bin").as_uri()
    root = hierarchy(tmp_path / "h", url, size=len(SOURCE), last_modified=LONG_AGO)
    allow = [f"file://{tmp_path}/"]
    with pytest.raises(SourceChangedError, match="its size is the same, but it was last") as found:
        read(root, allow=allow)
    assert "conditions='ignore'" in str(found.value)
    ignoring: dict[str, Any] = {"allow": allow, "conditions": "ignore"}
    np.testing.assert_array_equal(read(root, **ignoring), VALUES)
    store = pickle.loads(pickle.dumps(zm.ManifestStore(root, **ignoring)))
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["x"][:], VALUES)
    with zm.enable(**ignoring):
        np.testing.assert_array_equal(zarr.open_group(root, mode="r")["x"][:], VALUES)
    options: dict[str, Any] = {"engine": "zarr-manifest", "consolidated": False}
    with xr.open_dataset(root, **options, **ignoring) as dataset:
        np.testing.assert_array_equal(dataset["x"], VALUES)
    with (
        xr.open_dataset(root, **options, allow=allow) as dataset,
        pytest.raises(SourceChangedError, match="its size is the same"),
    ):
        dataset["x"].load()


def test_ignoring_conditions_does_not_ignore_what_is_missing_or_short(tmp_path: Path) -> None:
    root = hierarchy(tmp_path / "h", "x.bin", size=len(SOURCE))
    with pytest.raises(zm.errors.SourceNotFoundError):
        read(root, conditions="ignore")
    (root / "x" / "x.bin").write_bytes(SOURCE[:-1])
    with pytest.raises(zm.errors.RangeOutOfBoundsError):
        read(root, conditions="ignore")


def test_only_two_values_are_known(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="conditions must be 'check' or 'ignore', not 'no'"):
        zm.ManifestStore(tmp_path, conditions="no")  # type: ignore[arg-type]


def test_a_copy_on_a_web_server_with_the_same_tag(tmp_path: Path, http_server: FileServer) -> None:
    etag = http_server.put("x.bin", SOURCE)
    stated = {"etag": etag, "last_modified": LONG_AGO, "size": len(SOURCE)}
    root = hierarchy(tmp_path / "h", f"{http_server.url}/x.bin", **stated)
    np.testing.assert_array_equal(read(root, allow=[http_server.url]), VALUES)
    http_server.put("x.bin", SOURCE[::-1])
    with pytest.raises(SourceChangedError, match="its etag is"):
        read(root, allow=[http_server.url])
    found = read(root, allow=[http_server.url], conditions="ignore")
    np.testing.assert_array_equal(found, np.frombuffer(SOURCE[::-1], "<i4"))


def test_versions_are_read_although_conditions_are_ignored(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    s3_server.enable_versioning(s3_bucket)
    version = s3_server.put(s3_bucket, "x.bin", SOURCE)
    s3_server.put(s3_bucket, "x.bin", SOURCE[::-1])
    stated = {"version": version, "etag": '"another"', "last_modified": LONG_AGO}
    root = hierarchy(tmp_path / "h", f"s3://{s3_bucket}/x.bin", **stated)
    allow = {f"s3://{s3_bucket}/": s3_server.options}
    with pytest.raises(SourceChangedError, match="its etag is"):
        read(root, allow=allow)
    np.testing.assert_array_equal(read(root, allow=allow, conditions="ignore"), VALUES)
