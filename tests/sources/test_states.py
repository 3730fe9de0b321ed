"""The present state of an object is what its reader would accept as a condition."""

from __future__ import annotations

from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore

import zarr_manifest as zm
from tests.servers.http_files import FileServer
from tests.servers.s3 import S3Server
from zarr_manifest.format import Conditions
from zarr_manifest.locations import Base
from zarr_manifest.sources import (
    Access,
    SourceRange,
    Sources,
    access_by_prefix,
    in_own_loop,
    reader_of,
)

BODY = bytes(range(20))
FIRST = SourceRange(0, 4, True)


def state_of(
    url: str, allow: dict[str, Access] | list[str], version: str | None = None
) -> Conditions:
    access = access_by_prefix(allow)
    sources = Sources(access, None)  # type: ignore[arg-type]
    location = Base.parse("./").resolve(url)
    state = in_own_loop(sources.state(location, version))
    assert state.size == len(BODY)
    assert bytes(in_own_loop(sources.fetch(location, FIRST, state))) == BODY[:4]
    assert bytes(in_own_loop(sources.fetch(location, FIRST, state.recordable()))) == BODY[:4]
    return state.recordable()


def test_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(BODY)
    state = state_of((tmp_path / "x").as_uri(), [f"{tmp_path}/"])
    assert state.etag is None
    assert state.last_modified is not None
    with pytest.raises(zm.errors.SourceNotFoundError):
        state_of((tmp_path / "y").as_uri(), [f"{tmp_path}/"])


def test_on_a_web_server(http_server: FileServer, second_http_server: FileServer) -> None:
    http_server.put("strong", BODY, etag='"a"')
    http_server.put("weak", BODY, etag='W/"a"')
    assert state_of(f"{http_server.url}/strong", [http_server.url]) == Conditions('"a"', size=20)
    weak = state_of(f"{http_server.url}/weak", [http_server.url])
    assert weak.etag == 'W/"a"'
    assert weak.last_modified is not None  # it counts beside a weak tag
    with pytest.raises(zm.errors.LocationNotAllowedError):
        state_of(f"{second_http_server.url}/x", [http_server.url])


def test_in_a_bucket(s3_server: S3Server, s3_bucket: str) -> None:
    allow: dict[str, Access] = {f"s3://{s3_bucket}/": s3_server.options}
    s3_server.enable_versioning(s3_bucket)
    first = s3_server.put(s3_bucket, "x", BODY)
    s3_server.put(s3_bucket, "x", BODY[::-1] + b"more")
    state = state_of(f"s3://{s3_bucket}/x", allow, first)
    assert state.version == first
    assert state.last_modified is None
    s3_server.delete(s3_bucket, "x", first)
    with pytest.raises(zm.errors.SourceChangedError):
        state_of(f"s3://{s3_bucket}/x", allow, first)


def test_an_object_that_has_become_shorter_has_changed() -> None:
    """Rather than that the range was always beyond its end."""
    store = MemoryStore()
    obstore.put(store, "a", bytes(24))
    reading = reader_of(store).read("a", SourceRange(30, 40, True), Conditions('"other"'))
    with pytest.raises(zm.errors.SourceChangedError):
        in_own_loop(reading)
