"""Large bodies are taken as they arrive: every byte goes where it belongs, and no further."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import HTTPStore, MemoryStore

from tests.quick_retries import NO_RETRIES
from tests.servers.http_files import FileServer, change, delay, truncate
from tests.servers.raw import RawServer
from tests.sources.receivers import Collector, Taken
from zarr_manifest.errors import ShortReadError
from zarr_manifest.format import NO_CONDITIONS
from zarr_manifest.locations import Base
from zarr_manifest.sources import (
    ManyRanges,
    RangeError,
    SourceObject,
    SourceRange,
    Sources,
    anonymous,
    read_ranges,
    reader_of,
)
from zarr_manifest.sources.arrival import Arrival

# Bodies of this size are taken piece by piece.
LARGE = 2**20
BODY = np.random.default_rng(1).integers(0, 256, 3 * LARGE, "u1").tobytes()


def is_even(row: int) -> bool:
    return row % 2 == 0


def ranges_of(url: str, spans: Sequence[tuple[int, int]]) -> ManyRanges:
    starts, stops = np.array(spans, np.int64).reshape(len(spans), 2).T
    source = SourceObject(Base.parse("./").resolve(url), NO_CONDITIONS)
    return ManyRanges([source], np.zeros(len(spans), np.int64), starts, stops)


SPANS = st.lists(
    st.tuples(st.integers(0, 90), st.integers(1, 60)).map(lambda s: (s[0], s[0] + s[1])),
    min_size=1,
    max_size=12,
)


ADJACENT = st.lists(st.integers(0, 100), min_size=2, max_size=8, unique=True).map(
    lambda cuts: list(pairwise(sorted(cuts)))
)
CUTS = st.lists(st.integers(1, 149), max_size=8)


@given(
    spans=SPANS | ADJACENT,
    cuts=CUTS,
    earlier=CUTS,
    given_up=st.integers(0, 9),
    prepared=st.integers(0, 9),
    least_room=st.sampled_from([1, 20, 200]),
    every=st.integers(1, 2),
)
def test_ranges_get_their_bytes_however_they_are_cut(
    spans: list[tuple[int, int]],
    cuts: list[int],
    earlier: list[int],
    given_up: int,
    prepared: int,
    least_room: int,
    every: int,
) -> None:
    """Also if a first attempt fails after some of the pieces, of another version of the object.

    What was received of it stays: each range is of one answer. And whether preparing for the
    pieces comes before, between or after them.
    """
    ranges = ranges_of("s3://b/a", spans)
    (request,) = Sources({}, reader_of(MemoryStore())).plan(ranges.objects[0].location, spans)
    start, stop = request.start, request.stop
    collector = Collector(ranges, lambda row: row % every == 0)
    members = list(request.members)
    arrival = Arrival(members, ranges.spans(members), start, collector, threading.Event())

    def hand_over(body: bytes, first: int, last: int) -> None:
        """Put bytes where there is room for them, and let the others be taken."""
        while first < last:
            room = arrival.room(first)
            after = last if room is None else min(last, first + len(room))
            part = memoryview(body)[start + first : start + after]
            if room is None:
                arrival.take(first, part)
            else:
                room[: len(part)] = part
            first = after

    received = start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarr_manifest.sources.arrival._LEAST_ROOM", least_room)
        for first, last in cut_at(earlier, stop - start)[:given_up]:
            hand_over(bytes(len(BODY)), first, last)
            received = start + last
        for number, (first, last) in enumerate(cut_at(cuts, stop - start)):
            if number == prepared:
                arrival.prepare()
            hand_over(BODY, first, last)
    arrival.prepare()
    assert collector.found() == [
        bytes(b - a) if row % every and b <= received else BODY[a:b]
        for row, (a, b) in enumerate(spans)
    ]


def cut_at(cuts: Sequence[int], size: int) -> list[tuple[int, int]]:
    return list(pairwise(sorted({0, *(cut for cut in cuts if cut < size), size})))


SCATTERED = [(0, 10), (LARGE - 5, LARGE + 5), (7, 2 * LARGE), (2 * LARGE, 3 * LARGE), (3, 4)]


@pytest.mark.parametrize("changes", [False, True])
def test_large_bodies_of_a_server(changes: bool, http_server: FileServer) -> None:
    http_server.put("o.bin", bytes(len(BODY)) if changes else BODY)
    ranges = ranges_of(f"{http_server.url}/o.bin", SCATTERED)
    sources = Sources({f"{http_server.url}/": None}, reader_of(HTTPStore.from_url("http://h.test")))

    async def read() -> list[bytes]:
        collector = Collector(ranges, is_even)
        await read_ranges(sources, ranges, collector)
        return collector.found()

    first = asyncio.run(read())
    if changes:
        assert not any(map(any, first))
        http_server.script("o.bin", change(BODY))
    assert asyncio.run(read()) == [BODY[a:b] for a, b in SCATTERED]
    assert len(http_server.requests) == 2


def test_pieces_of_a_large_body_share_their_memory(http_server: FileServer) -> None:
    """It takes the system as long to clear memory as to receive it. The connection is kept."""
    http_server.put("o.bin", BODY + b"!")
    places: set[int] = set()

    class Watched(Taken):
        def take(self, before: int, piece: memoryview) -> None:
            super().take(before, piece)
            places.add(np.frombuffer(piece, np.uint8).ctypes.data)

    location = Base.parse("./").resolve(f"{http_server.url}/o.bin")
    sources = Sources({f"{http_server.url}/": None}, reader_of(MemoryStore()))
    for _ in range(2):
        places.clear()
        taken = Watched()
        span = SourceRange(1, len(BODY) + 1, True)
        assert not asyncio.run(sources.fetch(location, span, NO_CONDITIONS, taken))
        assert taken.bytes == BODY[1:] + b"!"
        assert len(places) == 1
    assert http_server.connections == 1


def test_a_large_body_that_comes_to_a_halt_is_requested_again() -> None:
    answers: list[str] = []

    def answer(request: str) -> Iterator[bytes | float]:
        answers.append(request)
        head = f"Content-Length: {len(BODY)}\r\nContent-Range: bytes 0-{len(BODY) - 1}/{len(BODY)}"
        yield f"HTTP/1.1 206 Partial Content\r\n{head}\r\n\r\n".encode()
        yield BODY[: LARGE + 5]
        if len(answers) == 1:
            yield 5.0
        yield BODY[LARGE + 5 :]

    spans = [(0, LARGE), (LARGE, len(BODY))]
    with RawServer(answer) as server:
        ranges = ranges_of(f"{server.url}/o.bin", spans)
        collector = Collector(ranges, is_even)
        allow: Any = {f"{server.url}/": anonymous(client_options={"timeout": "500ms"})}
        sources = Sources(allow, reader_of(HTTPStore.from_url("http://h.test")))
        started = time.monotonic()
        asyncio.run(read_ranges(sources, ranges, collector))
        assert time.monotonic() - started < 4
    assert (len(answers), b"".join(collector.found())) == (2, BODY)


def test_destinations_are_found_while_an_answer_is_waited_for(http_server: FileServer) -> None:
    http_server.put("o.bin", BODY)
    ranges = ranges_of(f"{http_server.url}/o.bin", SCATTERED)
    sources = Sources({f"{http_server.url}/": None}, reader_of(HTTPStore.from_url("http://h.test")))
    asyncio.run(read_ranges(sources, ranges, Collector(ranges, is_even)))
    http_server.script("o.bin", delay(1.0))
    found_after: list[float] = []

    class Watched(Collector):
        def places(self, rows: Sequence[int], sizes: Sequence[int]) -> list[int]:
            found_after.append(time.monotonic() - start)
            return super().places(rows, sizes)

    collector = Watched(ranges, is_even)
    start = time.monotonic()
    asyncio.run(read_ranges(sources, ranges, collector))
    assert time.monotonic() - start >= 1.0
    assert sorted(collector.asked) == [*range(len(SCATTERED))]
    assert max(found_after) < 1.0
    assert collector.found() == [BODY[a:b] for a, b in SCATTERED]


def test_ranges_are_received_while_the_rest_arrives() -> None:
    """Once: a request that fails after that is repeated for the others only."""
    spans = [(0, LARGE), (LARGE, 2 * LARGE), (2 * LARGE, 3 * LARGE)]
    collector = Collector(ranges_of("s3://b/a", spans), lambda _: False)
    received: list[list[int]] = []

    def answer(_request: str) -> Iterator[bytes | float]:
        head = f"Content-Length: {len(BODY)}\r\nContent-Range: bytes 0-{len(BODY) - 1}/{len(BODY)}"
        yield f"HTTP/1.1 206 Partial Content\r\n{head}\r\n\r\n".encode()
        if received:
            yield BODY
            return
        yield BODY[: 2 * LARGE + 5]
        deadline = time.monotonic() + 10
        while len(collector.bodies) < 2 and time.monotonic() < deadline:
            yield 0.01
        received.append(sorted(collector.bodies))

    with RawServer(answer) as server:
        allow = {f"{server.url}/": None}
        sources = Sources(allow, reader_of(HTTPStore.from_url("http://h.test")))
        asyncio.run(read_ranges(sources, ranges_of(f"{server.url}/o.bin", spans), collector))
    assert received == [[0, 1]]
    assert collector.found() == [BODY[a:b] for a, b in spans]


def test_a_large_body_that_ends_early(http_server: FileServer) -> None:
    http_server.put("o.bin", BODY)
    ranges = ranges_of(f"{http_server.url}/o.bin", SCATTERED)
    allow: Any = {f"{http_server.url}/": anonymous(retry_config=NO_RETRIES)}
    sources = Sources(allow, reader_of(HTTPStore.from_url("http://h.test")))
    asyncio.run(read_ranges(sources, ranges, Collector(ranges, is_even)))
    http_server.script("o.bin", truncate(2 * LARGE), sticky=True)
    with pytest.raises(RangeError) as raised:
        asyncio.run(read_ranges(sources, ranges, Collector(ranges, is_even)))
    assert isinstance(raised.value.error, ShortReadError)


@pytest.mark.parametrize("sizes", [[LARGE - 1], [LARGE, 1], []])
def test_the_announced_length_is_what_must_arrive(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients check it, too: here one that does not. Nothing beyond it is taken."""

    class Careless:
        range = (2, LARGE + 2)
        attributes: ClassVar[dict[str, str]] = {}
        meta: ClassVar[dict[str, Any]] = {"size": LARGE + 2}

        async def stream(self, min_chunk_size: int) -> AsyncIterator[bytes]:
            for size in sizes:
                yield bytes(size)

    async def answer(*_: object, **__: object) -> Careless:
        return Careless()

    monkeypatch.setattr(obstore, "get_async", answer)
    taken = Taken()
    reader = reader_of(MemoryStore())
    with pytest.raises(ShortReadError, match=f"announced {LARGE:,} bytes"):
        asyncio.run(reader.read("f", SourceRange(2, LARGE + 2, True), NO_CONDITIONS, taken))
    assert len(taken.bytes) <= LARGE


@pytest.mark.parametrize("has_room", [False, True])
def test_a_body_that_does_not_end_is_not_waited_for(has_room: bool) -> None:
    """What arrives after a cancelled read goes nowhere."""
    size = 4 * LARGE
    memory = bytearray(b"\xff") * size

    class Anywhere(Taken):
        def room(self, before: int) -> memoryview | None:  # type: ignore[override]
            self.begins.append(before)
            return memoryview(memory)[before : before + LARGE] if has_room else None

    taken = Anywhere()

    def answer(_: str) -> Iterator[bytes | float]:
        yield b"HTTP/1.1 206 Partial Content\r\nContent-Type: application/octet-stream\r\n"
        yield b"Last-Modified: Wed, 31 Jan 2024 12:00:00 GMT\r\n"
        yield f"Content-Length: {size}\r\n".encode()
        yield f"Content-Range: bytes 0-{size - 1}/{size}\r\n\r\n".encode()
        yield bytes(size // 2)
        yield 0.5
        yield bytes(size // 2)

    async def read(reader: Any) -> None:
        span = SourceRange(0, size, True)
        reading = asyncio.ensure_future(reader.read("o.bin", span, NO_CONDITIONS, taken))
        while not any(taken.begins):
            await asyncio.sleep(0.001)
        started = time.monotonic()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert time.monotonic() - started < 0.3
        before = (list(taken.begins), bytes(memory))
        await asyncio.sleep(0.8)
        assert (taken.begins, memory) == before

    with RawServer(answer) as server:
        store = HTTPStore.from_url(server.url, client_options={"allow_http": True})
        asyncio.run(read(reader_of(store)))
