"""A hierarchy on a web server that is read through fsspec, whose client decodes URLs once more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, WrapperStore

import zarr_manifest as zm
from tests.servers.http_files import FileServer, status
from tests.untrusted_manifests import RAW, VALUES, declare, read, refused

pytest.importorskip("aiohttp")


@pytest.fixture
def store(root: Path, http_server: FileServer) -> Iterator[Any]:
    """A reader of what is in the directory when something is first read."""
    from fsspec.implementations.http import HTTPFileSystem

    file_system = HTTPFileSystem(asynchronous=True, skip_instance_cache=True)
    yield WrapperStore(FsspecStore(file_system, path=f"{http_server.url}/h", read_only=True))
    if file_system._session is not None:
        sync(file_system._session.close())


def publish(root: Path, server: FileServer) -> None:
    for path in root.rglob("*"):
        if path.is_file():
            server.put(f"h/{path.relative_to(root).as_posix()}", path.read_bytes())
    server.put("other.bin", bytes(len(RAW)))
    server.put("h/other.bin", bytes(len(RAW)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    zarr.create_group(tmp_path / "h")
    return tmp_path / "h"


@pytest.mark.parametrize(
    "name",
    [
        "%2e%2e/%2e%2e/other.bin",
        "..%2f..%2fother.bin",
        "f?x.bin",
        "f#x.bin",
        "f b.bin",
        "f+é.bin",
    ],
)
def test_the_object_that_is_named_is_the_one_that_is_read(
    store: Any, root: Path, http_server: FileServer, name: str
) -> None:
    declare(root, f"../raw/{quote(name)}")
    publish(root, http_server)
    refused(store, zm.errors.SourceNotFoundError)
    asked = {request.target for request in http_server.requests}
    assert f"/h/raw/{quote(name)}" in asked
    assert not [target for target in asked if "other" in target and "raw" not in target]
    http_server.put(f"h/raw/{name}", RAW)
    assert read(store) == VALUES


def test_keys_of_nodes_are_names_too(store: Any, root: Path, http_server: FileServer) -> None:
    publish(root, http_server)
    reader = zm.ManifestStore(store)
    for key in ("%2e%2e/other.bin", "a/%2e%2e/%2e%2e/other.bin", "zarr.json?x", "zarr.json#x"):
        assert sync(reader.get(key, default_buffer_prototype())) is None
        assert http_server.requests[-1].target == f"/h/{quote(key)}"
        assert not sync(reader.exists(key))
        assert http_server.requests[-1].target == f"/h/{quote(key)}"
    http_server.put("h/my array/zarr.json", b"{}")
    found = sync(reader.get("my array/zarr.json", default_buffer_prototype()))
    assert found is not None


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (403, zm.errors.SourceAccessDeniedError),
        (405, zm.errors.SourceError),
        (410, zm.errors.SourceNotFoundError),
    ],
)
def test_statuses(
    store: Any, root: Path, http_server: FileServer, code: int, expected: type[zm.ManifestError]
) -> None:
    declare(root, "../f.bin")
    publish(root, http_server)
    http_server.script("h/f.bin", status(code), sticky=True)
    refused(store, expected)
