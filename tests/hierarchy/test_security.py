"""A manifest is untrusted: what it may make a reader read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import obstore as obs
import obstore.store
import pytest
import zarr

import zarr_manifest as zm
from tests.servers.http_files import FileServer
from tests.untrusted_manifests import RAW, VALUES, declare, read, refused, suggested


@pytest.fixture
def root(tmp_path: Path) -> Path:
    zarr.create_group(tmp_path / "data.zarr")
    return tmp_path / "data.zarr"


# ---------------------------------------------------------------- the allow-list


def test_one_error_lists_all_that_is_missing(
    root: Path, tmp_path: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    outside = tmp_path / "out side"
    outside.mkdir()
    (outside / "f.bin").write_bytes(RAW)
    for server in (http_server, second_http_server):
        server.put("d/x/f.bin", RAW)
        server.put("d/y/g.bin", RAW)
    paths = [
        f"{server.url}/d/{name}"
        for server in (http_server, second_http_server)
        for name in ("x/f.bin", "y/g.bin")
    ]
    declare(root, *paths, (outside / "f.bin").as_uri())
    error = refused(root)
    assert http_server.requests == second_http_server.requests == []
    prefixes = suggested(error)
    assert sorted(prefixes) == sorted(
        [f"{http_server.url}/d/", f"{second_http_server.url}/d/", f"{outside.as_uri()}/"]
    )
    # One prefix less is not enough, even for the chunks that lie below the others.
    for missing in prefixes:
        again = refused(root, allow=[p for p in prefixes if p != missing])
        assert suggested(again) == [missing]
    assert read(root, allow=prefixes) == VALUES * 5


def test_the_error_is_the_same_for_one_chunk(root: Path, http_server: FileServer) -> None:
    declare(root, f"{http_server.url}/d/f.bin", f"{http_server.url}/e/f.bin")
    array = zarr.open_array(zm.ManifestStore(root), path="a", mode="r")
    with pytest.raises(zm.errors.LocationNotAllowedError) as raised:
        array[:8]
    assert suggested(raised.value) == [f"{http_server.url}/"]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that nobody authorised, with a file."""
    directory = tmp_path / "private"
    directory.mkdir()
    (directory / "f.bin").write_bytes(RAW)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "store"])
def test_a_path_of_very_many_directories(root: Path, kind: str) -> None:
    """Each would be looked at, in a time quadratic in their number."""
    declare(root, ("file:///" if kind == "file" else "") + "a/" * 200_000 + "f")
    limits = zm.Limits(path_length=1_000_000)
    refused(root, zm.errors.SourceNotFoundError, allow=["file:///"], limits=limits)


# ---------------------------------------------------------------- stores of the reader's own


@pytest.mark.parametrize("below", ["", "/d/"])
def test_an_http_store(root: Path, http_server: FileServer, below: str) -> None:
    http_server.put("d/f.bin", RAW)
    declare(root, f"{http_server.url}/d/f.bin")
    store = obstore.store.HTTPStore(
        http_server.url + below.rstrip("/"), client_options={"allow_http": True}
    )
    assert read(root, allow={http_server.url + below: store}) == VALUES
    assert {r.target for r in http_server.requests} == {"/d/f.bin"}


def test_a_memory_store(root: Path) -> None:
    store = obstore.store.MemoryStore()
    obs.put(store, "d/f.bin", RAW)
    declare(root, "s3://anything/d/f.bin")
    assert read(root, allow={"s3://anything/": store}) == VALUES


def test_a_local_store(root: Path, outside: Path) -> None:
    declare(root, (outside / "f.bin").as_uri())
    for store in (obstore.store.LocalStore("/"), obstore.store.LocalStore(outside)):
        assert read(root, allow={outside.as_uri(): store}) == VALUES


@pytest.mark.parametrize("below", ["", "/other"])
def test_a_store_of_the_same_disk_is_rooted_where_it_is(
    root: Path, outside: Path, below: str
) -> None:
    """Rooted above the prefix or at it, keys go on from there; elsewhere, it is a copy."""
    for directory in ("d/sub", "other/sub"):
        (outside / directory).mkdir(parents=True)
    (outside / "d" / "sub" / "f.bin").write_bytes(RAW)
    (outside / "other" / "sub" / "f.bin").write_bytes(RAW)
    declare(root, (outside / "d" / "sub" / "f.bin").as_uri())
    store = obstore.store.LocalStore(f"{outside}{below}")
    assert read(root, allow={(outside / "d").as_uri(): store}) == VALUES


def test_a_store_rooted_below_its_prefix_reads_nothing_else(root: Path, outside: Path) -> None:
    (outside / "d").mkdir()
    (outside / "d" / "f.bin").write_bytes(bytes(len(RAW)))
    declare(root, (outside / "f.bin").as_uri())
    allow = {outside.as_uri(): obstore.store.LocalStore(outside / "d")}
    assert "rooted at" in refused(root, zm.errors.SourceError, allow=allow).problem
    declare(root, (outside / "d" / "f.bin").as_uri(), name="b")
    array = zarr.open_array(zm.ManifestStore(root, allow=allow), path="b", mode="r")
    assert not np.asarray(array[:]).any()


@pytest.mark.parametrize("kind", ["http", "memory"])
def test_a_store_that_would_drop_the_query(root: Path, http_server: FileServer, kind: str) -> None:
    """Two queries may name two objects."""
    http_server.put("f.bin", RAW)
    stores: dict[str, Any] = {
        "http": obstore.store.HTTPStore(http_server.url, client_options={"allow_http": True}),
        "memory": obstore.store.MemoryStore(),
    }
    declare(root, f"{http_server.url}/f.bin?token=SECRET")
    error = refused(root, zm.errors.SourceError, allow={http_server.url: stores[kind]})
    assert "query" in error.problem
    assert http_server.requests == []


# ---------------------------------------------------------------- looking before trusting


def test_locations_read_nothing_and_need_nothing(root: Path, http_server: FileServer) -> None:
    (root / "f.bin").write_bytes(RAW)
    url = http_server.url
    declare(root, f"{url}/d/f.bin", f"{url}/d/g.bin", "s3://b/x.bin", "../f.bin")
    declare(root, f"{url}/d/f.bin?sig=SECRET", name="b")
    found = zm.ManifestStore(root, allow=[f"{url}/d/"]).locations()
    assert http_server.requests == []
    assert "SECRET" not in repr(found)
    by_prefix = {location.prefix: location for location in found}
    assert set(by_prefix) == {None, f"{url}/d/", "s3://b/"}
    assert [by_prefix[p].allowed for p in (None, f"{url}/d/", "s3://b/")] == [True, True, False]
    assert by_prefix[f"{url}/d/"].references == 3
    assert by_prefix["s3://b/"].nbytes == 8
    assert by_prefix[None].objects == 1


def test_what_locations_suggest_is_enough(root: Path, outside: Path) -> None:
    declare(root, (outside / "f.bin").as_uri())
    prefixes = [found.prefix for found in zm.ManifestStore(root).locations()]
    assert read(root, allow=[p for p in prefixes if p is not None]) == VALUES


def test_a_pickled_store_keeps_its_allow_list(root: Path, http_server: FileServer) -> None:
    http_server.put("d/f.bin", RAW)
    declare(root, f"{http_server.url}/d/f.bin")
    closed = pickle.loads(pickle.dumps(zm.ManifestStore(root)))
    refused(closed)
    assert http_server.requests == []
    allowed = pickle.loads(pickle.dumps(zm.ManifestStore(root, allow=[http_server.url])))
    assert read(allowed) == VALUES


@pytest.mark.parametrize("allow", ["s3://b/", Path("/data"), ["data"]])
def test_allow_is_checked_at_once(root: Path, allow: Any) -> None:
    with pytest.raises(ValueError, match=r"prefix"):
        zm.ManifestStore(root, allow=allow)


@pytest.mark.parametrize("access", ["s3://b/", 1, zarr.storage.MemoryStore()])
def test_invalid_access_is_refused_at_once(root: Path, access: Any) -> None:
    with pytest.raises(TypeError, match=f"'s3://x/' is of type {type(access).__name__}"):
        zm.ManifestStore(root, allow={"s3://x/": access})
