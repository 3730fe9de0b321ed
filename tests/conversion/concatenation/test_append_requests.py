"""What an append requests: each object once, those of all arrays at the same time."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator
from typing import Any

import pytest
from obstore.store import S3Store

import zarr_manifest as zm
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import ArrayNode, GroupNode, Node, append, write_hierarchy

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


def days(first: int, stop: int) -> list[Node]:
    count = stop - first
    metadata: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [count],
        "data_type": "uint8",
        "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes"}],
        "dimension_names": ["time"],
        "attributes": {},
    }
    found: list[Node] = [GroupNode("", {})]
    for number in range(ARRAYS):
        path = f"s3://archive/{first}-{number}.bin"
        manifest = zm.Manifest.from_columns((count,), paths=path, offsets=list(range(count)))
        found.append(ArrayNode(f"v{number}", metadata, manifest))
    return found


@pytest.mark.parametrize(
    ("name", "layout", "of_each"),
    [
        ("inline", {}, 2),  # its metadata are read and written
        ("document", {"inline_below": 0}, 4),
        ("partitions", {"inline_below": 0, "partition_shape": (2,)}, 4),
        ("full-partitions", {"inline_below": 0, "partition_shape": (3,)}, 4),
    ],
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
