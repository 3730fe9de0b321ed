"""Reads of objects on web servers: no request more than the reads, and the right bytes."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import obstore.store
import pytest
import zarr
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

import zarr_manifest as zm
from tests.quick_retries import QUICK
from tests.servers import http_files as faults
from tests.servers.http_files import Fault, FileServer
from tests.servers.raw import RawServer
from tests.untrusted_manifests import RAW, VALUES, declare
from zarr_manifest.format import Conditions
from zarr_manifest.locations import Base, Location
from zarr_manifest.sources import SourceRange, Sources, in_own_loop, reader_of

SIZE = len(RAW)
PART = SourceRange(4, 12, True)


HIERARCHY = reader_of(obstore.store.MemoryStore())


def sources_of(url: str, **options: Any) -> Sources:
    return Sources({url: {"retry_config": QUICK, **options}}, HIERARCHY, max_gap=-1)


def location_of(url: str) -> Any:
    return Base.parse("./").resolve(url)


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize("objects", [1, 10])
def test_one_range_of_each_object_is_one_request_each(
    http_server: FileServer, objects: int
) -> None:
    for number in range(objects):
        http_server.put(f"{number}.bin", RAW)
    locations = [location_of(f"{http_server.url}/{number}.bin") for number in range(objects)]
    sources = sources_of(http_server.url)

    async def read_all() -> list[memoryview]:
        return await asyncio.gather(*(sources.fetch(each, PART) for each in locations))

    assert asyncio.run(read_all()) == [RAW[4:12]] * objects
    asked = [(r.method, r.target, r.headers["range"]) for r in http_server.requests]
    assert sorted(asked) == sorted(
        ("GET", f"/{number}.bin", "bytes=4-11") for number in range(objects)
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data.zarr"


def test_a_hierarchy_is_read_without_questions(root: Path, http_server: FileServer) -> None:
    zarr.create_group(root)
    declare(root, "../raw.bin")
    (root / "raw.bin").write_bytes(RAW)
    for file in root.rglob("*"):
        if file.is_file():
            http_server.put(f"data.zarr/{file.relative_to(root)}", file.read_bytes())
    shutil.rmtree(root)
    store = zm.ManifestStore(f"{http_server.url}/data.zarr")
    array: Any = zarr.open_array(store, path="a", mode="r")
    assert array[...].tolist() == VALUES
    requests = http_server.requests
    assert not [r for r in requests if r.is_question or r.method != "GET"]
    sources = [r.target for r in requests if r.target.endswith(("raw.bin", "manifest.json"))]
    assert sorted(sources) == ["/data.zarr/a/manifest.json", "/data.zarr/raw.bin"]


@pytest.mark.parametrize("code", [403, 404])
def test_a_refusal_is_one_request(http_server: FileServer, code: int) -> None:
    http_server.script("f.bin", faults.status(code), sticky=True)
    with pytest.raises(zm.ManifestError):
        in_own_loop(
            sources_of(http_server.url).fetch(location_of(f"{http_server.url}/f.bin"), PART)
        )
    assert len(http_server.requests) == 1


def test_a_redirect_is_one_request_more(
    http_server: FileServer, other_host_server: FileServer
) -> None:
    other_host_server.put("f.bin", RAW)
    http_server.script("f.bin", faults.redirect(f"{other_host_server.url}/f.bin"), sticky=True)
    location = location_of(f"{http_server.url}/f.bin")
    with pytest.raises(zm.errors.LocationNotAllowedError):
        in_own_loop(sources_of(http_server.url).fetch(location, PART))
    assert (len(http_server.requests), other_host_server.requests) == (1, [])
    allow = {url: {"retry_config": QUICK} for url in (http_server.url, other_host_server.url)}
    sources = Sources(allow, HIERARCHY)
    assert bytes(in_own_loop(sources.fetch(location, PART))) == RAW[4:12]
    assert (len(http_server.requests), len(other_host_server.requests)) == (2, 1)


def test_connections_are_kept(http_server: FileServer) -> None:
    """Otherwise each object would cost another round trip, and its server a socket."""
    sources = sources_of(http_server.url)
    for number in range(20):
        if number % 2:
            http_server.put(f"{number}.bin", RAW)
            in_own_loop(sources.fetch(location_of(f"{http_server.url}/{number}.bin"), PART))
        else:
            with pytest.raises(zm.errors.SourceNotFoundError):
                in_own_loop(sources.fetch(location_of(f"{http_server.url}/{number}.bin"), PART))
    assert len(http_server.requests) == 20
    assert http_server.connections == 1


# ---------------------------------------------------------------- the right bytes, or an error

SPANS = st.one_of(
    st.tuples(st.integers(0, SIZE + 2), st.integers(1, SIZE + 2), st.booleans()).map(
        lambda found: SourceRange(found[0], found[0] + found[1], found[2])
    ),
    st.integers(-SIZE - 2, SIZE + 2).map(lambda start: SourceRange(start, None, False)),
)

FAULTS: dict[str, Fault | None] = {
    "none": None,
    "no ranges": faults.ignore_range(heads=True),
    "no conditions": faults.ignore_conditions(heads=True),
    "no ETag": faults.drop_header("ETag", heads=True),
    "no Last-Modified": faults.drop_header("Last-Modified", heads=True),
    "no Content-Range": faults.drop_header("Content-Range", heads=True),
    "cut off": faults.truncate(1),
    "shorter than asked for": faults.short_content_range(1),
    "shorter than announced": faults.short_body(1),
    "longer than announced": faults.wrong_body_longer(),
    "reset": faults.reset(heads=True),
    **{str(code): faults.status(code, heads=True) for code in (204, 304, 400, 403, 404, 412, 416)},
}
HARMLESS = {"none", "no conditions", "no Last-Modified"}


def expected(span: SourceRange, etag: str | None) -> bytes | str:
    """What a server without faults has to send, or the code of the error."""
    if etag == "other":
        return "source_changed"
    start = max(0, SIZE + span.start) if span.start < 0 else span.start
    is_beyond = span.exact and span.stop is not None and span.stop > SIZE
    if is_beyond or (start >= SIZE and span.start > 0):
        return "range_out_of_bounds"
    body = RAW[start : span.stop]
    if span.most is not None and len(body) > span.most:
        return "limit_exceeded"
    return body


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    span=SPANS,
    most=st.none() | st.integers(0, SIZE),
    fault=st.sampled_from(list(FAULTS)),
    etag=st.sampled_from([None, "", "W/", "other"]),
)
@example(span=SourceRange(0, None, False), most=None, fault="no ranges", etag=None)
@example(span=SourceRange(-4, None, False), most=None, fault="none", etag="")
@example(span=SourceRange(0, None, False), most=4, fault="no ranges", etag=None)
@example(span=PART, most=None, fault="cut off", etag="")
@example(span=SourceRange(SIZE, None, False), most=None, fault="none", etag="other")
@example(span=SourceRange(SIZE, None, False), most=None, fault="no conditions", etag="other")
def test_no_wrong_byte_is_read(
    http_server: FileServer, span: SourceRange, most: int | None, fault: str, etag: str | None
) -> None:
    http_server.script("f.bin")
    tag = http_server.put("f.bin", RAW)
    stated = {None: None, "": tag, "W/": f"W/{tag}", "other": '"other"'}[etag]
    span = structs.replace(span, most=most)
    scripted = FAULTS[fault]
    if scripted is not None:
        http_server.script("f.bin", scripted, sticky=True)
    found: bytes | str
    try:
        location = location_of(f"{http_server.url}/f.bin")
        found = bytes(
            in_own_loop(sources_of(http_server.url).fetch(location, span, Conditions(stated)))
        )
    except zm.ManifestError as error:
        found = error.code
    if fault in HARMLESS or isinstance(found, bytes):
        assert found == expected(span, etag)


# ---------------------------------------------------------------- at the same time


def head(first: int, last: int, size: int = SIZE) -> bytes:
    lines = [
        "HTTP/1.1 206 Partial Content",
        f"Content-Range: bytes {first}-{last}/{size}",
        f"Content-Length: {last + 1 - first}",
        'ETag: "1"',
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def test_other_ranges_do_not_wait_for_the_bytes_of_the_first() -> None:
    """Only for its head: its bytes come once the other range has been asked for."""

    def answer(request: str) -> Iterable[bytes | float]:
        first, last = map(int, re.findall(r"bytes=(\d+)-(\d+)", request)[0])
        yield head(first, last)
        while len(server.requests) == 1:
            yield 0.01
        yield RAW[first : last + 1]

    async def read_both(sources: Sources, location: Location) -> list[memoryview]:
        spans = (SourceRange(0, 4, True), PART)
        return await asyncio.gather(*(sources.fetch(location, span) for span in spans))

    with RawServer(answer) as server:
        sources = sources_of(server.url, client_options={"timeout": "5s"})
        found = asyncio.run(read_both(sources, location_of(f"{server.url}/f.bin")))
        assert found == [RAW[:4], RAW[4:12]]
        assert len(server.requests) == 2


@pytest.mark.slow
def test_many_objects_are_read_at_once() -> None:
    """More than questions are asked at once: their bytes do not hold up other questions."""
    count = 40
    started: list[float] = []

    def answer(request: str) -> Iterable[bytes | float]:
        started.append(time.monotonic())
        yield head(4, 11)
        while len(started) < count:
            yield 0.01
        yield RAW[4:12]

    async def read_all(sources: Sources, url: str) -> list[memoryview]:
        locations = (location_of(f"{url}/{number}.bin") for number in range(count))
        return await asyncio.gather(*(sources.fetch(each, PART) for each in locations))

    with RawServer(answer) as server:
        sources = sources_of(server.url, client_options={"timeout": "20s"})
        assert asyncio.run(read_all(sources, server.url)) == [RAW[4:12]] * count
        assert len(server.requests) == count
