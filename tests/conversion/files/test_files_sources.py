"""Where files are: names, servers, the state that is recorded, and checksums."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from tests.conversion.files.converted_files import IGNORED_WARNINGS, convert, same
from tests.hierarchies import files_below
from tests.servers.http_files import FileServer
from tests.servers.s3 import S3Server
from zarr_manifest import ManifestStore
from zarr_manifest.conversion import ArrayNode, read_files, write_hierarchy
from zarr_manifest.conversion.files import FileSources, file_url
from zarr_manifest.errors import (
    ChecksumMismatchError,
    LocationNotAllowedError,
    SourceAccessDeniedError,
    SourceChangedError,
    SourceError,
    SourceNotFoundError,
    UnsupportedChecksumError,
)
from zarr_manifest.format import compute_checksum

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

VALUES = np.arange(40, dtype="<i4")


def hdf5_bytes() -> bytes:
    body = io.BytesIO()
    with h5py.File(body, "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(7,), compression="gzip")
        file["whole"] = VALUES
        file["text"] = ["a", "bc"]
    return body.getvalue()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "f.h5").write_bytes(hdf5_bytes())
    return tmp_path / "f.h5"


def array(nodes: Any, path: str = "x") -> ArrayNode:
    (found,) = [node for node in nodes if isinstance(node, ArrayNode) and node.path == path]
    return found


# ------------------------------------------------------------ names


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a b.h5", "100%.h5", "50%25.h5", "é#?&+.h5", "[1]:x.h5"])
def test_any_name_of_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(hdf5_bytes())
    found = convert([tmp_path / name], tmp_path / "h.zarr")
    assert same(found.arrays["x"][...], VALUES)
    assert same(found.arrays["text"][...], ["a", "bc"])
    again = convert(file_url(tmp_path / name), tmp_path / "again.zarr")
    assert same(again.arrays["whole"][...], VALUES)
    both = convert([tmp_path / name] * 2, tmp_path / "both.zarr", concat_dim="n")
    assert same(both.arrays["x"][...], [VALUES, VALUES])


def test_relative_names_are_those_of_the_working_directory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    assert array(read_files("f.h5")).manifest.paths == (path.as_uri(),)


def test_files_that_lie_in_the_hierarchy_travel_with_it(tmp_path: Path) -> None:
    root = tmp_path / "h.zarr"
    (root / "raw").mkdir(parents=True)
    (root / "raw" / "f.h5").write_bytes(hdf5_bytes())
    write_hierarchy(root, read_files(root / "raw" / "f.h5"))
    root.rename(tmp_path / "moved.zarr")
    group = zarr.open_group(ManifestStore(tmp_path / "moved.zarr", read_only=True), mode="r")
    assert same(group["x"][...], VALUES)


# ------------------------------------------------------------ state


@pytest.mark.slow
def test_the_state_of_a_local_file_is_its_size_and_time(path: Path, tmp_path: Path) -> None:
    reference = array(read_files(path)).manifest[0,]
    assert reference.conditions.last_modified is not None
    assert int(reference.conditions.last_modified.timestamp()) == int(path.stat().st_mtime)
    assert reference.conditions.size == path.stat().st_size
    assert reference.conditions.etag is None
    found = convert(path, tmp_path / "h.zarr")
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime + 10))
    with pytest.raises(SourceChangedError, match="its size is the same, but it was last modified"):
        found.arrays["x"][...]
    path.write_bytes(path.read_bytes() + b"\0")
    os.utime(path, (0, 0))
    with pytest.raises(SourceChangedError, match=r"its size is [\d,]+ bytes, the manifest says"):
        found.arrays["x"][...]
    plain = array(read_files(path, record_conditions=False)).manifest[0,]
    assert not plain.conditions


def test_the_state_of_an_object_is_its_entity_tag(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    s3_server.put(s3_bucket, "a b/f.h5", hdf5_bytes())
    allow = {f"s3://{s3_bucket}": s3_server.options}
    url = f"s3://{s3_bucket}/a%20b/f.h5"
    nodes = list(read_files(url, allow=allow, checksum="crc32c"))
    reference = array(nodes).manifest[0,]
    assert reference.path == url
    assert reference.conditions.etag is not None
    assert reference.conditions.last_modified is None  # it would not count
    assert reference.conditions.size == len(hdf5_bytes())
    write_hierarchy(tmp_path / "h.zarr", nodes)
    store = ManifestStore(tmp_path / "h.zarr", allow=allow, read_only=True)
    assert same(zarr.open_group(store, mode="r")["x"][...], VALUES)
    s3_server.put(s3_bucket, "a b/f.h5", hdf5_bytes())  # a copy: the same tag, another time
    store = ManifestStore(tmp_path / "h.zarr", allow=allow, read_only=True)
    assert same(zarr.open_group(store, mode="r")["x"][...], VALUES)
    # Credentials are for the prefix that they were given for.
    with pytest.raises(SourceAccessDeniedError):
        list(read_files(url, allow={f"s3://{s3_bucket}": s3_server.anonymous_options}))


def test_many_objects_and_a_zarr_hierarchy_in_a_bucket(
    tmp_path: Path, s3_server: S3Server, s3_bucket: str
) -> None:
    allow = {f"s3://{s3_bucket}": s3_server.options}
    for number in range(2):
        s3_server.put(s3_bucket, f"{number}.h5", hdf5_bytes())
    source = zarr.create_group(tmp_path / "source.zarr")
    source.create_array("x", shape=(8,), chunks=(3,), dtype="i4")[...] = np.arange(8)
    for item in (tmp_path / "source.zarr").rglob("*"):
        if item.is_file():
            s3_server.put(s3_bucket, f"z/{item.relative_to(tmp_path)}", item.read_bytes())
    urls = [f"s3://{s3_bucket}/{number}.h5" for number in range(2)]
    write_hierarchy(tmp_path / "h.zarr", read_files(urls, concat_dim="n", allow=allow))
    url = f"s3://{s3_bucket}/z/source.zarr"
    nodes = list(read_files(url, allow=allow))
    assert array(nodes).manifest[0,].conditions.etag is not None
    write_hierarchy(tmp_path / "z.zarr", nodes)
    for name, expected in {"h.zarr": [VALUES, VALUES], "z.zarr": np.arange(8)}.items():
        store = ManifestStore(tmp_path / name, allow=allow, read_only=True)
        assert same(zarr.open_group(store, mode="r")["x"][...], expected)


def test_files_on_a_web_server(tmp_path: Path, http_server: FileServer) -> None:
    http_server.put("data/f.h5", hdf5_bytes())
    url = f"{http_server.url}/data/f.h5"
    nodes = list(read_files(url))
    assert array(nodes).manifest[0,].conditions.etag is not None
    write_hierarchy(tmp_path / "h.zarr", nodes)
    store = ManifestStore(tmp_path / "h.zarr", allow=[http_server.url], read_only=True)
    assert same(zarr.open_group(store, mode="r")["x"][...], VALUES)
    with pytest.raises(SourceNotFoundError):
        list(read_files(f"{http_server.url}/data/g.h5"))


def test_sources_are_pickled_without_their_clients() -> None:
    sources = FileSources({"s3://b": {"region": "eu-west-1"}})
    sources.resolve("file:///f.nc")
    again = pickle.loads(pickle.dumps(sources))
    assert again.map == {"s3://b": {"region": "eu-west-1"}}
    assert again.resolve("file:///a%20b")[1] == "a b"


# ------------------------------------------------------------ checksums


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["crc32c", "sha256", "md5"])
def test_checksums_of_all_chunks_are_computed(path: Path, tmp_path: Path, algorithm: str) -> None:
    found = array(read_files(path, checksum=algorithm)).manifest
    body = path.read_bytes()
    assert len(found) == 6
    for index in found:
        reference = found[index]
        assert reference.length is not None
        chunk = body[reference.offset : reference.offset + reference.length]
        assert reference.checksum == compute_checksum(algorithm, chunk)
    # Those of many files too.
    many = array(read_files([path] * 2, concat_dim="n", checksum=algorithm)).manifest
    assert {reference.checksum for _, reference in many.items()} == {
        reference.checksum for _, reference in found.items()
    }


@pytest.mark.slow
def test_a_checksum_finds_a_flipped_bit(path: Path, tmp_path: Path) -> None:
    found = convert(path, tmp_path / "h.zarr", checksum="crc32c", record_conditions=False)
    assert same(found.arrays["whole"][...], VALUES)
    offset = array(read_files(path), "whole").manifest[0,].offset
    body = bytearray(path.read_bytes())
    body[offset] ^= 1
    path.write_bytes(body)
    with pytest.raises(ChecksumMismatchError):
        found.arrays["whole"][...]


def test_an_unknown_checksum_is_an_error_before_anything_is_read() -> None:
    with pytest.raises(UnsupportedChecksumError):
        read_files("nowhere.nc", checksum="crc64")


# ------------------------------------------------------------ Zarr hierarchies


@pytest.mark.parametrize("names", [["nowhere.zarr"], ["nowhere.zarr", "nowhere.zarr"]])
def test_a_zarr_hierarchy_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for combined in ({}, {"concat_dim": "x"}):
        with pytest.raises(SourceNotFoundError, match="there is no Zarr") as caught:
            write_hierarchy("x.zarr", read_files(names, format="zarr3", **combined))
        assert caught.value.location == (tmp_path / "nowhere.zarr").as_uri()
        assert caught.value.remedy is not None
    (tmp_path / "nowhere.zarr").mkdir()
    with pytest.raises(SourceNotFoundError, match="there is no Zarr hierarchy"):
        list(read_files(names, format="zarr3"))
    assert files_below(tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_links_in_a_zarr_hierarchy_are_followed(tmp_path: Path, zarr_format: Any) -> None:
    root = zarr.create_group(tmp_path / "h.zarr", zarr_format=zarr_format)
    root.create_array("x", data=VALUES, chunks=10, compressors=None)
    (tmp_path / "h.zarr/x").rename(tmp_path / "elsewhere")
    (tmp_path / "h.zarr/x").symlink_to(tmp_path / "elsewhere")
    found = tmp_path / "new.zarr"
    assert write_hierarchy(found, read_files(tmp_path / "h.zarr")).refused == []
    store = ManifestStore(found, allow=[tmp_path / "h.zarr"])
    with pytest.raises(LocationNotAllowedError, match="authorise that, by its own path"):
        zarr.open_array(store, path="x", mode="r")[...]
    other = [[tmp_path / "elsewhere"], [tmp_path / "h.zarr/x"], [tmp_path]]
    for allow in ([tmp_path / "h.zarr", *more] for more in other):
        store = ManifestStore(found, allow=allow)
        assert same(zarr.open_array(store, path="x", mode="r")[...], VALUES)


@pytest.mark.parametrize("count", [1, 2])
def test_a_zarr_hierarchy_that_cannot_be_listed(
    tmp_path: Path, http_server: FileServer, count: int
) -> None:
    zarr.create_array(tmp_path / "h.zarr", shape=2, dtype="u1")
    http_server.put("h.zarr/zarr.json", (tmp_path / "h.zarr/zarr.json").read_bytes())
    url = f"{http_server.url}/h.zarr"
    with pytest.raises(SourceError, match="the store cannot be listed") as caught:
        list(read_files([url] * count))
    assert caught.value.location == url
