"""Selections from servers that misbehave: the values of a naive reader or an error, and no leak."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.buffer import cpu
from zarr.core.buffer import BufferPrototype

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from tests.properties import THOROUGH
from tests.quick_retries import NO_RETRIES, QUICK
from tests.servers.http_answers import correct_answer
from tests.servers.http_files import (
    Exchange,
    Fault,
    FileServer,
    Reply,
    delay,
    ignore_range,
    reset,
    short_body,
    short_content_range,
    status,
    truncate,
    wrong_body_longer,
)

OBJECTS, EACH, CHUNK = 8, 12, 512
DATA = np.random.default_rng(7).integers(1, 256, OBJECTS * EACH * CHUNK, "u1")
BODIES = [one.tobytes() for one in np.split(DATA, OBJECTS)]
# Another version of each object, which shares no byte with the first.
OTHERS = [(255 - np.frombuffer(body, "u1")).tobytes() for body in BODIES]

TRANSIENT: dict[str, Callable[[random.Random, int], Fault]] = {
    "reset": lambda chance, number: reset(),
    "dripping": lambda chance, number: delay(chance.random() / 50),
    "cut off": lambda chance, number: truncate(chance.randrange(EACH * CHUNK)),
    "busy": lambda chance, number: status(503, retry_after=0),
    "failing": lambda chance, number: status(500),
}
LASTING: dict[str, Callable[[random.Random, int], Fault]] = {
    "shorter": lambda chance, number: short_content_range(chance.randrange(1, CHUNK)),
    "short": lambda chance, number: short_body(chance.randrange(1, CHUNK)),
    "longer": lambda chance, number: wrong_body_longer(chance.randrange(1, CHUNK)),
    "whole": lambda chance, number: ignore_range(),
    "shifted": lambda chance, number: Fault(_shifted),
    "changed": lambda chance, number: _changed(OTHERS[number]),
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most answers arrive in pieces, some of which are received where they belong."""
    monkeypatch.setattr("zarr_manifest.sources.web.web_reader._PIECE", 3 * CHUNK)
    monkeypatch.setattr("zarr_manifest.sources.arrival._LEAST_ROOM", 2 * CHUNK)
    monkeypatch.setattr("zarr_manifest.sources.arrival._MOST_ROOM", 3 * CHUNK + 1)


def _shifted(exchange: Exchange) -> Reply:
    """Answer with other bytes than those that were asked for, and say so."""
    start, _, last = exchange.headers.get("range", "bytes=0-0")[6:].partition("-")
    other = {**exchange.headers, "range": f"bytes={int(start) + 1}-{int(last or 0) + 1}"}
    return Exchange(exchange.files, exchange.method, exchange.path, other).normal()


def naive_read(server: FileServer, number: int, start: int, stop: int) -> bytes | None:
    """Read a range of an object, chunk by chunk, on a connection of its own; None if it fails."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    try:
        wanted = {"Range": f"bytes={start}-{stop - 1}"}
        connection.request("GET", f"/d/{number}.bin", headers=wanted)
        answer = connection.getresponse()
        body = answer.read()
    except OSError:
        return None
    finally:
        connection.close()
    if answer.status == 200:
        return body[start:stop]
    stated = answer.headers.get("Content-Range", "").startswith(f"bytes {start}-{stop - 1}/")
    return body if answer.status == 206 and stated and len(body) == stop - start else None


def _changed(body: bytes) -> Fault:
    """Answer with another version; the next request may find the first one again."""

    def answer(exchange: Exchange) -> Reply:
        found = exchange.files.find(exchange.path)
        assert found is not None
        return correct_answer(replace(found, data=body, etag='"other"'), exchange.headers)

    return Fault(answer)


class Hierarchy:
    """An array whose chunks lie in a few objects of a server, with or without conditions."""

    def __init__(self, root: Path, server: FileServer, *, conditions: bool = True) -> None:
        self.server = server
        self.root = root
        self.restore()
        manifest: dict[str, Any] = {}
        for i in range(OBJECTS * EACH):
            number, offset = i // EACH, i % EACH * CHUNK
            path = f"{server.url}/d/{number}.bin"
            manifest[str(i)] = {"path": path, "offset": offset, "length": CHUNK}
            if conditions:
                manifest[str(i)]["etag"] = self.etags[number]
        write_manifest_array(root, "a", DATA, CHUNK, manifest, fill_value=0)

    def restore(self) -> None:
        """Let the server be as it should."""
        self.etags = [self.server.put(f"d/{i}.bin", body) for i, body in enumerate(BODIES)]
        for i in range(OBJECTS):
            self.server.script(f"d/{i}.bin")

    def opened(self, retries: Any = QUICK) -> Any:
        allow = {f"{self.server.url}/": zm.anonymous(retry_config=retries)}
        store = zm.ManifestStore(self.root, allow=allow, read_only=True)
        return zarr.open_array(store, path="a", mode="r")

    def disturb(self, chance: random.Random, kinds: dict[str, Any], *, sticky: bool) -> None:
        """Let some objects misbehave, each in its own way."""
        for number in chance.sample(range(OBJECTS), chance.randrange(1, OBJECTS)):
            faults = [
                kinds[name](chance, number)
                for name in chance.choices(list(kinds), k=chance.randrange(1, 3))
            ]
            self.server.script(f"d/{number}.bin", *faults, sticky=sticky)


def selections(chance: random.Random) -> list[Any]:
    n = len(DATA)
    start = chance.randrange(n - 1)
    return [
        slice(None),
        slice(start, chance.randrange(start + 1, n + 1)),
        slice(start, None, chance.randrange(1, 3 * CHUNK)),
        slice(start, start + 1),
    ]


@pytest.mark.parametrize("seed", range(4 if THOROUGH else 1))
def test_troubles_that_pass_are_not_noticed(
    seed: int, tmp_path: Path, http_server: FileServer
) -> None:
    chance = random.Random(seed)
    hierarchy = Hierarchy(tmp_path, http_server)
    for _ in range(5):
        hierarchy.disturb(chance, TRANSIENT, sticky=False)
        array = hierarchy.opened()
        for select in selections(chance):
            np.testing.assert_array_equal(array[select], DATA[select])
        hierarchy.restore()


@pytest.mark.parametrize("conditions", [True, False])
@pytest.mark.parametrize("seed", range(4 if THOROUGH else 1))
def test_no_other_bytes_are_returned_than_a_naive_reader_finds(
    seed: int, conditions: bool, tmp_path: Path, http_server: FileServer
) -> None:
    """Each chunk is the one of an honest answer, or there is an error."""
    chance = random.Random(f"{seed} {conditions}")
    hierarchy = Hierarchy(tmp_path, http_server, conditions=conditions)
    outcomes: set[str] = set()
    for _ in range(6):
        hierarchy.disturb(chance, {**TRANSIENT, **LASTING}, sticky=chance.random() < 0.7)
        array = hierarchy.opened(NO_RETRIES if chance.random() < 0.5 else QUICK)
        for select in selections(chance):
            positions = np.arange(len(DATA))[select]
            try:
                found = array[select]
            except zm.ManifestError as error:
                outcomes.add(error.code if error.array == "a" and error.chunk else "unexplained")
                continue
            outcomes.add("values")
            other = np.frombuffer(b"".join(OTHERS), "u1")[positions]
            for chunk in np.unique(positions // CHUNK):
                rows = positions // CHUNK == chunk
                of_first = (found[rows] == DATA[positions[rows]]).all()
                of_other = not conditions and (found[rows] == other[rows]).all()
                assert of_first or of_other
        hierarchy.restore()
        for number in chance.sample(range(OBJECTS), 2):
            start = chance.randrange(EACH) * CHUNK
            expected = naive_read(http_server, number, start, start + CHUNK)
            first = number * EACH * CHUNK + start
            assert hierarchy.opened()[first : first + CHUNK].tobytes() == expected
    assert {"values"} < outcomes
    assert "unexplained" not in outcomes


# Cancellation, and what is left behind --------------------------------------------------------


def test_a_cancelled_read_ends_before_anybody_goes_on(
    tmp_path: Path, http_server: FileServer
) -> None:
    """Nothing is written to its output any more, no task is left, and the next read is right."""
    chance = random.Random(3)
    array = Hierarchy(tmp_path, http_server).opened()
    for number in range(OBJECTS):
        slow = [delay(chance.random() / 10) for _ in range(20)]
        http_server.script(f"d/{number}.bin", *slow, sticky=True)

    async def cancel_one() -> bool:
        out = np.zeros(len(DATA), "u1")

        class Ours(cpu.NDBuffer):
            """Lets zarr read to the output."""

            @classmethod
            def create(cls, **_: Any) -> Any:
                return cpu.NDBuffer(out)

            @classmethod
            def empty(cls, *_: Any, **options: Any) -> Any:
                return cpu.NDBuffer(out)

        prototype = BufferPrototype(buffer=cpu.Buffer, nd_buffer=Ours)
        reading = asyncio.ensure_future(array.async_array.getitem(..., prototype=prototype))
        await asyncio.sleep(chance.random() / 8)
        reading.cancel()
        await asyncio.wait([reading])
        before = out.copy()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await asyncio.sleep(0.05)
        assert (out == before).all()
        begun.append(out.any())
        return reading.cancelled()

    begun: list[bool] = []
    cancelled = [asyncio.run(cancel_one()) for _ in range(8)]
    assert any(cancelled)
    assert any(begun)
    np.testing.assert_array_equal(array[...], DATA)


def connections_to(server: FileServer) -> int:
    """How many connections to a server this machine has open."""
    port = f"{int(server.url.rpartition(':')[2]):04X}"
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]
    # 06: the system waits for what may still arrive of one that is closed.
    return sum(f[2].endswith(f":{port}") and f[3] != "06" for f in fields)


# The server's threads, and those that make requests, which are kept for later ones.
_OTHER_THREADS = ("process_request", "zarr-manifest-web")


def left_behind() -> tuple[int, int]:
    """Threads of no other purpose, and descriptors that are no connections."""
    gc.collect()
    names = [thread.name for thread in threading.enumerate()]
    threads = [name for name in names if not any(other in name for other in _OTHER_THREADS)]
    descriptors = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the directory itself is closed by now
            descriptors += not str(path.readlink()).startswith("socket:")
    return len(threads), descriptors


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the system of Linux")
def test_nothing_is_left_behind(tmp_path: Path, http_server: FileServer) -> None:
    """However often reads fail and are cancelled."""
    chance = random.Random(5)
    hierarchy = Hierarchy(tmp_path, http_server)
    array = hierarchy.opened()

    async def cancel_one() -> None:
        reading = asyncio.ensure_future(array.async_array.getitem(...))
        await asyncio.sleep(chance.random() / 20)
        reading.cancel()
        await asyncio.wait([reading])

    # A cancelled request may change an object when it arrives, after the server is as it should.
    kinds = {name: kind for name, kind in {**TRANSIENT, **LASTING}.items() if name != "changed"}

    def rounds(count: int) -> tuple[int, int]:
        for _ in range(count):
            hierarchy.disturb(chance, kinds, sticky=True)
            with suppress(zm.ManifestError):
                array[...]
            asyncio.run(cancel_one())
            hierarchy.restore()
            np.testing.assert_array_equal(array[...], DATA)
        return left_behind()

    few = 15 if THOROUGH else 6
    threads, descriptors = rounds(few)
    later, more = rounds(2 * few)
    assert later <= threads
    assert more <= descriptors
    making_requests = [t for t in threading.enumerate() if t.name == "zarr-manifest-web"]
    # Cancelled requests may not have ended when the next begin: as many threads as there may be.
    assert len(making_requests) <= 64
    assert connections_to(http_server) <= 4 * OBJECTS
