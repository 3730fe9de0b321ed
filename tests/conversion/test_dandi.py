"""Zarr manifests of the DANDI Archive: read as hierarchies of object versions."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
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

# An excerpt of a manifest that DANDI published, and the name of the Zarr that it is of.
THEIRS = Path(__file__).parent / "dandi" / "zarr_manifest.json"
ZARR_ID = "1284a14f-fe4f-4dc3-b10d-48e5db8bf18d"


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


def with_fields(document: dict[str, Any], fields: list[str]) -> dict[str, Any]:
    """Return a manifest that states less of each object."""

    def of(member: Any) -> Any:
        if isinstance(member, dict):
            return {name: of(each) for name, each in member.items()}
        return [member[FIELDS.index(name)] for name in fields]

    return {**document, "fields": fields, "entries": of(document["entries"])}


def padded_gzip(data: bytes, size: int) -> bytes:
    """Return data in the format of gzip, with a comment that gives it a size."""
    plain = gzip.compress(data)
    comment = b" " * (size - len(plain) - 1) + b"\0"
    return plain[:3] + b"\x10" + plain[4:10] + comment + plain[10:]


def objects_of_theirs() -> dict[str, tuple[list[Any], bytes]]:
    """Return what their document states of each object, and bytes of the size that it states."""
    document = json.loads(THEIRS.read_text())
    chunks = document["entries"]["0"]["0"]["0"]["13"]["8"]
    stated = {name: document["entries"][name] for name in (".zattrs", ".zgroup", ".zmetadata")}
    stated["0/.zarray"] = document["entries"]["0"][".zarray"]
    stated |= {f"0/0/0/13/8/{name}": state for name, state in chunks.items()}
    array = {
        "zarr_format": 2,
        "shape": [1, 1, 112, 72, 816],
        "chunks": [1, 1, 8, 8, 8],
        "dtype": "<u2",
        "compressor": {"id": "gzip", "level": 1},
        "fill_value": 0,
        "filters": None,
        "order": "C",
        "dimension_separator": "/",
    }
    metadata: dict[str, Any] = {".zgroup": {"zarr_format": 2}, ".zattrs": {"name": "theirs"}}
    metadata["0/.zarray"] = array
    metadata[".zmetadata"] = {"zarr_consolidated_format": 1, "metadata": dict(metadata)}
    bodies = {
        key: json.dumps(each).encode().ljust(stated[key][2]) for key, each in metadata.items()
    }
    for name, state in chunks.items():
        values = np.full(8**3, int(name), "<u2").tobytes()
        bodies[f"0/0/0/13/8/{name}"] = padded_gzip(values, state[2])
    return {key: (state, bodies[key]) for key, state in stated.items()}


@pytest.mark.parametrize("fields", [FIELDS, ["lastModified", "size"]], ids=len)
def test_a_manifest_of_theirs_is_a_snapshot(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str, fields: list[str]
) -> None:
    """Where there are no versions and tags, times say which state is meant."""
    s3_server.enable_versioning(s3_bucket)
    prefix = f"zarr/{ZARR_ID}"
    objects = objects_of_theirs()
    for key, (state, body) in objects.items():
        version, time, size, etag = state
        assert len(body) == size
        s3_server.put(s3_bucket, f"{prefix}/{key}", body)
        when = datetime.fromisoformat(time)
        s3_server.restate(
            s3_bucket, f"{prefix}/{key}", version=version, etag=etag, last_modified=when
        )
    state_file = THEIRS
    if fields != FIELDS:
        state_file = tmp_path / "fewer.json"
        state_file.write_text(json.dumps(with_fields(json.loads(THEIRS.read_text()), fields)))

    url, allow = f"s3://{s3_bucket}/{prefix}/", {f"s3://{s3_bucket}/": s3_server.options}
    report = write_hierarchy(
        tmp_path / "snapshot.zarr", read_dandi(state_file, url=url, allow=allow)
    )
    assert (report.arrays, report.references, report.refused) == (1, 2, [])
    root = zarr.open_group(zm.ManifestStore(tmp_path / "snapshot.zarr", allow=allow), mode="r")
    assert dict(root.attrs) == {"name": "theirs"}
    assert [path for path, _ in root.members(max_depth=None)] == ["0"]
    array: Any = root["0"]
    for number in (100, 101):
        key = f"0/0/0/13/8/{number}"
        version, time, size, etag = objects[key][0]
        stated = {"version": version, "etag": f'"{etag}"'}
        if fields != FIELDS:
            stated = {"last_modified": time.replace("+00:00", "Z")}
        entry = zm.entries(array)[0, 0, 13, 8, number]
        expected = {"path": f"{url}{key}", "offset": 0, "length": size, "size": size, **stated}
        assert dict(entry) == expected
        assert np.all(array[0, 0, 104:, 64:, 8 * number : 8 * (number + 1)] == number)
    assert len(zm.entries(array)) == 2


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
