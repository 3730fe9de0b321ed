"""Zarr manifests of the DANDI Archive: read as hierarchies of object versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.command_line.commands import run
from tests.hierarchies import files_below
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import read_dandi, write_hierarchy

FIELDS = ["versionId", "lastModified", "size", "ETag"]


def upload(server: S3Server, bucket: str, root: Path) -> dict[str, Any]:
    """Store a directory below ``zarr/1/``, and return its manifest."""
    entries: dict[str, Any] = {}
    for key, body in files_below(root).items():
        version = server.put(bucket, f"zarr/1/{key}", body)
        meta = server.head(bucket, f"zarr/1/{key}")
        directory = entries
        *above, name = key.split("/")
        for each in above:
            directory = directory.setdefault(each, {})
        time = meta["LastModified"].isoformat()
        directory[name] = [version, time, len(body), meta["ETag"].strip('"')]
    return {"fields": FIELDS, "statistics": {"entries": len(entries)}, "entries": entries}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_state_that_it_describes_is_read(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str, zarr_format: Any
) -> None:
    """Also after all objects, metadata among them, have been overwritten."""
    s3_server.enable_versioning(s3_bucket)
    values = np.arange(12, dtype="i4").reshape(3, 4)
    for number in (0, 1):
        group = zarr.create_group(tmp_path / f"{number}.zarr", zarr_format=zarr_format)
        group.create_array("0", data=values + 100 * number, chunks=(2, 2)).attrs["n"] = number
    manifest = upload(s3_server, s3_bucket, tmp_path / "0.zarr")
    upload(s3_server, s3_bucket, tmp_path / "1.zarr")
    (tmp_path / "state.json").write_text(json.dumps(manifest))

    url, allow = f"s3://{s3_bucket}/zarr/1/", {f"s3://{s3_bucket}/": s3_server.options}
    nodes = read_dandi(tmp_path / "state.json", url=url, allow=allow)
    report = write_hierarchy(tmp_path / "snapshot.zarr", nodes)
    assert (report.references, report.refused) == (4, [])
    array: Any = zarr.open_group(zm.ManifestStore(tmp_path / "snapshot.zarr", allow=allow))["0"]
    np.testing.assert_array_equal(array[:], values)
    assert array.attrs["n"] == 0
    entry = zm.entries(array)[0, 0]
    stated = manifest["entries"]["0"]
    stated = stated["c"]["0"]["0"] if zarr_format == 3 else stated["0.0"]
    assert [entry["version"], entry["length"], entry["etag"]] == [
        stated[0],
        stated[2],
        f'"{stated[3]}"',
    ]


@pytest.mark.parametrize(
    "document",
    [
        "[]",
        '{"fields": ["size"]}',
        '{"fields": ["versionId"], "entries": {}}',
        '{"fields": ["size", "colour"], "entries": {}}',
        '{"fields": ["size"], "entries": {".zgroup": [1, 2]}}',
        '{"fields": ["size"], "entries": {".zgroup": ["a"]}}',
        '{"fields": ["size"], "entries": {".zgroup": 24}}',
        '{"fields": ["size", "lastModified"], "entries": {".zgroup": [1, "today"]}}',
    ],
)
def test_other_json_is_refused(tmp_path: Path, document: str) -> None:
    (tmp_path / "state.json").write_text(document)
    finished = run("import", "dandi", tmp_path / "state.json", tmp_path / "h", "--url", "s3://b/1")
    assert finished.status == 3
    assert "not a Zarr manifest of DANDI" in finished.stderr
    assert not (tmp_path / "h").exists()


def test_metadata_that_have_changed_are_refused(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "a.zarr", shape=4, chunks=2, dtype="i2", zarr_format=2)
    state = {"fields": ["size"], "entries": {".zarray": [7]}}
    (tmp_path / "state.json").write_text(json.dumps(state))
    url = (tmp_path / "a.zarr").as_uri()
    with pytest.raises(zm.errors.ManifestError, match=r"size|longer|changed"):
        list(read_dandi(tmp_path / "state.json", url=url))
    with pytest.raises(zm.errors.SourceNotFoundError, match="no such manifest"):
        list(read_dandi(tmp_path / "absent.json", url=url))
