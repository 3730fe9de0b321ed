"""Hierarchies, references and files that a server gives to nobody without credentials, by URL."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
import zarr
from obstore.store import MemoryStore, S3Store

import zarr_manifest as zm
from tests.command_line.commands import write_theirs
from tests.servers.http_files import Exchange, Fault, FileServer, Reply, status
from tests.servers.s3 import S3Server
from zarr_manifest import conversion

RAW = bytes(range(8))
DENIED = r"403|[Dd]enied"
ARRAY: dict[str, Any] = {"shape": 8, "chunks": 4, "dtype": "u1"}


class Bucket(NamedTuple):
    """A private bucket, with the source ``raw/f.bin``."""

    server: S3Server
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    @property
    def allow(self) -> dict[str, Any]:
        """Access with credentials."""
        return {f"{self.url}/": self.server.options}

    @property
    def anonymously(self) -> dict[str, Any]:
        """Access to the same server, without credentials."""
        return {f"{self.url}/": zm.anonymous(**self.server.location_options)}

    @property
    def entries(self) -> dict[str, Any]:
        path = f"{self.url}/raw/f.bin"
        return {f"{i}": {"path": path, "offset": 4 * i, "length": 4} for i in range(2)}

    def put(self, key: str, body: bytes) -> None:
        self.server.put(self.name, key, body)

    def read(self, key: str, path: str) -> Any:
        """Return the values of an array of a hierarchy."""
        store = zm.ManifestStore(f"{self.url}/{key}", allow=self.allow, read_only=True)
        return zarr.open_group(store, mode="r")[path][...]  # type: ignore[index]

    def requests_without_credentials(self) -> list[Any]:
        return [request for request in self.server.requests if not request.signed]


@pytest.fixture
def bucket(s3_server: S3Server, s3_bucket: str) -> Bucket:
    found = Bucket(s3_server, s3_bucket)
    found.put("raw/f.bin", RAW)
    return found


@pytest.fixture(params=["h.zarr", "a b/h.zarr"])
def url(bucket: Bucket, request: pytest.FixtureRequest) -> str:
    """Where a hierarchy may be written."""
    return f"{bucket.url}/{request.param.replace(' ', '%20')}"


# Authoring --------------------------------------------------------------------------------


def test_a_hierarchy_from_beginning_to_end(bucket: Bucket, url: str, tmp_path: Path) -> None:
    allow = bucket.allow
    zm.create_array(url, "g/a", {"0": bucket.entries["0"]}, **ARRAY, allow=allow)
    zm.write_manifest(url, "g/a", bucket.entries, codecs=["gzip"], allow=allow)
    with zm.edit(url, allow=allow) as group:
        group["g/a"].attrs["units"] = "K"
    again = zarr.open_group(zm.ManifestStore(url, allow=allow, read_only=True), mode="r")
    assert again["g/a"].attrs["units"] == "K"
    assert bytes(again["g/a"][...]) == RAW  # type: ignore[index]
    assert zm.validate(url, allow=allow) == []
    report = conversion.export_kerchunk_json(url, tmp_path / "refs.json", allow=allow)
    assert report.refused == []
    references = json.loads((tmp_path / "refs.json").read_text())["refs"]
    assert references["g/a/1"] == [f"{bucket.url}/raw/f.bin", 4, 4]
    assert json.loads(references["g/a/.zattrs"])["units"] == "K"
    assert bucket.requests_without_credentials() == []


def test_a_hierarchy_of_an_older_writer(bucket: Bucket, url: str, tmp_path: Path) -> None:
    """In a copy, and in place."""
    write_theirs(tmp_path)
    upload(tmp_path, bucket, "theirs.zarr")
    theirs = f"{bucket.url}/theirs.zarr"
    for report in (
        conversion.upgrade(theirs, target=url, allow=bucket.allow),
        conversion.upgrade(theirs, allow=bucket.allow),
    ):
        assert report.repaired == ["sst"]
    for location in (theirs, url):
        assert zm.validate(location, allow=bucket.allow) == []
    assert bucket.requests_without_credentials() == []


def test_nothing_is_written_without_credentials(bucket: Bucket, url: str) -> None:
    before = len(bucket.server.requests)
    for allow in (bucket.anonymously, bucket.anonymously | {f"{bucket.url}/raw": None}):
        with pytest.raises(Exception, match=DENIED):
            zm.create_array(url, "a", bucket.entries, **ARRAY, allow=allow)
        with pytest.raises(Exception, match=DENIED):
            conversion.write_hierarchy(url, [], allow=allow)
    made = bucket.server.requests[before:]
    assert made
    assert not any(request.signed for request in made)


def test_reading_without_credentials_is_denied(bucket: Bucket, http_server: FileServer) -> None:
    """Whichever way the store is asked: S3 refuses to list, a web server to answer."""
    url = f"{bucket.url}/h.zarr"
    zm.create_array(url, "a", bucket.entries, **ARRAY, allow=bucket.allow)
    for entry_point in (zm.contents, zm.validate):
        with pytest.raises(zm.errors.SourceAccessDeniedError) as raised:
            entry_point(url, allow=bucket.anonymously)
        assert "Give credentials" in str(raised.value)
    http_server.script("h.zarr/zarr.json", status(403, heads=True), sticky=True)
    with pytest.raises(zm.errors.SourceAccessDeniedError, match="Give credentials"):
        zm.validate(f"{http_server.url}/h.zarr")


def test_the_longest_prefix_says_how_a_location_is_accessed(bucket: Bucket) -> None:
    allow = bucket.anonymously | {f"{bucket.url}/h.zarr": bucket.server.options}
    zm.create_array(f"{bucket.url}/h.zarr", "a", bucket.entries, **ARRAY, allow=allow)
    with pytest.raises(Exception, match=DENIED):
        zm.create_array(f"{bucket.url}/h.zarr2", "a", bucket.entries, **ARRAY, allow=allow)


def test_credentials_of_the_environment(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing-secret")
    url = f"{bucket.url}/h.zarr"
    with pytest.raises(Exception, match=DENIED):
        zm.create_array(url, "a", bucket.entries, **ARRAY, allow=bucket.anonymously)
    allow = {f"{bucket.url}/": zm.environment(**bucket.server.location_options)}
    zm.create_array(url, "a", bucket.entries, **ARRAY, allow=allow)
    assert bytes(bucket.read("h.zarr", "a")) == RAW


def test_a_store_as_access(bucket: Bucket) -> None:
    """It stands for the location if it is rooted there."""
    url = f"{bucket.url}/h.zarr"
    there = S3Store.from_url(url, **bucket.server.options)
    zm.create_array(url, "a", bucket.entries, **ARRAY, allow={url: there})
    assert bytes(bucket.read("h.zarr", "a")) == RAW
    whole = S3Store.from_url(bucket.url, **bucket.server.options)
    with pytest.raises(ValueError, match="pass a store instead of the URL"):
        zm.create_array(url, "b", bucket.entries, **ARRAY, allow={bucket.url: whole})
    memory = MemoryStore()
    conversion.write_hierarchy("s3://nowhere/h.zarr", [], allow={"s3://nowhere/h.zarr": memory})
    assert [meta["path"] for batch in memory.list() for meta in batch] == ["zarr.json"]


# Conversion -------------------------------------------------------------------------------


def test_kerchunk_references(bucket: Bucket, url: str) -> None:
    zarray = {"zarr_format": 2, "shape": [8], "chunks": [4], "dtype": "|u1", "order": "C"}
    zarray |= {"fill_value": 0, "filters": None, "compressor": None}
    source = f"{bucket.url}/raw/f.bin"
    refs = {"a/.zarray": zarray, "a/0": [source, 0, 4], "a/1": [source, 4, 4]}
    bucket.put("a b/refs.json", json.dumps({"version": 1, "refs": refs}).encode())
    location = f"{bucket.url}/a%20b/refs.json"
    for read in (conversion.read_kerchunk, conversion.read_kerchunk_json):
        with pytest.raises(zm.errors.SourceAccessDeniedError, match=r"refs\.json"):
            read(location, allow=bucket.anonymously)
        nodes = read(location, allow=bucket.allow)
        conversion.write_hierarchy(url, nodes, overwrite=True, allow=bucket.allow)
    assert zm.validate(url, allow=bucket.allow) == []
    with pytest.raises(zm.errors.SourceNotFoundError, match="no such object"):
        conversion.read_kerchunk(f"{bucket.url}/missing.json", allow=bucket.allow)
    with pytest.raises(zm.errors.NotConvertibleError, match="local file system"):
        conversion.read_kerchunk(f"{bucket.url}/refs.parq", allow=bucket.allow)


def test_kerchunk_references_on_a_private_web_server(http_server: FileServer) -> None:
    def answer(exchange: Exchange) -> Reply:
        known = exchange.headers.get("authorization") == "Bearer secret"
        return exchange.normal() if known else Reply(401)

    http_server.put("d/refs.json", b'{".zgroup": {"zarr_format": 2}}')
    http_server.script("d/refs.json", Fault(answer, heads=True), sticky=True)
    location = f"{http_server.url}/d/refs.json"
    with pytest.raises(zm.errors.SourceAccessDeniedError):
        conversion.read_kerchunk(location)
    headers = {"default_headers": {"authorization": "Bearer secret"}}
    for prefix in (http_server.url, location):
        (root,) = conversion.read_kerchunk(location, allow={prefix: {"client_options": headers}})
        assert root.path == ""


def test_zarr_v2(bucket: Bucket, url: str, tmp_path: Path) -> None:
    old = zarr.create_group(tmp_path / "old.zarr", zarr_format=2)
    old.create_array("a", data=np.arange(8), chunks=(4,))
    upload(tmp_path / "old.zarr", bucket, "old.zarr")
    location = f"{bucket.url}/old.zarr"
    nodes = conversion.read_zarr2(location, allow=bucket.allow)
    conversion.write_hierarchy(url, nodes, allow=bucket.allow)
    store = zm.ManifestStore(url, allow=bucket.allow, read_only=True)
    assert store.locations()[0].prefix == f"{location}/a/"
    assert zarr.open_array(store, path="a", mode="r")[...].tolist() == list(range(8))
    assert bucket.requests_without_credentials() == []


def test_files(bucket: Bucket, url: str) -> None:
    body = io.BytesIO()
    with h5py.File(body, "w") as file:
        file["x"] = np.arange(5)
    for year in (2023, 2024):
        bucket.put(f"{year}.h5", body.getvalue())
    files = [f"{bucket.url}/{year}.h5" for year in (2023, 2024)]
    with pytest.raises(zm.errors.SourceAccessDeniedError):
        list(conversion.read_files(files[0], allow=bucket.anonymously))
    nodes = conversion.read_files(files, concat_dim="year", allow=bucket.allow)
    conversion.write_hierarchy(url, nodes, allow=bucket.allow)
    store = zm.ManifestStore(url, allow=bucket.allow, read_only=True)
    assert zarr.open_array(store, path="x", mode="r")[...].tolist() == [[0, 1, 2, 3, 4]] * 2
    assert zm.validate(url, allow=bucket.allow) == []


def test_zarr_in_a_bucket_through_a_store(bucket: Bucket, tmp_path: Path) -> None:
    """A store as access is rooted where it says, and not where the hierarchy is."""
    zarr.create_group(tmp_path / "old.zarr", zarr_format=2).create_array("a", data=np.arange(8))
    upload(tmp_path / "old.zarr", bucket, "old.zarr")
    location = f"{bucket.url}/old.zarr"
    there = S3Store.from_url(location, **bucket.server.options)
    nodes = conversion.read_files(location, allow={location: there})
    assert [node.path for node in nodes] == ["", "a"]
    whole = S3Store.from_url(bucket.url, **bucket.server.options)
    with pytest.raises(ValueError, match="pass a store instead of the URL"):
        list(conversion.read_files(location, allow={bucket.url: whole}))


def test_prefixes_of_files_in_a_list(http_server: FileServer, tmp_path: Path) -> None:
    """As everywhere: without credentials, and a path for a URL."""
    body = io.BytesIO()
    with h5py.File(body, "w") as file:
        file["x"] = np.arange(5)
    http_server.put("f.h5", body.getvalue())
    nodes = list(
        conversion.read_files(f"{http_server.url}/f.h5", allow=[http_server.url, tmp_path])
    )
    assert [node.path for node in nodes] == ["", "x"]


def upload(root: Path, bucket: Bucket, key: str) -> None:
    """Put the files of a hierarchy into a bucket."""
    for file in root.rglob("*"):
        if file.is_file():
            bucket.put(f"{key}/{file.relative_to(root)}", file.read_bytes())
