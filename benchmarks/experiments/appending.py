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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

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
    arrays, days = effort.pick(_ARRAYS, 20), effort.pick(3650, 300)
    rounds = effort.pick(5, 3)
    far = Table(
        ("writer", "arrays", "day", "append of a day, s", "requests"),
        title=f"Appending a day to a bucket, {_LATENCY * 1e3:.0f} ms a request",
    )
    with _bucket(_LATENCY) as bucket:
        archives = {
            (name, day): make(bucket, arrays, day)
            for name, make in (("zarr-manifest", _Ours), ("Icechunk", _Icechunk))
            for day in (2, days)
        }
        far_away = _timed(bucket, archives, rounds)
    for (name, day), took in far_away.items():
        far.add(name, str(arrays), f"{day:,}", number(took.wall), str(took.requests))
    yield far
    late = Table(
        ("arrays", "day", "append of a day, ms", "of that, processor"),
        title="Appending a day on local disk",
    )
    with TemporaryDirectory() as directory:
        local = {day: _Growing(Path(directory, f"{day}.zarr"), arrays, day) for day in (2, days)}
        on_disk = _timed(None, local, rounds)
    for day, took in on_disk.items():
        late.add(str(arrays), f"{day:,}", number(took.wall * 1e3), number(took.processor * 1e3))
    yield late
    ours = far_away["zarr-manifest", 2].wall, far_away["zarr-manifest", days].wall
    icechunk = far_away["Icechunk", 2].wall
    # Waiting for other processes of the machine is no part of it.
    first, last = on_disk[2].processor, on_disk[days].processor
    goals = Table(("goal", "bound", "ours", "verdict"), title="Goals")
    for text, bound, value, unit in (
        (f"{arrays} arrays at 58 ms a request", _GOAL, ours[0], "s"),
        ("beside Icechunk's append", 1.0, ours[0] / icechunk, "x"),
        (f"day {days:,} / day 2, far away", _GROWTH_GOAL, ours[1] / ours[0], "x"),
        (f"day {days:,} / day 2, processor", _GROWTH_GOAL, last / first, "x"),
    ):
        verdict = MET if value <= bound else NOT_MET
        goals.add(text, f"≤ {number(bound)} {unit}", f"{number(value)} {unit}", verdict)
    yield goals


def period(arrays: int, first: int, stop: int) -> list[Node]:
    """Return the nodes of some days, numbered from 0."""
    count = stop - first
    metadata: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
    }
    axis = {
        "shape": [count],
        "data_type": "int64",
        "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
        "dimension_names": ["time"],
    }
    field = {
        "shape": [count, _CELLS],
        "data_type": "float32",
        "fill_value": 0.0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, _CELLS]}},
        "dimension_names": ["time", "x"],
    }
    values = {
        str(n): {"data": base64.b64encode(np.array(first + n, "<i8").tobytes()).decode()}
        for n in range(count)
    }
    value = zm.Manifest.loads(json.dumps(values).encode(), grid_shape=(count,))
    nodes: list[Node] = [GroupNode("", {}), ArrayNode("time", metadata | axis, value)]
    for name in range(arrays):
        paths = np.array([[_source(name, of)] for of in range(first, stop)])
        manifest = zm.Manifest.from_columns((count, 1), paths=paths, lengths=4 * _CELLS)
        nodes.append(ArrayNode(_field(name), metadata | field, manifest))
    return nodes


def _field(name: int) -> str:
    return f"field{name:03}"


def _source(name: int, of: int) -> str:
    return f"{_SOURCES}{of:05}/{_field(name)}.bin"


class _Archive(Protocol):
    """An archive with some days, to which the next are appended one by one."""

    def add(self) -> None: ...


class _Took(NamedTuple):
    """Median times of an append in seconds, and the requests of the last."""

    wall: float
    processor: float
    requests: int


def _timed[K](
    bucket: _Bucket | None, archives: Mapping[K, _Archive], rounds: int
) -> dict[K, _Took]:
    """Return what an append to each archive takes; in turns, so that all meet the same machine."""
    took: dict[K, list[_Took]] = {name: [] for name in archives}
    for _ in range(rounds):
        for name, archive in archives.items():
            if bucket is not None:
                bucket.requests()
            wall, processor = time.perf_counter(), time.process_time()
            archive.add()
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            requests = 0 if bucket is None else bucket.requests()
            took[name].append(_Took(wall, processor, requests))
    return {
        name: _Took(
            statistics.median(each.wall for each in some),
            statistics.median(each.processor for each in some),
            some[-1].requests,
        )
        for name, some in took.items()
    }


class _Growing:
    """An archive of ours. One append of many days leaves it as an append of each does."""

    def __init__(self, place: Any, arrays: int, day: int) -> None:
        self._place = place
        self._arrays = arrays
        self._day = day - 1
        write_hierarchy(place, period(arrays, 0, 1))
        if self._day > 1:
            append(place, [period(arrays, 1, self._day)], dim="time")

    def add(self) -> None:
        nodes = period(self._arrays, self._day, self._day + 1)
        append(self._place, [nodes], dim="time")
        self._day += 1


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


class _Ours(_Growing):
    """An archive of ours in a bucket."""

    def __init__(self, bucket: _Bucket, arrays: int, day: int) -> None:
        super().__init__(bucket.store(f"ours-{day}.zarr"), arrays, day)


class _Icechunk:
    """An archive of Icechunk in a bucket."""

    def __init__(self, bucket: _Bucket, arrays: int, day: int) -> None:
        import icechunk

        icechunk.set_logs_filter("error")
        storage = icechunk.s3_storage(
            bucket=_BUCKET,
            prefix=f"icechunk-{day}",
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
        self._repository = icechunk.Repository.create(storage, config)
        self._arrays = arrays
        self._day = 0
        self._add(day - 1)

    def add(self) -> None:
        self._add(1)

    def _add(self, days: int) -> None:
        import icechunk

        session = self._repository.writable_session("main")
        group = zarr.open_group(session.store)
        first, self._day = self._day, self._day + days
        times = _array(group, "time", (self._day,), (1,), "int64")
        times[first:] = np.arange(first, self._day)
        for name in range(self._arrays):
            _array(group, _field(name), (self._day, _CELLS), (1, _CELLS), "float32")
            references = [
                icechunk.VirtualChunkSpec([of, 0], _source(name, of), 0, 4 * _CELLS)
                for of in range(first, self._day)
            ]
            session.store.set_virtual_refs(_field(name), references)
        session.commit(f"day {self._day}")


def _array(
    group: zarr.Group, name: str, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str
) -> Any:
    """Return an array of this shape, which may have been smaller."""
    if name not in group:
        return group.create_array(name, shape=shape, chunks=chunks, dtype=dtype, compressors=None)
    array: Any = group[name]
    array.resize(shape)
    return array
