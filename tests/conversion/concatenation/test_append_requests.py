"""What an append requests: each object once, those of all arrays at the same time."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import zarr
from obstore.store import S3Store

import zarr_manifest as zm
from tests.properties import THOROUGH
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import (
    ArrayNode,
    GroupNode,
    Node,
    append,
    read_hierarchy,
    write_hierarchy,
)

pytestmark = [pytest.mark.slow, pytest.mark.servers]

ARRAYS = 24

# The root is read and listed, and put twice.
OF_THE_ROOT = 4

# In seconds: long beside the time between requests that are made at the same time.
LATENCY = 0.1


@pytest.fixture(scope="module")
def far() -> Iterator[S3Server]:
    with S3Server() as server:
        server.create_bucket("far")
        yield server


def store(server: S3Server, name: str) -> S3Store:
    return S3Store.from_url(f"s3://far/{name}", **server.options)


def node(path: str, dim: str, length: int, chunk: int, manifest: zm.Manifest) -> ArrayNode:
    metadata: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [length],
        "data_type": "uint8",
        "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes"}],
        "dimension_names": [dim],
        "attributes": {},
    }
    return ArrayNode(path, metadata, manifest)


def days(first: int, stop: int, arrays: int = ARRAYS) -> list[Node]:
    """Return one array of coordinates, which are inline, and others."""
    count = stop - first
    dates = {(0,): bytes(range(first, stop))}
    coordinate = zm.Manifest.from_columns((1,), paths="", indices=np.zeros((0, 1), int), data=dates)
    found: list[Node] = [GroupNode("", {}), node("time", "time", count, count, coordinate)]
    for number in range(arrays - 1):
        path = f"s3://archive/{first}-{number}.bin"
        manifest = zm.Manifest.from_columns((count,), paths=path, offsets=list(range(count)))
        found.append(node(f"v{number}", "time", count, 1, manifest))
    return found


LAYOUTS: list[Any] = [
    ("inline", {}, 2),  # its metadata are read and written
    ("partitions", {"inline_below": 0, "partition_shape": (2,)}, 4),
]
# As many objects, which are requested in the same way.
MORE_LAYOUTS: list[Any] = [
    ("document", {"inline_below": 0}, 4),
    ("full-partitions", {"inline_below": 0, "partition_shape": (3,)}, 4),
]


@pytest.mark.parametrize(
    ("name", "layout", "of_each"), LAYOUTS + (MORE_LAYOUTS if THOROUGH else [])
)
def test_an_append(far: S3Server, name: str, layout: dict[str, Any], of_each: int) -> None:
    place = store(far, name)
    write_hierarchy(place, days(0, 3), **layout)
    far.clear()
    far.latency = LATENCY
    report = append(place, [days(3, 4)], dim="time")
    far.latency = 0.0
    rounds, requests = far.rounds, far.requests
    assert report.arrays == ARRAYS
    assert {request.method for request in requests} == {"GET", "PUT"}
    assert len(requests) <= ARRAYS * of_each + OF_THE_ROOT
    read = collections.Counter(r.path for r in requests if r.method == "GET" and not r.query)
    assert set(read.values()) == {1}
    assert rounds < ARRAYS / 2, "one array after the other"
    group = json.loads(bytes(place.get("zarr.json").bytes()))
    assert "pending" not in group["consolidated_metadata"]
    assert zm.validate(place) == []


def test_last_documents_are_requested_while_other_arrays_are_opened(far: S3Server) -> None:
    place, many = store(far, "early"), 70
    write_hierarchy(place, days(0, 3, many), inline_below=0, partition_shape=(2,))
    # The manifest of this one is a document, which opening it waits for.
    options = {"shape": 3, "chunks": 1, "dtype": "u1", "dimension_names": ["time"]}
    zm.create_array(place, "w", {"0": {"path": "s3://archive/w"}}, inline=False, **options)
    far.clear()
    next_day = node("w", "time", 1, 1, zm.Manifest.from_columns((1,), paths="s3://archive/w"))
    append(place, [[*days(3, 4, many), next_day]], dim="time")
    read = [request.path for request in far.requests if request.method == "GET"]
    documents = [path for path in read if "/manifest" in path]
    assert len(documents) == many + 1
    assert "/w/manifest-" not in documents[0]


def test_many_sources_are_opened_at_the_same_time(far: S3Server) -> None:
    place, *sources = [store(far, f"source-{number}") for number in range(17)]
    for number, each in enumerate([place, *sources]):
        write_hierarchy(each, days(number, number + 1, arrays=2))
    far.clear()
    far.latency = LATENCY
    report = append(place, sources, dim="time")
    far.latency = 0.0
    assert len(report.appended) == len(sources)
    assert far.rounds < len(sources), "one source after the other"
    # The order is that of the sources: the references of each day are in its own object.
    (found,) = [each for each in read_hierarchy(place) if each.path == "v0"]
    assert isinstance(found, ArrayNode)
    assert isinstance(found.manifest, zm.Manifest)
    assert found.manifest.paths == tuple(f"s3://archive/{n}-0.bin" for n in range(17))


def test_of_native_arrays_only_their_own_objects_are_listed(far: S3Server) -> None:
    place = store(far, "mixed")
    write_hierarchy(place, days(0, 3, arrays=2), inline_below=0, partition_shape=(1,))
    zarr.create_array(
        zarr.storage.ObjectStore(place), name="x", shape=2, dtype="u1", dimension_names=["x"]
    )[:] = 1
    same = zm.Manifest.loads(b'{"0": {"data": "AQE="}}', grid_shape=(1,))
    far.clear()
    append(place, [[*days(3, 4, arrays=2), node("x", "x", 2, 2, same)]], dim="time")
    listed = [request.query for request in far.requests if "list-type" in request.query]
    everything = [query for query in listed if "delimiter" not in query]
    assert len(everything) == 1
    assert "prefix=mixed%2Fx%2F" in everything[0]
