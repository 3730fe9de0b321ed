"""The servers do what they claim, as seen by the clients that the package uses."""

from __future__ import annotations

import http.client
import os
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import (
    GenericError,
    NotModifiedError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import HTTPStore, S3Store

from tests.servers import http_files
from tests.servers.http_answers import StoredObject, correct_answer
from tests.servers.http_files import FileServer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore import GetOptions

    from tests.servers.s3 import S3Server

DATA = bytes(range(100))


def http_store(server: FileServer, max_retries: int = 0) -> HTTPStore:
    # obstore panics at a backoff of zero.
    return HTTPStore.from_url(
        server.url,
        client_options={"allow_http": True},
        retry_config={
            "max_retries": max_retries,
            "backoff": {"init_backoff": timedelta(milliseconds=1)},
        },
    )


def s3_store(server: S3Server, bucket: str, *, anonymous: bool = False) -> S3Store:
    options = server.anonymous_options if anonymous else server.options
    return S3Store.from_url(f"s3://{bucket}", **options, retry_config={"max_retries": 0})


def read(store: Any, path: str, **options: Any) -> bytes:
    return bytes(obstore.get(store, path, options=cast("GetOptions", options)).bytes())


def ask(
    server: FileServer, method: str, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """One request by the standard library: a second opinion beside obstore's."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    try:
        connection.request(method, path, headers=dict(headers or {}))
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


# ------------------------------------------------------------------ ranges


@pytest.mark.parametrize(
    ("asked", "status", "content_range", "body"),
    [
        ("bytes=10-19", 206, "bytes 10-19/100", DATA[10:20]),
        ("bytes=90-", 206, "bytes 90-99/100", DATA[90:]),
        ("bytes=-7", 206, "bytes 93-99/100", DATA[93:]),
        ("bytes=-500", 206, "bytes 0-99/100", DATA),
        ("bytes=90-500", 206, "bytes 90-99/100", DATA[90:]),
        ("bytes=100-", 416, "bytes */100", b""),
        ("bytes=150-160", 416, "bytes */100", b""),
        ("bytes=-0", 416, "bytes */100", b""),
        ("bytes=20-10", 200, None, DATA),
        ("bytes=0-1,5-6", 200, None, DATA),
        ("bytes=-", 200, None, DATA),
        ("chunks=0-1", 200, None, DATA),
    ],
)
def test_range(
    http_server: FileServer, asked: str, status: int, content_range: str | None, body: bytes
) -> None:
    http_server.put("a", DATA)
    answer = ask(http_server, "GET", "/a", {"Range": asked})
    assert (answer[0], answer[1].get("Content-Range"), answer[2]) == (status, content_range, body)


@given(start=st.integers(0, 60), length=st.integers(1, 60), size=st.integers(0, 60))
def test_any_bounded_range_is_what_slicing_gives(start: int, length: int, size: int) -> None:
    data = DATA[:size]
    asked = {"range": f"bytes={start}-{start + length - 1}"}
    with_object = StoredObject(data, '"e"', datetime.now(UTC))
    reply = correct_answer(with_object, asked)
    assert reply.body == data[start : start + length]
    assert reply.status == (206 if start < size else 416)


def test_head_has_the_headers_of_get_and_no_body(http_server: FileServer) -> None:
    http_server.put("a", DATA, content_type="application/x-netcdf")
    status, headers, body = ask(http_server, "HEAD", "/a")
    assert (status, headers["Content-Length"], body) == (200, "100", b"")
    assert headers["Content-Type"] == "application/x-netcdf"
    assert ask(http_server, "HEAD", "/nope")[0] == 404


def test_obstore_ranges(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    store = http_store(http_server)
    assert read(store, "a") == DATA
    assert read(store, "a", range=(10, 20)) == DATA[10:20]
    assert read(store, "a", range={"offset": 40}) == DATA[40:]
    assert read(store, "a", range={"suffix": 5}) == DATA[95:]
    with pytest.raises(GenericError, match="416"):
        read(store, "a", range=(150, 160))
    with pytest.raises(FileNotFoundError):
        read(store, "nope")


# ------------------------------------------------------------------ validators


def test_conditions(http_server: FileServer) -> None:
    modified = datetime(2024, 1, 1, tzinfo=UTC)
    etag = http_server.put("a", DATA, last_modified=modified)
    store = http_store(http_server)
    assert obstore.head(store, "a")["e_tag"] == etag
    assert obstore.head(store, "a")["last_modified"] == modified
    assert read(store, "a", if_match=etag) == DATA
    assert read(store, "a", if_unmodified_since=modified) == DATA
    with pytest.raises(PreconditionError):
        read(store, "a", if_match='"other"')
    with pytest.raises(PreconditionError):
        read(store, "a", if_unmodified_since=modified - timedelta(seconds=1))
    with pytest.raises(NotModifiedError):
        read(store, "a", if_none_match=etag)


@pytest.mark.parametrize(
    ("etag", "headers", "status"),
    [
        ("x", {"If-Match": "*"}, 200),
        ("x", {"If-Match": '"y", "x"'}, 200),
        ("x", {"If-Match": "x"}, 412),
        ('W/"x"', {"If-Match": 'W/"x"'}, 412),
        ('W/"x"', {"If-None-Match": '"x"'}, 304),
        ("", {"If-Match": '"x"'}, 412),
        # RFC 9110 section 13.2.2: a date is not looked at beside an entity tag.
        ("x", {"If-Match": '"x"', "If-Unmodified-Since": "Wed, 01 Jan 2020 00:00:00 GMT"}, 200),
        ("x", {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}, 304),
    ],
)
def test_condition_headers(
    http_server: FileServer, etag: str, headers: dict[str, str], status: int
) -> None:
    http_server.put("a", DATA, etag=etag)
    assert ask(http_server, "GET", "/a", headers)[0] == status


# ------------------------------------------------------------------ faults


def test_ignore_range(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.ignore_range(), http_files.ignore_range())
    assert ask(http_server, "GET", "/a", {"Range": "bytes=1-2"})[::2] == (200, DATA)
    with pytest.raises(NotSupportedError):
        read(http_store(http_server), "a", range=(1, 3))


def test_ignore_conditions(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.ignore_conditions())
    assert read(http_store(http_server), "a", if_match='"other"') == DATA


@pytest.mark.parametrize("name", ["ETag", "last-modified", "Content-Range"])
def test_drop_header(http_server: FileServer, name: str) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.drop_header(name))
    headers = {k.lower() for k in ask(http_server, "GET", "/a", {"Range": "bytes=1-2"})[1]}
    assert {"etag", "last-modified", "content-range"} - headers == {name.lower()}


def test_truncate(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.truncate(3), http_files.truncate(3))
    with pytest.raises(http.client.IncompleteRead, match="3 bytes read, 97 more expected"):
        ask(http_server, "GET", "/a")
    with pytest.raises(GenericError):
        read(http_store(http_server), "a", range=(10, 20))


def test_obstore_resumes_a_truncated_body_if_it_may_retry(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.truncate(3))
    assert read(http_store(http_server, max_retries=1), "a", range=(10, 20)) == DATA[10:20]
    assert [r.headers["range"] for r in http_server.requests] == ["bytes=10-19", "bytes=13-19"]


def test_short_content_range(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.script("a", *[http_files.short_content_range(4)] * 2)
    status, headers, body = ask(http_server, "GET", "/a", {"Range": "bytes=10-19"})
    assert (status, headers["Content-Range"], body) == (206, "bytes 10-15/100", DATA[10:16])
    with pytest.raises(GenericError, match=r"Requested 10\.\.20, got 10\.\.16"):
        read(http_store(http_server), "a", range=(10, 20))


def test_short_content_range_leaves_whole_objects_alone(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.short_content_range(4))
    assert read(http_store(http_server), "a") == DATA


def test_bodies_that_belie_their_content_range(http_server: FileServer) -> None:
    """obstore trusts Content-Range: whoever calls it must count the bytes."""
    http_server.put("a", DATA)
    http_server.script("a", http_files.short_body(4), http_files.wrong_body_longer(5))
    store = http_store(http_server)
    assert read(store, "a", range=(10, 20)) == DATA[10:16]
    assert read(store, "a", range=(10, 20)) == DATA[10:20] + bytes(5)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (401, UnauthenticatedError),
        (403, PermissionDeniedError),
        (404, FileNotFoundError),
        (416, GenericError),
        (500, GenericError),
        (503, GenericError),
    ],
)
def test_status(http_server: FileServer, code: int, error: type[Exception]) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.status(code))
    with pytest.raises(error):
        read(http_store(http_server), "a")
    assert read(http_store(http_server), "a") == DATA


def test_retry_after(http_server: FileServer) -> None:
    http_server.script("a", http_files.status(503, retry_after=7))
    assert ask(http_server, "GET", "/a")[1]["Retry-After"] == "7"


def test_redirect_is_followed_without_authorization(
    http_server: FileServer, second_http_server: FileServer
) -> None:
    second_http_server.put("b", DATA)
    http_server.script("a", http_files.redirect(f"{second_http_server.url}/b"))
    store = HTTPStore.from_url(
        http_server.url,
        client_options={"allow_http": True, "default_headers": {"authorization": "secret"}},
    )
    assert read(store, "a", range=(1, 3)) == DATA[1:3]
    assert http_server.requests[0].headers["authorization"] == "secret"
    (arrived,) = second_http_server.requests
    assert arrived.headers["range"] == "bytes=1-2"
    assert "authorization" not in arrived.headers


def test_redirect_without_location(http_server: FileServer) -> None:
    http_server.script("a", http_files.redirect(None, 301))
    assert "Location" not in ask(http_server, "GET", "/a")[1]


def test_reset(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.reset(), http_files.reset())
    with pytest.raises(ConnectionResetError):
        ask(http_server, "GET", "/a")
    with pytest.raises(GenericError, match="error sending request"):
        read(http_store(http_server), "a")


def test_change(http_server: FileServer) -> None:
    etag = http_server.put("a", DATA)
    http_server.script("a", http_files.change(b"new"))
    store = http_store(http_server)
    with pytest.raises(PreconditionError):
        read(store, "a", if_match=etag)
    assert read(store, "a") == b"new"


def test_delay_and_latency(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.delay(0.05))
    http_server.latency = 0.05
    begin = time.perf_counter()
    read(http_store(http_server), "a")
    assert time.perf_counter() - begin >= 0.1


def test_faults_are_consumed_in_order_and_spare_heads(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.script("a", http_files.status(500), http_files.status(503))
    statuses = [ask(http_server, method, "/a")[0] for method in ("HEAD", "GET", "GET", "GET")]
    assert statuses == [200, 500, 503, 200]


def test_sticky_and_heads(http_server: FileServer) -> None:
    http_server.script("a", http_files.status(500), http_files.status(403, heads=True), sticky=True)
    statuses = [ask(http_server, method, "/a")[0] for method in ("GET", "HEAD", "GET", "GET")]
    assert statuses == [500, 403, 403, 403]
    http_server.script("a")
    assert ask(http_server, "GET", "/a")[0] == 404


def test_faults_stay_with_their_path(http_server: FileServer) -> None:
    http_server.put("b", DATA)
    http_server.script("a", http_files.status(500))
    assert ask(http_server, "GET", "/b")[0] == 200


# ------------------------------------------------------------------ the server itself


@pytest.mark.parametrize("key", ["a b.nc", "50%.nc", "a%20b", "a#b", "a?b=c", "a+b", "ü/日本.nc"])
def test_keys_are_decoded(http_server: FileServer, key: str) -> None:
    http_server.put(key, DATA)
    assert read(http_store(http_server), key) == DATA
    assert ask(http_server, "GET", "/" + quote(key) + "?query=kept")[2] == DATA
    assert http_server.requests[-1].target.endswith("?query=kept")


def test_requests_are_recorded(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    ask(http_server, "GET", "/a?x=1", {"Range": "bytes=0-1"})
    ((method, target, headers),) = http_server.requests
    assert (method, target, headers["range"]) == ("GET", "/a?x=1", "bytes=0-1")
    http_server.clear()
    assert http_server.requests == []


def test_connections_are_kept_alive(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    connection = http.client.HTTPConnection(urlsplit(http_server.url).netloc)
    try:
        connection.connect()
        opened = connection.sock
        for _ in range(3):
            connection.request("GET", "/a")
            assert connection.getresponse().read() == DATA
        assert connection.sock is opened
    finally:
        connection.close()


def test_requests_are_served_in_parallel(http_server: FileServer) -> None:
    http_server.put("a", DATA)
    http_server.latency = 0.2
    store = http_store(http_server)
    threads = [threading.Thread(target=read, args=(store, "a")) for _ in range(8)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.perf_counter() - begin < 8 * 0.2


def test_directory(tmp_path: Path) -> None:
    served = tmp_path / "served"
    served.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (served / "a.nc").write_bytes(DATA)
    with FileServer(served) as server:
        assert ask(server, "GET", "/a.nc", {"Range": "bytes=1-2"})[2] == DATA[1:3]
        assert ask(server, "GET", "/../secret")[0] == 404
        server.put("a.nc", b"put")
        assert ask(server, "GET", "/a.nc")[2] == b"put"
        server.remove("a.nc")
        assert ask(server, "GET", "/a.nc")[2] == DATA


def test_closing_does_not_wait_for_clients_or_delays() -> None:
    before = threading.active_count()
    begin = time.perf_counter()
    with FileServer() as server:
        server.put("a", DATA)
        server.script("a", http_files.delay(60))
        store = http_store(server)

        def wait() -> None:
            with suppress(GenericError):
                read(store, "a")

        waiting = threading.Thread(target=wait)
        read_once = http.client.HTTPConnection(urlsplit(server.url).netloc)
        read_once.request("HEAD", "/a")
        read_once.getresponse().read()
        waiting.start()
        while len(server.requests) < 2:
            time.sleep(0.001)
    read_once.close()
    waiting.join()
    assert time.perf_counter() - begin < 10
    assert threading.active_count() <= before


def test_no_cloud_environment() -> None:
    assert not [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "AZURE_"))]


# ------------------------------------------------------------------ S3


def test_s3_round_trip(s3_server: S3Server, s3_bucket: str) -> None:
    assert s3_server.put(s3_bucket, "d/ü b.nc", DATA) is None
    store = s3_store(s3_server, s3_bucket)
    s3_server.clear()
    assert read(store, "d/ü b.nc", range=(10, 20)) == DATA[10:20]
    (request,) = s3_server.requests
    assert request == ("GET", f"/{s3_bucket}/d/ü b.nc", "", True, "bytes=10-19")
    s3_server.delete(s3_bucket, "d/ü b.nc")
    with pytest.raises(FileNotFoundError):
        read(store, "d/ü b.nc")


def test_s3_conditions(s3_server: S3Server, s3_bucket: str) -> None:
    s3_server.put(s3_bucket, "a", DATA)
    store = s3_store(s3_server, s3_bucket)
    etag = obstore.head(store, "a")["e_tag"]
    assert read(store, "a", if_match=etag) == DATA
    with pytest.raises(PreconditionError):
        read(store, "a", if_match='"other"')
    with pytest.raises(GenericError, match="416"):
        read(store, "a", range=(150, 160))


def test_s3_versions(s3_server: S3Server, s3_bucket: str) -> None:
    s3_server.enable_versioning(s3_bucket)
    first = s3_server.put(s3_bucket, "a", b"first")
    second = s3_server.put(s3_bucket, "a", b"second")
    store = s3_store(s3_server, s3_bucket)
    assert first is not None
    assert second not in (None, first)
    assert read(store, "a", version=first) == b"first"
    assert read(store, "a") == b"second"
    s3_server.delete(s3_bucket, "a")
    assert read(store, "a", version=second) == b"second"
    s3_server.delete(s3_bucket, "a", first)
    with pytest.raises(FileNotFoundError):
        read(store, "a", version=first)


def test_s3_anonymous(s3_server: S3Server, s3_bucket: str, public_s3_bucket: str) -> None:
    s3_server.put(s3_bucket, "a", DATA)
    s3_server.put(public_s3_bucket, "a", DATA)
    s3_server.clear()
    assert read(s3_store(s3_server, public_s3_bucket, anonymous=True), "a") == DATA
    with pytest.raises(PermissionDeniedError):
        read(s3_store(s3_server, s3_bucket, anonymous=True), "a")
    assert [request.signed for request in s3_server.requests] == [False, False]


def test_s3_sees_signed_urls(s3_server: S3Server, s3_bucket: str) -> None:
    s3_server.put(s3_bucket, "a", DATA)
    url = obstore.sign(s3_store(s3_server, s3_bucket), "GET", "a", timedelta(minutes=1))
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    s3_server.clear()
    try:
        connection.request("GET", url.removeprefix(s3_server.endpoint))
        assert connection.getresponse().read() == DATA
    finally:
        connection.close()
    assert [request.signed for request in s3_server.requests] == [True]
