"""Redirects that begin later, or happen where nobody asks: what is read is what was authorised."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import obstore.store
import pytest
import zarr

import zarr_manifest as zm
from tests.quick_retries import NO_RETRIES, QUICK
from tests.servers.http_files import FileServer, change, redirect, status, truncate
from tests.untrusted_manifests import RAW, VALUES, declare, read, refused, suggested
from zarr_manifest.locations import Base
from zarr_manifest.sources import SourceRange, Sources, in_own_loop, reader_of, within_host


@pytest.fixture
def root(tmp_path: Path) -> Path:
    zarr.create_group(tmp_path / "data.zarr")
    return tmp_path / "data.zarr"


def quickly(url: str) -> dict[str, Any]:
    return {url: zm.anonymous(retry_config=QUICK)}


# ---------------------------------------------------------------- that begin later


def test_redirect_of_a_repeated_request_to_another_host(
    root: Path, http_server: FileServer, other_host_server: FileServer
) -> None:
    """An authorised server that answers, but not to the end, and then redirects."""
    other_host_server.put("f.bin", RAW)
    http_server.put("d/f.bin", RAW)
    elsewhere = redirect(f"{other_host_server.url}/f.bin")
    http_server.script("d/f.bin", truncate(1), elsewhere, sticky=True)
    declare(root, f"{http_server.url}/d/f.bin")
    refused(root, allow=quickly(f"{http_server.url}/d/"))
    assert other_host_server.requests == []


@pytest.mark.parametrize("where", ["another port", "another path"])
def test_redirect_of_a_repeated_request_on_the_same_host(
    root: Path, http_server: FileServer, second_http_server: FileServer, where: str
) -> None:
    """It is not even requested."""
    server = second_http_server if where == "another port" else http_server
    server.put("secret.bin", RAW)
    http_server.put("d/f.bin", RAW)
    elsewhere = redirect(f"{server.url}/secret.bin")
    http_server.script("d/f.bin", truncate(1), elsewhere, sticky=True)
    declare(root, f"{http_server.url}/d/f.bin")
    refused(root, allow=quickly(f"{http_server.url}/d/"))
    assert not [request for request in server.requests if request.target == "/secret.bin"]


@pytest.mark.parametrize("where", ["another host", "another port", "another path"])
def test_redirect_that_begins_after_a_read(
    root: Path,
    http_server: FileServer,
    second_http_server: FileServer,
    other_host_server: FileServer,
    where: str,
) -> None:
    servers = {"another host": other_host_server, "another port": second_http_server}
    server = servers.get(where, http_server)
    # What it sends would be taken for the object: only where it is says that it is another.
    server.put("secret.bin", RAW)
    http_server.put("d/f.bin", RAW)
    declare(root, f"{http_server.url}/d/f.bin")
    store = zm.ManifestStore(root, allow=quickly(f"{http_server.url}/d/"))
    array: Any = zarr.open(store, mode="r")["a"]
    assert array[...].tolist() == VALUES
    http_server.script("d/f.bin", redirect(f"{server.url}/secret.bin"), sticky=True)
    with pytest.raises(zm.errors.LocationNotAllowedError):
        array[...]
    assert not [request for request in server.requests if request.target == "/secret.bin"]


def test_redirect_that_begins_after_a_read_is_followed_where_it_may(
    root: Path, http_server: FileServer, other_host_server: FileServer
) -> None:
    other_host_server.put("f.bin", RAW[::-1])
    http_server.put("d/f.bin", RAW)
    declare(root, f"{http_server.url}/d/f.bin")
    allow = {**quickly(f"{http_server.url}/d/"), **quickly(other_host_server.url)}
    array: Any = zarr.open(zm.ManifestStore(root, allow=allow), mode="r")["a"]
    assert array[...].tolist() == VALUES
    http_server.script("d/f.bin", redirect(f"{other_host_server.url}/f.bin"), sticky=True)
    assert array[...].tolist() == list(RAW[::-1][4:12])


def test_object_that_changes_between_reads(root: Path, http_server: FileServer) -> None:
    http_server.put("d/f.bin", RAW)
    declare(root, f"{http_server.url}/d/f.bin")
    store = zm.ManifestStore(root, allow=[f"{http_server.url}/d/"])
    array: Any = zarr.open(store, mode="r")["a"]
    assert array[...].tolist() == VALUES
    http_server.put("d/f.bin", RAW[::-1])
    assert array[...].tolist() == list(RAW[::-1][4:12])


def test_object_that_never_stays_the_same(root: Path, http_server: FileServer) -> None:
    """What is read is of one state, also if a first attempt brought some of another."""
    http_server.put("d/f.bin", RAW)
    changes = (change(bytes([n]) * 24) for n in range(20))
    http_server.script("d/f.bin", truncate(1), *changes)
    declare(root, f"{http_server.url}/d/f.bin")
    assert len(set(read(root, allow=quickly(f"{http_server.url}/d/")))) == 1


@pytest.mark.parametrize("target", ["http://[::1", "http://a b/", "\\\\host\\f", "//"])
def test_redirect_to_no_url(root: Path, http_server: FileServer, target: str) -> None:
    http_server.script("d/f.bin", redirect(target), sticky=True)
    declare(root, f"{http_server.url}/d/f.bin")
    with pytest.raises(zm.ManifestError) as raised:
        read(root, allow=[f"{http_server.url}/d/"])
    assert raised.value.code in ("location_not_allowed", "source_error")


# ---------------------------------------------------------------- what it costs


def test_each_read_is_one_request(http_server: FileServer) -> None:
    http_server.put("f.bin", RAW)
    sources = Sources(quickly(http_server.url), reader_of(obstore.store.MemoryStore()))
    location = Base.parse("./").resolve(f"{http_server.url}/f.bin")
    for _ in range(5):
        assert bytes(in_own_loop(sources.fetch(location, SourceRange(4, 12, True)))) == RAW[4:12]
    assert len(http_server.requests) == 5


# ---------------------------------------------------------------- within the hierarchy


@pytest.fixture
def web(root: Path, tmp_path: Path, http_server: FileServer) -> FileServer:
    """A server of a hierarchy of a manifest array, whose document and source are relative."""
    declare(root, "../raw.bin")
    (root / "raw.bin").write_bytes(RAW)
    native = zarr.create_array(root / "n", shape=8, chunks=8, dtype="u1", compressors=None)
    native[:] = np.frombuffer(RAW[4:12], "u1")
    for file in root.rglob("*"):
        if file.is_file():
            http_server.put(f"data.zarr/{file.relative_to(root)}", file.read_bytes())
    shutil.rmtree(root)
    return http_server


MEMBERS = ["a/manifest.json", "raw.bin", "n/c/0", "a/zarr.json", "n/zarr.json"]


def everything(web: FileServer, **options: Any) -> list[int]:
    store = zm.ManifestStore(f"{web.url}/data.zarr", **options)
    values: list[int] = []
    for name in ("a", "n"):
        values += zarr.open_array(store, path=name, mode="r")[...].tolist()  # type: ignore
    return values


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("place", ["other_host_server", "second_http_server", "outside"])
def test_redirect_out_of_the_hierarchy(
    web: FileServer, member: str, place: str, request: pytest.FixtureRequest
) -> None:
    server: FileServer = web if place == "outside" else request.getfixturevalue(place)
    found = web.find(f"data.zarr/{member}")
    assert found is not None
    server.put("e/copy", found.data)
    web.script(f"data.zarr/{member}", redirect(f"{server.url}/e/copy"), sticky=True)
    with pytest.raises(zm.errors.LocationNotAllowedError) as raised:
        everything(web)
    assert not [r for r in server.requests if r.target == "/e/copy"]
    assert everything(web, allow=suggested(raised.value)) == VALUES * 2


@pytest.mark.parametrize("member", MEMBERS)
def test_redirect_within_the_hierarchy(web: FileServer, member: str) -> None:
    found = web.find(f"data.zarr/{member}")
    assert found is not None
    web.put("data.zarr/moved/here", found.data)
    web.script(f"data.zarr/{member}", redirect("/data.zarr/moved/here"), sticky=True)
    assert everything(web) == VALUES * 2


@pytest.mark.parametrize("member", MEMBERS)
def test_redirect_of_a_member_that_begins_later(
    web: FileServer, other_host_server: FileServer, member: str
) -> None:
    away = redirect(f"{other_host_server.url}/f.bin")
    web.script(f"data.zarr/{member}", truncate(1), away, sticky=True)
    allow = quickly(f"{web.url}/data.zarr")
    with pytest.raises(zm.errors.LocationNotAllowedError):
        everything(web, allow=allow)
    assert other_host_server.requests == []


def test_a_store_of_the_readers_own_is_guarded(
    web: FileServer, other_host_server: FileServer
) -> None:
    other_host_server.put("f.bin", RAW)
    web.script("data.zarr/n/c/0", redirect(f"{other_host_server.url}/f.bin"), sticky=True)
    inner = obstore.store.HTTPStore(
        f"{web.url}/data.zarr", client_options={"allow_http": True}, retry_config=QUICK
    )
    for given in (inner, zarr.storage.ObjectStore(inner, read_only=True)):
        store: Any = zm.ManifestStore(given)
        with pytest.raises(zm.errors.LocationNotAllowedError):
            zarr.open_array(store, path="n", mode="r")[...]
    assert other_host_server.requests == []


@pytest.mark.parametrize("code", [400, 405, 418, 501])
@pytest.mark.parametrize("member", MEMBERS)
def test_only_404_and_410_mean_absent(web: FileServer, member: str, code: int) -> None:
    """Everything else is an error, never a fill value."""
    web.script(f"data.zarr/{member}", status(code), sticky=True)
    allow = {f"{web.url}/data.zarr": zm.anonymous(retry_config=NO_RETRIES)}
    with pytest.raises(zm.errors.SourceError) as raised:
        everything(web, allow=allow)
    assert str(code) in str(raised.value)


@pytest.mark.parametrize("code", [404, 410])
def test_a_native_chunk_that_is_gone(web: FileServer, code: int) -> None:
    web.script("data.zarr/n/c/0", status(code), sticky=True)
    store = zm.ManifestStore(f"{web.url}/data.zarr")
    array: Any = zarr.open_array(store, path="n", mode="r")
    assert array[...].tolist() == [0] * 8


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("member", MEMBERS)
def test_refused_is_not_absent(web: FileServer, member: str, code: int) -> None:
    web.script(f"data.zarr/{member}", status(code), sticky=True)
    with pytest.raises(zm.errors.SourceAccessDeniedError):
        everything(web)


# ---------------------------------------------------------------- clouds


def test_redirect_from_an_endpoint(
    root: Path, http_server: FileServer, other_host_server: FileServer
) -> None:
    other_host_server.put("f.bin", RAW)
    http_server.script("b/f.bin", redirect(f"{other_host_server.url}/f.bin"), sticky=True)
    declare(root, "s3://b/f.bin")
    options = {
        "endpoint": http_server.url,
        "client_options": {"allow_http": True},
        "retry_config": NO_RETRIES,
    }
    refused(root, allow={"s3://b/": zm.anonymous(**options)})
    store = obstore.store.S3Store("b", skip_signature=True, **options)
    refused(root, allow={"s3://b/": store})
    assert other_host_server.requests == []
    http_server.put("b/f.bin", RAW)
    http_server.script("b/f.bin")
    assert read(root, allow={"s3://b/": zm.anonymous(**options)}) == VALUES
    assert read(root, allow={"s3://b/": store}) == VALUES


def test_options_of_the_client_in_the_environment(
    root: Path, http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given one option, obstore would ignore those."""
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", http_server.url)
    http_server.put("b/f.bin", RAW)
    declare(root, "s3://b/f.bin")
    assert read(root, allow={"s3://b/": zm.anonymous(retry_config=NO_RETRIES)}) == VALUES


# ---------------------------------------------------------------- proxies


class _Proxy(BaseHTTPRequestHandler):
    """Passes on what it is asked for, and notes it."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        parts = urlsplit(self.path)
        connection = HTTPConnection(parts.netloc, timeout=5)
        headers = {k: v for k, v in self.headers.items() if k.lower() != "connection"}
        connection.request("GET", parts.path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() != "connection":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        connection.close()

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """The URL of a forward proxy, and what it was asked for."""
    asked: list[str] = []
    handler = type("Handler", (_Proxy,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.3", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.3:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("stated", [True, False])
def test_questions_go_through_the_proxy(
    root: Path,
    http_server: FileServer,
    other_host_server: FileServer,
    proxy: tuple[str, list[str]],
    stated: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the reads do; redirects are refused all the same."""
    url, asked = proxy
    other_host_server.put("f.bin", RAW)
    http_server.put("d/f.bin", RAW)
    declare(root, f"{http_server.url}/d/f.bin")
    options: dict[str, Any] = {"retry_config": QUICK}
    if stated:
        options["client_options"] = {"proxy_url": url}
    else:
        monkeypatch.setenv("http_proxy", url)
    allow = {f"{http_server.url}/d/": zm.anonymous(**options)}
    assert read(root, allow=allow) == VALUES
    assert asked == [f"{http_server.url}/d/f.bin"] * len(http_server.requests)
    away = redirect(f"{other_host_server.url}/f.bin")
    http_server.script("d/f.bin", away, sticky=True)
    refused(root, allow=allow)
    assert other_host_server.requests == []


# ---------------------------------------------------------------- what stores can reach


def excluded(store: Any) -> list[str]:
    options = dict(within_host(store).client_options or {})  # type: ignore[union-attr]
    assert options["proxy_url"] == "http://127.0.0.1:0"
    return str(options["proxy_excludes"]).split(",")


@pytest.mark.slow
def test_hosts_that_a_store_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own, and where the credentials of its cloud come from, if it asks for any."""
    own = {"endpoint": "https://[::1]:8080"}
    assert excluded(obstore.store.S3Store("b", skip_signature=True, **own)) == ["::1"]
    own = {"endpoint": "https://minio.example:9000"}
    assert excluded(obstore.store.S3Store("b", skip_signature=True, **own)) == ["minio.example"]
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://agent.example/role")
    hosts = excluded(obstore.store.S3Store("b", **own))
    assert {"minio.example", "agent.example", "169.254.169.254", "amazonaws.com"} <= {*hosts}
    assert "storage.example" not in hosts
    assert "googleapis.com" in excluded(obstore.store.GCSStore("b", skip_signature=True))
    azure = obstore.store.AzureStore("c", account_name="a", skip_signature=True)
    assert "core.windows.net" in excluded(azure)


def test_a_store_that_uses_a_proxy_is_left_alone() -> None:
    options: Any = {"proxy_url": "http://proxy.example:3128"}
    store = obstore.store.S3Store("b", skip_signature=True, client_options=options)
    assert within_host(store) is store


def test_a_hierarchy_on_a_web_server_is_guarded_in_another_process(
    web: FileServer, other_host_server: FileServer
) -> None:
    store = zm.ManifestStore(f"{web.url}/data.zarr", allow=quickly(f"{web.url}/data.zarr"))
    twin = pickle.loads(pickle.dumps(store))
    away = redirect(f"{other_host_server.url}/f.bin")
    web.script("data.zarr/n/c/0", away, sticky=True)
    with pytest.raises(zm.errors.LocationNotAllowedError):
        zarr.open_array(twin, path="n", mode="r")[...]
    assert other_host_server.requests == []
