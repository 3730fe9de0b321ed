"""Answers of web servers that do not keep to HTTP, never end, or never come."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore.store
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import declare_manifest
from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import FileServer
from tests.servers.raw import RawServer
from tests.untrusted_manifests import RAW, refused
from zarr_manifest.locations import Base, UrlLocation
from zarr_manifest.sources import (
    NamedStores,
    SourceRange,
    Sources,
    in_own_loop,
    is_web_reader,
    reader_of,
)

pytestmark = pytest.mark.servers

WHOLE = SourceRange(0, None, False)
PART = SourceRange(4, 12, True)
ETAG = 'ETag: "1"'

type Answer = Callable[[str], Iterable[bytes | float]]


def reply(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", ETAG, *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def range_of(request: str) -> tuple[int, int] | None:
    found = re.search(r"range: bytes=(\d+)-(\d+)", request, re.IGNORECASE)
    return (int(found[1]), int(found[2]) + 1) if found else None


def correct(request: str) -> bytes:
    span = range_of(request)
    if span is None:
        return reply(200, RAW)
    first, stop = span[0], min(span[1], len(RAW))
    return reply(206, RAW[first:stop], f"Content-Range: bytes {first}-{stop - 1}/{len(RAW)}")


def fetch(server: RawServer, span: SourceRange, **client: Any) -> bytes:
    options = {"retry_config": NO_RETRIES, "client_options": client}
    sources = Sources({server.url: options}, reader_of(obstore.store.MemoryStore()))
    location = Base.parse("./").resolve(f"{server.url}/f.bin")
    return bytes(in_own_loop(sources.fetch(location, span)))


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Range: bytes {1}-{2}/24"],
        [],
        ["Content-Range: bytes {0}-{2}/24"],
        ["Content-Range: bytes {0}-{0}/24"],
        ["Content-Range: bytes -{0}-{1}/24"],
        ["Content-Range: items {0}-{1}/24"],
        ["Content-Range: bytes {0}-{1}/{1}"],
        ["Content-Type: multipart/byteranges; boundary=x"],
        ["Content-Range: bytes {0}-{1}/24", "Content-Encoding: gzip"],
    ],
    ids=[
        *("shifted", "missing", "longer", "shorter", "negative", "other units"),
        *("past the end", "multipart", "encoded"),
    ],
)
def test_a_wrong_part(headers: list[str]) -> None:
    """It has the right length, and the right status; nothing else."""

    def wrong(request: str) -> bytes:
        first, stop = range_of(request) or (0, 8)
        numbers = (first, stop - 1, stop)
        stated = [header.format(*numbers) for header in headers]
        return reply(206, bytes(stop - first), *stated)

    with (
        RawServer(lambda request: [wrong(request)]) as server,
        pytest.raises(zm.ManifestError) as raised,
    ):
        fetch(server, PART)
    assert raised.value.code in ("source_error", "short_read", "range_out_of_bounds")


def test_the_error_says_that_the_size_is_unknown() -> None:
    """Such a part may be all that was requested, but not all that there is."""

    def part(request: str) -> bytes:
        first, stop = range_of(request) or (0, 8)
        return reply(206, RAW[first:stop], f"Content-Range: bytes {first}-{stop - 1}/*")

    with (
        RawServer(lambda request: [part(request)]) as server,
        pytest.raises(zm.errors.SourceError, match="does not say how large"),
    ):
        fetch(server, WHOLE)


def test_two_ranges_at_once() -> None:
    def wrong(request: str) -> bytes:
        first, stop = range_of(request) or (0, 24)
        stated = f"Content-Range: bytes {first}-{stop - 1}/24"
        return reply(206, bytes(stop - first), stated, "Content-Range: bytes 1-8/24")

    with (
        RawServer(lambda request: [wrong(request)]) as server,
        pytest.raises(zm.errors.SourceError),
    ):
        fetch(server, PART)


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: " + "9" * 5000],
        ["Content-Length: " + "9" * 18],
        ["Content-Length: 24", "Last-Modified: Mon, 01 Jan 0001 00:00:00 +2300"],
    ],
    ids=["5,000 digits", "18 digits", "time"],
)
def test_numbers_that_are_none(headers: list[str]) -> None:
    """Neither an error that is not ours, nor memory for what does not arrive."""
    lines = ["HTTP/1.1 200 OK", ETAG, *headers, "Connection: close", "", ""]
    body = "\r\n".join(lines).encode() + RAW
    with RawServer(lambda _: [body]) as server:
        if len(headers) > 1:
            assert fetch(server, WHOLE) == RAW
        else:
            with pytest.raises(zm.ManifestError):
                fetch(server, WHOLE)


# ---------------------------------------------------------------- time


def trickle(start: bytes) -> Iterable[bytes | float]:
    yield start
    while True:
        yield b"x"
        yield 0.01


SLOW: dict[str, Answer] = {
    "never": lambda _: [60.0],
    "head": lambda _: trickle(b"HTTP/1.1 200 OK\r\nX-Header: "),
}


@pytest.mark.parametrize("what", SLOW)
def test_a_server_that_keeps_readers_waiting(what: str) -> None:
    started = time.monotonic()
    with (
        RawServer(SLOW[what]) as server,
        pytest.raises(zm.errors.SourceError),
    ):
        fetch(server, WHOLE, timeout="200ms")
    assert time.monotonic() - started < 2


def test_a_body_that_trickles() -> None:
    def answer(request: str) -> Iterable[bytes | float]:
        if range_of(request) == (0, 1):
            return [correct(request)]
        return trickle(correct(request)[: -len(RAW)])

    started = time.monotonic()
    with RawServer(answer) as server, pytest.raises(zm.ManifestError):
        fetch(server, WHOLE, timeout=timedelta(milliseconds=100))
    assert time.monotonic() - started < 2


def test_default_timeouts_are_stated() -> None:
    """They are stated for every kind of store, and can be changed."""
    for scheme in ("http", "https", "s3", "gs", "az"):
        access: dict[str, Any] = {"account_name": "a"} if scheme == "az" else {}
        for changed, timeouts in (({}, ["1m", "10s"]), ({"timeout": "5s"}, ["5s", "10s"])):
            options: Any = {**access, "client_options": changed}
            stores = NamedStores({f"{scheme}://name/": options if changed else access or None})
            found: Any = stores.find(UrlLocation(scheme, "name", "f"))[0]
            if is_web_reader(found):  # as obstore would state them
                stated: Any = obstore.store.HTTPStore(
                    "http://x", client_options=found.server.client_options
                )
            else:
                stated = found.store
            stated = stated.client_options
            assert [stated["timeout"], stated["connect_timeout"]] == timeouts


# ---------------------------------------------------------------- size


@pytest.fixture
def root(tmp_path: Path) -> Path:
    zarr.create_group(tmp_path / "data.zarr")
    return tmp_path / "data.zarr"


def endless(size: str) -> Answer:
    """An object of 20 GB, or without an end; its first megabyte is sent at once."""

    def answer(request: str) -> Iterable[bytes | float]:
        wanted = re.search(r"range: bytes=(\d+)-(\d*)", request, re.IGNORECASE)
        if wanted is not None and size != "chunked":
            first, last = int(wanted[1]), int(wanted[2] or 19_999_999_999)
            length = f"Content-Length: {last - first + 1}"
            part = f"{length}\r\nContent-Range: bytes {first}-{last}/20000000000"
            head = f"HTTP/1.1 206 OK\r\n{part}\r\n{ETAG}\r\n\r\n".encode()
            return [head, bytes(min(last - first + 1, 2**20)), 60.0]
        how = "Transfer-Encoding: chunked" if size == "chunked" else f"Content-Length: {size}"
        head = f"HTTP/1.1 200 OK\r\n{how}\r\n{ETAG}\r\n\r\n".encode()
        return [head, b"fffff\r\n" + bytes(2**20 - 1) + b"\r\n", 60.0]

    return answer


@pytest.mark.parametrize("size", ["20000000000", "chunked"])
def test_a_document_without_an_end(root: Path, size: str) -> None:
    with RawServer(endless(size)) as server:
        array = zarr.create_array(root / "a", shape=8, chunks=8, dtype="u1", compressors=None)
        assert array is not None
        declare_manifest(root / "a", f"{server.url}/m.json")
        expected = zm.errors.SourceError if size == "chunked" else zm.errors.LimitExceededError
        error = refused(root, expected, allow=[server.url])
    if size != "chunked":
        assert "manifest_bytes" in str(error)
        assert "20,000,000,000" in str(error)


@pytest.mark.parametrize("entry", [{}, {"length": 20_000_000_000}])
def test_a_large_object_for_a_small_chunk(root: Path, entry: dict[str, int]) -> None:
    with RawServer(endless("20000000000")) as server:
        zarr.create_array(root / "a", shape=8, chunks=8, dtype="u1", compressors=None)
        declare_manifest(root / "a", {"0": {"path": f"{server.url}/f.bin", **entry}})  # type: ignore[arg-type]
        error = refused(root, zm.errors.LimitExceededError, allow=[server.url])
    assert error.chunk == "0"
    assert "chunk_bytes" in str(error)


def test_the_limit_of_a_chunk(root: Path, http_server: FileServer) -> None:
    """Four times its decoded size, and as much as the reader says."""
    for size, limit in ((33, 0), (34, 1)):
        http_server.put("f.bin", bytes(size))
        zarr.create_array(
            root / "a", shape=8, chunks=8, dtype="u1", compressors=None, overwrite=True
        )
        declare_manifest(root / "a", {"0": {"path": f"{http_server.url}/f.bin"}})
        limits = zm.Limits(chunk_bytes=limit)
        refused(root, zm.errors.LimitExceededError, allow=[http_server.url], limits=limits)
        limits = zm.Limits(chunk_bytes=limit + 1)
        with pytest.raises(ValueError, match=r"reshape|buffer"):  # of zarr's codec
            zarr.open(zm.ManifestStore(root, allow=[http_server.url], limits=limits), mode="r")[
                "a"
            ][...]  # type: ignore[index]
