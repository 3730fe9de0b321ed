"""Errors of the hierarchy's own store: one sentence, with a remedy, and nothing of obstore's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import obstore.store
import pytest
import zarr

import zarr_manifest as zm
from tests.quick_retries import NO_RETRIES
from tests.servers.s3 import S3Server
from zarr_manifest.errors import ManifestError

QUICK: dict[str, Any] = {"retry_config": NO_RETRIES}


def everything(error: BaseException) -> str:
    """All that is told of an error, by whatever shows it."""
    told = f"{error!s} {error!r} {getattr(error, 'remedy', '')}"
    return told + "".join(map(everything, filter(None, [error.__cause__, error.__context__])))


CALLS: dict[str, Callable[[Any, Any], object]] = {
    "open": lambda place, allow: zarr.open_group(zm.ManifestStore(place, allow=allow), mode="r"),
    "create group": lambda place, allow: zarr.create_group(zm.ManifestStore(place, allow=allow)),
    "create array": lambda place, allow: zm.create_array(
        place, "a", {}, shape=1, chunks=1, dtype="u1", allow=allow
    ),
    "contents": lambda place, allow: zm.contents(place, allow=allow),
}


def check(call: str, place: Any, allow: Any, code: str, *parts: str) -> None:
    with pytest.raises(ManifestError) as raised:
        CALLS[call](place, allow)
    error = raised.value
    assert error.code == code
    assert error.location is not None
    assert all(part in str(error) for part in parts), str(error)
    assert "\n" not in str(error)
    assert "Debug source" not in everything(error)
    assert "RetryError" not in everything(error)


@pytest.mark.parametrize("call", CALLS)
def test_no_access(call: str, s3_server: S3Server, s3_bucket: str) -> None:
    options = zm.anonymous(endpoint=s3_server.endpoint, region="us-east-1", **QUICK)
    allow = {f"s3://{s3_bucket}/": options}  # over http, as the endpoint says
    check(call, f"s3://{s3_bucket}/h", allow, "source_access_denied", "credentials")


@pytest.mark.parametrize("call", CALLS)
def test_no_bucket(call: str, s3_server: S3Server) -> None:
    allow = {"s3://no-such-bucket/": {**s3_server.options, **QUICK}}
    check(call, "s3://no-such-bucket/h", allow, "source_not_found", "no such bucket", "endpoint")


@pytest.mark.parametrize("call", CALLS)
def test_an_unknown_host(call: str) -> None:
    options = zm.anonymous(endpoint="https://nowhere.invalid", region="us-east-1", **QUICK)
    check(call, "s3://b/h", {"s3://b/": options}, "source_error", "host is unknown", "Check")


@pytest.mark.slow
def test_an_unknown_web_server() -> None:
    allow = {"https://nowhere.invalid/": zm.anonymous(**QUICK)}
    check("open", "https://nowhere.invalid/h", allow, "source_error", "host is unknown")


def test_a_store_that_refuses_http(s3_server: S3Server) -> None:
    store = obstore.store.S3Store(
        "b", endpoint=s3_server.endpoint, skip_signature=True, region="us-east-1", **QUICK
    )
    check("open", store, None, "source_error", "http://", "allow_http")


@pytest.mark.parametrize("value", [True, 1])
def test_allow_that_is_no_list(value: Any) -> None:
    with pytest.raises(TypeError, match="a list of prefixes, or a mapping, not"):
        zm.ManifestStore("h", allow=value)


# The threads of obstore have started, which a fork lacks: it would wait for them forever.
FORK = """
import asyncio, os, signal
import obstore
import zarr_manifest.sources
from obstore.store import MemoryStore
from zarr.storage import ObjectStore
from zarr_manifest.errors import SourceError
from zarr_manifest.stores import inside_store
from zarr_manifest.writing import guarded_store

store = inside_store(ObjectStore(MemoryStore()))

def names(method):
    async def listed():
        return [name async for name in getattr(store, method)("")]
    return asyncio.run(listed())

calls = [
    lambda: names("list_dir"),
    lambda: names("list_prefix"),
    lambda: guarded_store(MemoryStore()).create("zarr.json", b"{}"),
]
obstore.put(MemoryStore(), "key", b"")  # which leaves no thread idle, but has started some
child = os.fork()
if child:
    signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.alarm(20)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
zarr_manifest.sources.processes._LONGEST_ANSWER = 0.2
for call in calls:
    try:
        call()
    except SourceError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_fork_waits_neither_for_a_list_nor_for_a_put() -> None:
    # In a process of its own: in a fork, threads are found missing more easily.
    call = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(call, capture_output=True, check=False, text=True)
    assert done.stdout.count("it is a fork of one that had read some") == 3, done.stderr
    assert done.returncode == 0
