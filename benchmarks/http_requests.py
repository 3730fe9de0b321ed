"""A web server 30 ms away: requests, bytes and time for 100 chunks of one object.

Measured from scratch: opening, reading the manifest, and reading all chunks. The server
runs on loopback in another process; its bandwidth is that of Python, not of a network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import zarr

from benchmarks.datasets import Dataset, write_dataset
from benchmarks.readers import ReadableArray, readers_for
from benchmarks.remote_server import RemoteServer, serving
from benchmarks.tables import Table, mebibytes, milliseconds, ratio
from benchmarks.timing import Times, interleaved
from tests.servers.http_files import Recorded
from zarr_manifest import ManifestStore

BASELINE = "zarr ObjectStore"
LATENCY = 0.03
CHUNKS = 100
CHUNK_BYTES = 64 * 1024
LARGEST_GAP = 4 * 1024 * 1024
GAPS = (-1, 0, 16 * 1024, 128 * 1024, 512 * 1024, 1024 * 1024, 4 * 1024 * 1024)


def run(quick: bool) -> Iterator[Table]:
    with TemporaryDirectory() as directory:
        local = write_dataset(Path(directory), CHUNKS, CHUNK_BYTES, LARGEST_GAP)
        with serving(Path(directory), LATENCY) as server:
            remote = local.at(server.url)
            for concurrency in (zarr.config.get("async.concurrency"), CHUNKS):
                with zarr.config.set({"async.concurrency": concurrency}):
                    yield compare(server, remote, concurrency, rounds=2 if quick else 7)


def compare(server: RemoteServer, dataset: Dataset, concurrency: int, rounds: int) -> Table:
    openers: dict[str, Callable[[Dataset], ReadableArray]] = {
        reader.name: reader.open for reader in readers_for(dataset)
    }
    for gap in GAPS:
        name = "never merging" if gap < 0 else f"max_gap={gap // 1024} KiB"
        openers[f"ManifestStore, {name}"] = partial(open_with_gap, gap)
    expected = openers[BASELINE](dataset)[:]
    requests: dict[str, list[Recorded]] = {}

    def read_from_nothing(name: str) -> None:
        values = openers[name](dataset)[:]
        np.testing.assert_array_equal(values, expected, err_msg=name)

    for name in openers:
        server.clear()
        read_from_nothing(name)
        requests[name] = server.requests
    times = interleaved({name: partial(read_from_nothing, name) for name in openers}, rounds)
    return tabulate(dataset, concurrency, times, requests)


def open_with_gap(gap: int, dataset: Dataset) -> ReadableArray:
    return zarr.open_array(ManifestStore(dataset.manifest, max_gap=gap), path="data", mode="r")


def tabulate(
    dataset: Dataset,
    concurrency: int,
    times: dict[str, Times],
    requests: dict[str, list[Recorded]],
) -> Table:
    table = Table(
        f"HTTP with {LATENCY * 1e3:.0f} ms latency, {CHUNKS} chunks of "
        f"{CHUNK_BYTES // 1024} KiB, zarr's async.concurrency={concurrency}",
        ("reader", "time", "ratio", "requests", "for chunks", "chunk bytes fetched"),
    )
    for name, taken in times.items():
        for_chunks = [r for r in requests[name] if is_chunk(r)]
        fetched = sum(size_of(r, dataset.chunk_bytes) for r in for_chunks)
        table.add(
            name,
            milliseconds(taken.median),
            ratio(taken.ratio(times[BASELINE])),
            str(len(requests[name])),
            str(len(for_chunks)),
            mebibytes(fetched),
        )
    return table


def is_chunk(request: Recorded) -> bool:
    return "/c/" in request.target or request.target.endswith("source.bin")


def size_of(request: Recorded, whole: int) -> int:
    """Number of bytes requested: those of the range, or of the whole (native) chunk."""
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
    return int(match[2]) - int(match[1]) + 1 if match else whole
