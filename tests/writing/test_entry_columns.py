"""Entries given one by one are put into columns: the same manifest, and the same error."""

from __future__ import annotations

import importlib
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

from tests.properties import examples
from zarr_manifest import ManifestStore, write_manifest
from zarr_manifest.errors import ManifestError
from zarr_manifest.format import interpret_declaration, parse_node, strict
from zarr_manifest.hierarchy import DeclaredArray, interpret_array
from zarr_manifest.manifest import References
from zarr_manifest.writing.given_entries import interpret_entries

GRID = (3, 12)


def declared(grid_shape: tuple[int, ...] = GRID) -> DeclaredArray:
    store = MemoryStore()
    chunks = (1,) * len(grid_shape)
    zarr.create_array(store, name="a", shape=grid_shape, chunks=chunks, dtype="u1")
    write_manifest(store, "a", {}, base="../raw/", inline=False)
    node = parse_node(store._store_dict["a/zarr.json"].to_bytes())  # pyright: ignore[reportPrivateUsage]
    assert node is not None
    configuration = strict(interpret_declaration(node))
    assert configuration is not None
    array = strict(interpret_array("a", node, configuration))
    assert array is not None
    return array


ARRAY = declared()

PATH = st.sampled_from(["a.nc", "s3://b/c.nc", "ü", "sub/d.nc"])
BAD_PATH = st.sampled_from(["", "../../../x", "%zz", "\ud800", 'a"b', "a%2fb", 7, None])
NUMBER = st.integers(0, 2**40) | st.builds(np.int64, st.integers(0, 100))
BAD_NUMBER = st.sampled_from([-1, 0, 2**53, 2**64, 1.0, True, "1", None, np.uint64(2**64 - 1)])
LENGTH = st.integers(1, 2**40)
CHUNK = st.tuples(st.integers(0, GRID[0] - 1), st.integers(0, GRID[1] - 1))
KEY = CHUNK.map(lambda chunk: ".".join(map(str, chunk)))
BAD_CHUNK = st.sampled_from(
    [(3, 0), (0,), (-1, 0), (0, 1.0), (np.int32(1), True), "00.1", "c/0/3", "x", "9.9", 5, None, ()]
)
PLAIN = st.fixed_dictionaries(
    {"path": PATH}, optional={"offset": NUMBER, "length": LENGTH}
) | st.just({})
OTHER = st.one_of(
    st.fixed_dictionaries({"path": PATH, "checksum": st.just("md5:" + "0" * 32)}),
    st.fixed_dictionaries({"data": st.binary(min_size=1)}),
    st.fixed_dictionaries({"path": PATH, "etag": st.just('"1"'), "length": LENGTH}),
)
BAD_ENTRY = st.one_of(
    st.fixed_dictionaries({"path": BAD_PATH}),
    st.fixed_dictionaries({"path": PATH, "offset": BAD_NUMBER}),
    st.fixed_dictionaries({"path": PATH, "length": BAD_NUMBER, "offset": NUMBER}),
    st.sampled_from(
        [None, "x", {"offset": 1}, {"length": 1}, {"path": "a", "size": 1}, {"data": b""},
         {"path": "a", "offset": 2**53 - 1, "length": 1}, {1: 2}, {"path": "a", "data": b"x"},
         {"path": object()}]
    ),
)  # fmt: skip
BAD_PAIR = st.sampled_from([None, (1,), "ab", [(0, 0), {}]])
GOOD = st.lists(st.tuples(CHUNK | KEY, PLAIN | OTHER), max_size=20, unique_by=lambda p: key(p[0]))


def key(chunk: Any) -> str:
    return chunk if isinstance(chunk, str) else ".".join(map(str, chunk))


def outcome(way: Any) -> tuple[Any, ...]:
    try:
        table: References = way()
    except ManifestError as error:
        # Positions are those in a document, and so are not compared.
        return type(error), error.code, error.chunk, error.remedy
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error), str(error)
    return bytes, table.dumps()


def as_document(pairs: Any) -> References:
    """The way that always works: everything as one document."""
    private: Any = importlib.import_module("zarr_manifest.writing.given_entries")
    return private._interpret_as_document(ARRAY, private._pairs(pairs))


def interpreted(entries: Any, at_once: int) -> References:
    """The entries, so many of them together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zarr_manifest.writing.given_entries._BATCH_SIZE", at_once)
        return interpret_entries(ARRAY, entries)


@given(GOOD, st.integers(1, 8))
def test_the_same_manifest(pairs: list[tuple[Any, Any]], at_once: int) -> None:
    expected = as_document(pairs).dumps()
    assert interpreted(iter(pairs), at_once).dumps() == expected
    if all(isinstance(chunk, str) for chunk, _ in pairs):
        assert interpreted(dict(pairs), at_once).dumps() == expected


@pytest.mark.slow
@examples(4)
@given(
    GOOD,
    st.lists(
        st.tuples(CHUNK | KEY, BAD_ENTRY) | st.tuples(BAD_CHUNK, PLAIN) | BAD_PAIR
        | st.tuples(CHUNK, OTHER),
        min_size=1, max_size=3,
    ),
    st.data(),
    st.integers(1, 8),
)  # fmt: skip
def test_the_same_errors(
    pairs: list[Any], more: list[Any], data: st.DataObject, at_once: int
) -> None:
    for pair in more:
        pairs.insert(data.draw(st.integers(0, len(pairs))), pair)
    expected = outcome(lambda: as_document(pairs))
    found = outcome(lambda: interpreted(iter(pairs), at_once))
    chunks = [key(p[0]) for p in pairs if isinstance(p, tuple) and isinstance(p[0], str | tuple)]
    if len(more) == 1 and len(set(chunks)) == len(chunks):
        assert found == expected
    else:  # which of them is reported depends on batches
        assert (found[0] is bytes) == (expected[0] is bytes)


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_chunk_that_two_entries_name(at_once: int) -> None:
    with pytest.raises(ManifestError, match="two entries name this chunk") as caught:
        interpreted([((0, 1), {}), ((0, 1), {})], at_once)
    assert caught.value.chunk == "0.1"


@pytest.mark.parametrize("at", [0, 3, 8, 9])
def test_an_error_of_whoever_gives_entries(at: int) -> None:
    def pairs() -> Iterator[tuple[Any, Any]]:
        for n in range(at):
            yield (0, n), {"path": "f.nc", "offset": n}
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        interpreted(pairs(), 4)


def test_no_dimensions() -> None:
    array = declared(())
    for chunk in ((), "0"):
        table = interpret_entries(array, [(chunk, {"path": "f.nc"})])
        assert table.dumps() == b'{\n"0":{"path":"f.nc"}\n}\n'


@pytest.mark.slow
def test_few_calls_for_each_entry(tmp_path: Path) -> None:
    """A guard of speed that does not depend on the machine."""
    zarr.create_array(tmp_path, name="a", shape=(200, 100), chunks=(1, 1), dtype="u1")
    pairs = [
        ((i, j), {"path": "f.nc", "offset": 100 * j, "length": i + 1})
        for i in range(200)
        for j in range(100)
    ]
    calls = 0

    def count_calls(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count_calls)
    try:
        write_manifest(tmp_path, "a", iter(pairs), partition_shape=(50, 100))
    finally:
        sys.setprofile(None)
    # One is the generator that checks what it is given.
    assert calls < 1.5 * len(pairs)
    array: Any = zarr.open_group(ManifestStore(tmp_path), mode="r")["a"]
    assert array.shape == (200, 100)


@pytest.mark.slow
def test_memory_is_that_of_columns(tmp_path: Path) -> None:
    zarr.create_array(tmp_path, name="a", shape=(400, 500), chunks=(1, 1), dtype="u1")
    pairs = (
        ((i, j), {"path": f"{i}.nc", "offset": 100 * j, "length": 100})
        for i in range(400)
        for j in range(500)
    )
    tracemalloc.start()
    try:
        write_manifest(tmp_path, "a", pairs, partition_shape=(10, 500))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The entries themselves would take 500 bytes each.
    assert peak < 100 * 200_000
