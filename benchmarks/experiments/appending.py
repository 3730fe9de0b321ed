"""What does it take to append a day to an archive: far away, beside Icechunk, and after years?

Far away, every request takes as long as for an operational archive; Icechunk commits the same
references to the same server. After years, a day must not take much longer than the first.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import zarr
from obstore.store import S3Store

import zarr_manifest as zm
from benchmarks.effort import Effort
from benchmarks.goals import MET, NOT_MET
from benchmarks.layout import Table, number
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from zarr_manifest.conversion import ArrayNode, GroupNode, Node, append, write_hierarchy

# Of the operational archive that reports how long its appends take.
_ARRAYS = 142
_LATENCY = 0.058

_SOURCES = "s3://archive/"
_BUCKET = "archive"
_CELLS = 100

# Seconds for a day far away, and a late day relative to an early one.
_GOAL, _GROWTH_GOAL = 3.0, 1.5


def run(effort: Effort) -> Iterator[Table]:
    far = Table(
        ("writer", "arrays", "append of a day, s", "requests"),
        title=f"Appending a day to a bucket, {_LATENCY * 1e3:.0f} ms a request",
    )
    arrays = effort.pick(_ARRAYS, 20)
    with _bucket(_LATENCY) as bucket:
        times: dict[str, float] = {}
        for name, writer in (("zarr-manifest", _ours), ("Icechunk", _icechunk)):
            times[name], requests = writer(bucket, arrays, effort.pick(3, 1))
            far.add(name, str(arrays), number(times[name]), str(requests))
    yield far
    days = effort.pick(3650, 60)
    late = Table(("arrays", "day", "append of a day, ms"), title="Appending a day after years")
    with TemporaryDirectory() as directory:
        first, last = _grow(Path(directory, "h.zarr"), effort.pick(20, 5), days)
    late.add(str(effort.pick(20, 5)), "2 to 11", number(first * 1e3))
    late.add(str(effort.pick(20, 5)), f"{days - 9:,} to {days:,}", number(last * 1e3))
    yield late
    goals = Table(("goal", "bound", "ours", "verdict"), title="Goals")
    for text, bound, value, unit in (
        (f"{arrays} arrays at 58 ms a request", _GOAL, times["zarr-manifest"], "s"),
        ("beside Icechunk's append", 1.0, times["zarr-manifest"] / times["Icechunk"], "x"),
        (f"the {days:,}th daily append / the first", _GROWTH_GOAL, last / first, "x"),
    ):
        verdict = MET if value <= bound else NOT_MET
        goals.add(text, f"≤ {number(bound)} {unit}", f"{number(value)} {unit}", verdict)
    yield goals


def day(arrays: int, of: int) -> list[Node]:
    """Return the nodes of one day."""
    metadata: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
    }
    axis = {
        "shape": [1],
        "data_type": "int64",
        "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "dimension_names": ["time"],
    }
    field = {
        "shape": [1, _CELLS],
        "data_type": "float32",
        "fill_value": 0.0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, _CELLS]}},
        "dimension_names": ["time", "x"],
    }
    data = base64.b64encode(np.array(of, "<i8").tobytes()).decode()
    value = zm.Manifest.loads(json.dumps({"0": {"data": data}}).encode(), grid_shape=(1,))
    nodes: list[Node] = [GroupNode("", {}), ArrayNode("time", metadata | axis, value)]
    for name in range(arrays):
        path = f"{_SOURCES}{of:05}/field{name:03}.bin"
        manifest = zm.Manifest.from_columns((1, 1), paths=path, offsets=[[0]], lengths=4 * _CELLS)
        nodes.append(ArrayNode(f"field{name:03}", metadata | field, manifest))
    return nodes


# Far away -------------------------------------------------------------------------------


class _Bucket:
    """A bucket on a server in another process."""

    def __init__(self, endpoint: str, commands: Connection) -> None:
        self.endpoint = endpoint
        self._commands = commands

    def store(self, prefix: str) -> S3Store:
        return S3Store.from_url(
            f"s3://{_BUCKET}/{prefix}",
            endpoint=self.endpoint,
            region=REGION,
            access_key_id=ACCESS_KEY_ID,
            secret_access_key=SECRET_ACCESS_KEY,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )

    def requests(self) -> int:
        """Return the number of requests since the last call."""
        self._commands.send("requests")
        found: int = self._commands.recv()
        return found


@contextmanager
def _bucket(latency: float) -> Iterator[_Bucket]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(latency, there), daemon=True)
    process.start()
    try:
        yield _Bucket(here.recv(), here)
    finally:
        here.send("stop")
        process.join()


def _serve(latency: float, commands: Connection) -> None:
    with S3Server(latency) as server:
        server.create_bucket(_BUCKET)
        commands.send(server.endpoint)
        while commands.recv() != "stop":
            commands.send(len(server.requests))
            server.clear()


def _timed(bucket: _Bucket, act: Callable[[int], object], days: int) -> tuple[float, int]:
    """Return the median time of an append, and the requests of the last."""
    times: list[float] = []
    requests = 0
    for of in range(1, days + 1):
        bucket.requests()
        start = time.perf_counter()
        act(of)
        times.append(time.perf_counter() - start)
        requests = bucket.requests()
    return statistics.median(times), requests


def _ours(bucket: _Bucket, arrays: int, days: int) -> tuple[float, int]:
    store = bucket.store("ours.zarr")
    write_hierarchy(store, day(arrays, 0))
    return _timed(bucket, lambda of: append(store, [day(arrays, of)], dim="time"), days)


def _icechunk(bucket: _Bucket, arrays: int, days: int) -> tuple[float, int]:
    import icechunk

    icechunk.set_logs_filter("error")
    storage = icechunk.s3_storage(
        bucket=_BUCKET,
        prefix="icechunk",
        region=REGION,
        endpoint_url=bucket.endpoint,
        allow_http=True,
        force_path_style=True,
        access_key_id=ACCESS_KEY_ID,
        secret_access_key=SECRET_ACCESS_KEY,
    )
    config = icechunk.RepositoryConfig.default()
    keeper = icechunk.s3_store(region=REGION)
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(_SOURCES, keeper))
    repository = icechunk.Repository.create(storage, config)

    def add(of: int) -> None:
        session = repository.writable_session("main")
        group = zarr.open_group(session.store)
        for node in day(arrays, of):
            if isinstance(node, ArrayNode):
                _add_to_session(session.store, group, node, of)
        session.commit(f"day {of}")

    add(0)
    return _timed(bucket, add, days)


def _add_to_session(store: Any, group: zarr.Group, node: ArrayNode, of: int) -> None:
    import icechunk

    shape = (of + 1, *node.metadata["shape"][1:])
    if not of:
        chunks = node.metadata["chunk_grid"]["configuration"]["chunk_shape"]
        group.create_array(
            node.path,
            shape=shape,
            chunks=chunks,
            dtype=node.metadata["data_type"],
            compressors=None,
        )
    array: Any = group[node.path]
    if of:
        array.resize(shape)
    if node.path == "time":
        array[of] = of
        return
    path = node.manifest.paths[0] if isinstance(node.manifest, zm.Manifest) else ""
    spec = icechunk.VirtualChunkSpec([of, 0], path, 0, 4 * _CELLS)
    store.set_virtual_refs(node.path, [spec])


# After years ----------------------------------------------------------------------------


def _grow(place: Path, arrays: int, days: int) -> tuple[float, float]:
    """Append day by day; return the median time of the first ten appends, and of the last."""
    write_hierarchy(place, day(arrays, 0))
    times: list[float] = []
    for of in range(1, days):
        nodes = day(arrays, of)
        start = time.perf_counter()
        append(place, [nodes], dim="time")
        times.append(time.perf_counter() - start)
    return statistics.median(times[:10]), statistics.median(times[-10:])
