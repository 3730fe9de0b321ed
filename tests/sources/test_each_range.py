"""Ranges that are looked at, each once, also after others that cannot be read."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import obstore as obs
import obstore.store
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tests.quick_retries import QUICK
from tests.servers.http_files import FileServer, redirect, status
from zarr_manifest import anonymous
from zarr_manifest.errors import ChecksumMismatchError, ManifestError, SourceNotFoundError
from zarr_manifest.format import NO_CONDITIONS
from zarr_manifest.locations import Base
from zarr_manifest.sources import ManyRanges, SourceObject, Sources, read_each, reader_of

BODY = np.random.default_rng(0).integers(0, 256, 1000, "u1").tobytes()


class Looking:
    """Reads ranges, and keeps what is found of each."""

    def __init__(self, sources: Sources, urls: Sequence[str], rows: Sequence[Sequence[int]]):
        objects = [SourceObject(Base.parse("./").resolve(url), NO_CONDITIONS) for url in urls]
        columns = np.array(rows, np.int64).reshape(len(rows), 3).T
        self.bodies: dict[int, bytes] = {}
        self.errors: dict[int, ManifestError] = {}
        self._lock = threading.Lock()
        asyncio.run(read_each(sources, ManyRanges(objects, *columns), self.use, self.fail))

    def use(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        with self._lock:
            assert self.bodies.keys().isdisjoint(rows)
            self.bodies |= zip(rows, map(bytes, bodies), strict=True)

    def fail(self, rows: Sequence[int], error: ManifestError) -> None:
        with self._lock:
            for row in rows:
                assert row not in self.errors
                self.errors[row] = error


def sources_of(**allow: Any) -> Sources:
    return Sources(allow, reader_of(obstore.store.MemoryStore()))


ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1100), st.sampled_from([-1, 0, 1, 20, 300])).map(
        lambda row: (row[0], row[1], -1 if row[2] < 0 else row[1] + row[2])
    ),
    max_size=40,
)


@pytest.mark.slow
@examples(2)
@given(rows=ROWS)
def test_each_is_read_or_fails(tmp_path_factory: pytest.TempPathFactory, rows: Any) -> None:
    """Of a file and an object; of each, there is another one that is missing."""
    directory = tmp_path_factory.getbasetemp()
    (directory / "a").write_bytes(BODY)
    remote = obstore.store.MemoryStore()
    obs.put(remote, "a", BODY)
    sources = sources_of(**{directory.as_uri(): None, "s3://b/": remote})
    places = [directory.as_uri(), "s3://b"]
    urls = [f"{place}/{name}" for place in places for name in ("a", "missing")]
    found = Looking(sources, urls, rows)
    for row, (number, start, stop) in enumerate(rows):
        if stop == start:
            assert found.bodies[row] == b""  # without a request
            continue
        is_there = number % 2 == 0 and (start < len(BODY) if stop < 0 else stop <= len(BODY))
        assert (row in found.bodies, row in found.errors) == (is_there, not is_there)
        if is_there:
            assert found.bodies[row] == BODY[start : len(BODY) if stop < 0 else stop]
        else:
            code = "source_not_found" if number % 2 else "range_out_of_bounds"
            assert found.errors[row].code == code
            assert found.errors[row].location == urls[number]


def test_one_of_many_that_is_out_of_bounds(http_server: FileServer) -> None:
    http_server.put("f", BODY)
    rows = [(0, start, start + 100) for start in range(0, 1100, 100)]
    sources = sources_of(**{http_server.url: anonymous(retry_config=QUICK)})
    found = Looking(sources, [f"{http_server.url}/f"], rows)
    assert b"".join(found.bodies[row] for row in range(10)) == BODY
    assert {row: error.code for row, error in found.errors.items()} == {10: "range_out_of_bounds"}


@pytest.mark.parametrize("answer", [status(403), redirect("http://127.0.0.2/f")])
def test_an_object_that_cannot_be_read_is_asked_for_twice(
    http_server: FileServer, answer: Any
) -> None:
    """Not once for each range: the others of it fail for the same reason."""
    http_server.put("g", BODY)
    http_server.script("f", answer, sticky=True)
    rows = [(number, start, start + 1) for start in range(100) for number in (0, 1)]
    sources = sources_of(**{http_server.url: anonymous(retry_config=QUICK)})
    found = Looking(sources, [f"{http_server.url}/f", f"{http_server.url}/g"], rows)
    assert found.errors.keys() == {*range(0, 200, 2)}
    assert found.bodies.keys() == {*range(1, 200, 2)}
    assert len([each for each in http_server.requests if each.target == "/f"]) == 2


def test_many_ranges_take_few_requests_and_little_memory(http_server: FileServer) -> None:
    """Of what is used as it arrives, no more is held than the pieces that are arriving."""
    size, count = 2**20, 128
    http_server.put("f", bytes(size * count))
    http_server.clear()
    sources = sources_of(**{http_server.url: anonymous(retry_config=QUICK)})
    at = Base.parse("./").resolve(f"{http_server.url}/f")
    starts = np.arange(count, dtype=np.int64) * size
    ranges = ManyRanges(
        [SourceObject(at, NO_CONDITIONS)], np.zeros(count, np.int64), starts, starts + size
    )
    sizes: list[int] = []

    def use(_: Sequence[int], bodies: Sequence[memoryview]) -> None:
        sizes.extend(map(len, bodies))

    tracemalloc.start()
    try:
        asyncio.run(read_each(sources, ranges, use, refuse))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sizes == [size] * count
    assert len(http_server.requests) == 2
    assert peak < 16 * size


def refuse(_: Sequence[int], error: ManifestError) -> None:
    raise error


def test_errors_of_what_is_done_end_the_read(http_server: FileServer) -> None:
    """Whether with the bytes of a range, or where it cannot be read."""
    http_server.put("f", BODY)
    sources = sources_of(**{http_server.url: anonymous(retry_config=QUICK)})

    def use(rows: Sequence[int], _: Sequence[memoryview]) -> None:
        if 4 in rows:
            raise ChecksumMismatchError("another one")

    for name, kind in (("f", ChecksumMismatchError), ("missing", SourceNotFoundError)):
        at = Base.parse("./").resolve(f"{http_server.url}/{name}")
        starts = np.arange(0, 1000, 100)
        objects = [SourceObject(at, NO_CONDITIONS)]
        ranges = ManyRanges(objects, np.zeros(10, np.int64), starts, starts + 100)
        with pytest.raises(kind):
            asyncio.run(read_each(sources, ranges, use, refuse))
