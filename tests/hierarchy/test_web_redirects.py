"""Redirects below a hierarchy's own URL, and by the access of what covers their target."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import zarr

import zarr_manifest as zm
from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import FileServer, redirect
from tests.untrusted_manifests import RAW, VALUES, declare, read, refused


@pytest.fixture
def root(tmp_path: Path) -> Path:
    zarr.create_group(tmp_path / "data.zarr")
    return tmp_path / "data.zarr"


def serve(root: Path, server: FileServer) -> str:
    for file in root.rglob("*"):
        if file.is_file():
            server.put(f"data.zarr/{file.relative_to(root)}", file.read_bytes())
    shutil.rmtree(root)
    return f"{server.url}/data.zarr"


def allowed(*urls: str, **headers: str) -> dict[str, Any]:
    client = {"default_headers": headers}
    return {url: zm.anonymous(retry_config=NO_RETRIES, client_options=client) for url in urls}


def test_an_absolute_source_may_redirect_into_the_hierarchy(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    declare(root, f"{second_http_server.url}/x/f.bin")
    (root / "f.bin").write_bytes(RAW)
    url = serve(root, http_server)
    http_server.put("data.zarr2/f.bin", RAW)
    allow = allowed(f"{second_http_server.url}/x/")
    second_http_server.script("x/f.bin", redirect(f"{url}/f.bin"), sticky=True)
    assert read(url, allow=allow) == VALUES
    second_http_server.script("x/f.bin", redirect(f"{url}2/f.bin"), sticky=True)
    refused(url, allow=allow)
    assert not [request for request in http_server.requests if "zarr2" in request.target]


def test_the_longest_prefix_decides_how_a_target_is_read(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    """The headers of an access are sent where it leads to, and nowhere else."""
    second_http_server.put("y/z/f.bin", RAW)
    declare(root, "../f.bin", "../g.bin", "../h.bin")
    url = serve(root, http_server)
    for name, target in (
        ("f.bin", f"{url}/inner/f.bin"),
        ("g.bin", f"{url}/moved/g.bin"),
        ("h.bin", f"{second_http_server.url}/y/z/f.bin"),
    ):
        http_server.script(f"data.zarr/{name}", redirect(target), sticky=True)
    for path in ("data.zarr/inner/f.bin", "data.zarr/moved/g.bin"):
        http_server.put(path, RAW)
    second = second_http_server.url
    allow = {
        **allowed(url, token="of-the-hierarchy"),
        **allowed(f"{url}/inner/", token="of-the-inner"),
        **allowed(http_server.url, token="of-the-server"),
        **allowed(second, token="of-the-second"),
        **allowed(f"{second}/y/", token="of-y"),
    }
    assert read(url, allow=allow) == VALUES * 3
    sent = {
        request.target.rpartition("/")[0]: request.headers["token"]
        for request in (*http_server.requests, *second_http_server.requests)
    }
    assert sent == {
        "/data.zarr": "of-the-hierarchy",
        "/data.zarr/a": "of-the-hierarchy",
        "/data.zarr/moved": "of-the-hierarchy",
        "/data.zarr/inner": "of-the-inner",
        "/y/z": "of-y",
    }


def test_a_target_in_the_hierarchy_may_have_a_query_of_its_own(
    root: Path, http_server: FileServer
) -> None:
    declare(root, "../f.bin")
    url = serve(root, http_server)
    http_server.put("data.zarr/moved/f.bin", RAW)
    http_server.script("data.zarr/f.bin", redirect("moved/f.bin?sig=a%2fb"), sticky=True)
    assert read(f"{url}?token=secret") == VALUES
    targets = {r.target for r in http_server.requests if "moved" in r.target}
    assert targets == {"/data.zarr/moved/f.bin?sig=a%2fb"}


@pytest.mark.parametrize("length", [5, 6])
def test_the_longest_chain(root: Path, http_server: FileServer, length: int) -> None:
    declare(root, f"{http_server.url}/0")
    http_server.put(str(length), RAW)
    for i in range(length):
        http_server.script(str(i), redirect(f"/{i + 1}"), sticky=True)
    if length == 5:
        assert read(root, allow=allowed(http_server.url)) == VALUES
    else:
        error = refused(root, zm.errors.SourceError, allow=allowed(http_server.url))
        assert "more than 5 times" in error.problem


def test_a_refused_target_is_named_without_its_query(
    root: Path, http_server: FileServer, second_http_server: FileServer
) -> None:
    declare(root, f"{http_server.url}/f.bin")
    target = f"{second_http_server.url}/y/"
    http_server.script("f.bin", redirect(f"{target}f.bin?sig=secret"), sticky=True)
    error = refused(root, allow=allowed(http_server.url))
    assert error.problem == f"the location redirects to one below {target}, which is not authorised"
    assert target in str(error.remedy)
