"""Requests to web servers are made in threads: cut off, given up and repeated in time."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import obstore.store
import pytest
from urllib3.util.connection import is_connection_dropped

from tests.quick_retries import NO_RETRIES, QUICK
from tests.servers.http_files import Exchange, Fault, FileServer, Reply, status
from tests.servers.raw import RawServer
from tests.sources.receivers import Taken
from tests.untrusted_manifests import RAW
from zarr_manifest.errors import SourceError, SourceNotFoundError
from zarr_manifest.format import NO_CONDITIONS
from zarr_manifest.locations import Base
from zarr_manifest.sources import SourceRange, Sources, in_own_loop, reader_of

PART = SourceRange(4, 12, True)


def sources_of(url: str, **options: Any) -> Sources:
    access = {"retry_config": QUICK, **options}
    return Sources({url: access}, reader_of(obstore.store.MemoryStore()), max_gap=-1)


def location_of(url: str) -> Any:
    return Base.parse("./").resolve(f"{url}/f.bin")


class Endless(RawServer):
    """Announces a body of which a part arrives; says when the client has gone."""

    def __init__(self, *parts: bytes) -> None:
        self.gone = threading.Event()

        def answer(_: str) -> Iterator[bytes | float]:
            yield from parts
            try:
                while True:
                    yield 0.01
                    yield b"x"
            finally:
                self.gone.set()

        super().__init__(answer)


HEAD = (
    b"HTTP/1.1 206 OK\r\nContent-Length: 99999999\r\nContent-Range: bytes 0-99999998/99999999\r\n"
)


@pytest.mark.parametrize(
    "parts", [(b"HTTP/1.1 206 OK\r\n",), (HEAD, b"\r\n"), (HEAD, b"\r\n", bytes(1 << 21))]
)
def test_a_cancelled_read_gives_its_connection_up(parts: tuple[bytes, ...]) -> None:
    """Whether it waits for the head of an answer or for the rest of a body."""
    taken = Taken()

    async def read(server: Endless) -> None:
        reading = asyncio.ensure_future(
            sources_of(server.url).fetch(
                location_of(server.url),
                SourceRange(0, 99999999, True),
                NO_CONDITIONS,
                taken,
            )
        )
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        started = time.monotonic()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert time.monotonic() - started < 0.3
        before = list(taken.begins)
        assert await asyncio.to_thread(server.gone.wait, 5)
        assert taken.begins == before

    with Endless(*parts) as server:
        asyncio.run(read(server))
        assert len(server.requests) == 1


def test_a_cancelled_read_is_not_repeated(http_server: FileServer) -> None:
    http_server.script("f.bin", status(503, retry_after=1), sticky=True)

    async def read() -> None:
        reading = sources_of(http_server.url).fetch(location_of(http_server.url), PART)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reading, 0.3)
        await asyncio.sleep(1.2)

    asyncio.run(read())
    assert len(http_server.requests) == 1


def test_other_reads_go_on_when_one_is_cancelled(http_server: FileServer) -> None:
    """Connections are handed on: the one that is cut off is nobody else's."""
    http_server.latency = 0.002
    http_server.put("f.bin", RAW)
    sources = sources_of(http_server.url, retry_config=NO_RETRIES)
    location = location_of(http_server.url)

    async def read_all() -> None:
        reads = [asyncio.ensure_future(sources.fetch(location, PART)) for _ in range(300)]
        for number, read in enumerate(reads[::3]):
            asyncio.get_running_loop().call_later(number * 0.001, read.cancel)
        found = await asyncio.gather(*reads, return_exceptions=True)
        for number, body in enumerate(found):
            if number % 3:
                assert body == RAW[4:12]

    asyncio.run(read_all())


def test_a_late_cut_is_not_that_of_the_next_read(
    http_server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one before is cancelled when its connection has just been found to be usable."""
    http_server.put("f.bin", RAW)
    sources = sources_of(http_server.url, retry_config=NO_RETRIES)
    location = location_of(http_server.url)
    cut: list[Any] = []

    def cut_after_looking(connection: Any) -> bool:
        before, found = connection.transfer, is_connection_dropped(connection)
        before.connection = connection
        before.cancel()
        cut.append(connection)
        return found

    monkeypatch.setattr("urllib3.connectionpool.is_connection_dropped", cut_after_looking)
    for _ in range(2):
        assert in_own_loop(sources.fetch(location, PART)) == RAW[4:12]
    assert len(cut) == 1


# ---------------------------------------------------------------- repeated requests


@pytest.mark.parametrize(("code", "as_date"), [(429, True), (503, False)])
def test_retry_after_is_heeded(http_server: FileServer, code: int, as_date: bool) -> None:
    def answer(_: Exchange) -> Reply:
        when = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
        return Reply(code, {"Retry-After": when if as_date else "1"}, b"")

    http_server.put("f.bin", RAW)
    http_server.script("f.bin", Fault(answer))
    started = time.monotonic()
    found = in_own_loop(sources_of(http_server.url).fetch(location_of(http_server.url), PART))
    assert bytes(found) == RAW[4:12]
    assert time.monotonic() - started >= 0.9


@pytest.mark.parametrize("stated", ["3600", "soon"])
def test_retry_after_that_is_too_late_or_unknown(http_server: FileServer, stated: str) -> None:
    """Nobody waits for an hour: the error comes immediately."""
    http_server.script(
        "f.bin", Fault(lambda _: Reply(503, {"Retry-After": stated}, b"")), sticky=True
    )
    started = time.monotonic()
    with pytest.raises(SourceError, match="503"):
        in_own_loop(sources_of(http_server.url).fetch(location_of(http_server.url), PART))
    assert time.monotonic() - started < 1
    assert len(http_server.requests) == (1 if stated == "3600" else 4)


def test_a_late_answer_is_requested_again() -> None:
    def answer(_: str) -> Iterable[bytes | float]:
        if len(server.requests) == 1:
            yield 10.0
        yield b"HTTP/1.1 206 OK\r\nContent-Length: 8\r\nContent-Range: bytes 4-11/24\r\n\r\n"
        yield RAW[4:12]

    with RawServer(answer) as server:
        sources = sources_of(server.url, client_options={"timeout": "200ms"})
        assert bytes(in_own_loop(sources.fetch(location_of(server.url), PART))) == RAW[4:12]
        assert len(server.requests) == 2


# ---------------------------------------------------------------- processes


def _read_in_child(url: str, results: Any) -> None:
    async def read() -> bytes:
        return bytes(await _sources[url].fetch(location_of(url), PART))

    results.put((asyncio.run(read()), asyncio.run(read())))


_sources: dict[str, Sources] = {}


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_threads_and_connections_of_its_own(http_server: FileServer) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system has no fork")
    http_server.put("f.bin", RAW)
    url = http_server.url
    sources = _sources[url] = sources_of(url)

    async def read() -> bytes:
        return bytes(await sources.fetch(location_of(url), PART))

    assert asyncio.run(read()) == RAW[4:12]
    context = multiprocessing.get_context("fork")
    results: Any = context.Queue()
    child = context.Process(target=_read_in_child, args=(url, results))
    child.start()
    assert results.get(timeout=10) == (RAW[4:12], RAW[4:12])
    child.join(10)
    assert child.exitcode == 0
    assert asyncio.run(read()) == RAW[4:12]


def test_threads_keep_nothing_of_what_they_have_read(http_server: FileServer) -> None:
    """Nor of what failed: errors refer to the frames that they passed, and these to anything."""

    class Caller:
        """Something that is alive as long as the frame of a call."""

    async def read() -> weakref.ref[Caller]:
        caller = Caller()
        with suppress(SourceNotFoundError):
            await sources_of(http_server.url).fetch(location_of(http_server.url), PART)
        return weakref.ref(caller)

    caller = asyncio.run(read())
    gc.collect()
    assert caller() is None
