"""Reading chunks from a web server 30 ms away: 1,000 of them, adjacent in 10 objects.

The server runs on loopback in another process; its bandwidth is that of Python, not of a network.
References are local, native chunks (each an object of its own) are on the server.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import zarr
from obstore.store import HTTPStore

from benchmarks import cases
from benchmarks.cases import REQUESTS, SECONDS, Case, Group, Quantity, Task
from benchmarks.chunks import HEADER, check, write_chunks, write_shards
from benchmarks.effort import Effort
from benchmarks.measuring import Measured, measure, repeat
from benchmarks.participants import FUSED, PARTICIPANTS, write_all
from benchmarks.references import References, first_chunk
from benchmarks.remote_server import RemoteServer, running
from benchmarks.rows import dask_reads
from benchmarks.rows.local_reads import WRITTEN

LATENCY = 0.03
OBJECTS = 10
SIDE = 128
COLD = Quantity("cold", "s from opening")
REFERENCES = "plain"
SHARDS = "shards"

_FUSED_ELSEWHERE = "its column has this pipeline in the row above"
_NOT_OF_ZARR = "does not use zarr's pipelines"


def group(effort: Effort) -> Group:
    count = f"{_chunks(effort):,} chunks in {OBJECTS} objects"
    every = cases.COLUMNS
    fused = {
        **dict.fromkeys((cases.NATIVE, cases.NATIVE_FUSED), _FUSED_ELSEWHERE),
        **dict.fromkeys((cases.TENSORSTORE, cases.FLOOR), _NOT_OF_ZARR),
    }
    quantities = (SECONDS, REQUESTS, COLD)
    return Group(
        "remote",
        (
            Case(
                "R4",
                f"R4 HTTP {LATENCY * 1e3:.0f} ms, {count}",
                quantities,
                partial(_read, REFERENCES, _whole),
                every,
            ),
            Case(
                "R4 fused",
                "R4 with FusedCodecPipeline configured",
                quantities,
                partial(_read, REFERENCES, _whole, pipeline=FUSED),
                tuple(column for column in every if column not in fused),
                fused,
            ),
            Case(
                "R4 sharded",
                f"R4 half of the chunks of {OBJECTS} shards",
                quantities,
                partial(_read, SHARDS, _upper_half),
                tuple(column for column in every if column != cases.FSSPEC_PARQUET),
                {cases.FSSPEC_PARQUET: "its reference sets are of Zarr v2, which has no shards"},
            ),
            Case(
                "R4 threads",
                f"R4 by {OBJECTS} tasks of xarray and dask, threads",
                quantities,
                _read_in_tasks,
                dask_reads.COLUMNS,
                dask_reads.REASONS,
                dask_reads.REQUIRES,
            ),
        ),
        prepare,
    )


def _chunks(effort: Effort) -> int:
    return effort.pick(1000, 100)


@contextmanager
def prepare(directory: Path, effort: Effort) -> Iterator[None]:
    with running(0.0) as unhurried, running(LATENCY) as server:
        shape = (_chunks(effort), SIDE, SIDE)
        for name, origin in ((REFERENCES, server), (SHARDS, server), ("warm", unhurried)):
            (directory / name).mkdir()
            urls: Any = {
                "sources": f"{origin.url}/{name}/sources/",
                "native": f"{origin.url}/{name}/native.zarr",
            }
            columns: tuple[str, ...] = WRITTEN
            if name == SHARDS:
                inner = (1, SIDE // 2, SIDE)
                written = write_shards(directory / name, shape, inner, objects=OBJECTS, **urls)
                columns = (cases.US, cases.ICECHUNK, cases.FSSPEC_JSON)
            elif name == "warm":
                written = write_chunks(directory / name, (4, SIDE, SIDE), objects=2, **urls)
            else:
                written = write_chunks(directory / name, shape, objects=OBJECTS, **urls)
            write_all(written, directory / name, columns)
            (directory / name / "server.pickle").write_bytes(pickle.dumps(origin))
            origin.serve(directory)
        yield


def _whole(array: Any) -> Any:
    return array[:]


def _upper_half(array: Any) -> Any:
    return array[:, : SIDE // 2]


def _read(
    name: str, select: Callable[[Any], Any], task: Task, *, pipeline: str | None = None
) -> Measured:
    _prepare_process(task, pipeline)
    open_array = PARTICIPANTS[task.column].open
    if name == SHARDS and task.column == cases.FLOOR:
        open_array = _Shards
    opened: list[Any] = []

    def open_and_read() -> None:
        opened.append(open_array(task.directory / name))
        opened.append(select(opened[0]))

    measured = _count_requests(open_and_read, task.directory / name)
    array, found = opened
    if task.column != cases.FLOOR:
        check(References.load(task.directory / name), found)
    return {**measured, **repeat(lambda: select(array), task.effort.rounds())}


def _read_in_tasks(task: Task) -> Measured:
    _prepare_process(task, None)
    chunks = {"time": _chunks(task.effort) // OBJECTS}
    if task.column == cases.FLOOR:
        return _floor_of_tasks(task)
    import dask.array
    import xarray  # noqa: F401  (importing it is not to be measured)

    adders: list[Callable[[], int]] = []

    def open_and_add() -> None:
        adders.append(dask_reads.adding(REFERENCES, chunks, task))
        adders[0]()

    with (
        ThreadPoolExecutor(dask_reads.WORKERS) as pool,
        dask.config.set(scheduler="threads", pool=pool),
    ):
        measured = _count_requests(open_and_add, task.directory / REFERENCES)
        return {**measured, **repeat(adders[0], task.effort.rounds())}


def _floor_of_tasks(task: Task) -> Measured:
    """Fetch one object after the other in each of the threads that dask has."""
    references = References.load(task.directory / REFERENCES)
    prefix = references.sources
    store = HTTPStore.from_url(prefix.rstrip("/"), client_options={"allow_http": True})
    size = int(references.lengths.sum()) // OBJECTS
    names = [url.removeprefix(prefix) for url in references.urls]

    def fetch(name: str) -> int:
        return sum(memoryview(store.get_range(name, start=HEADER, length=size))[:4])

    with ThreadPoolExecutor(dask_reads.WORKERS) as pool:
        read: Callable[[], object] = lambda: list(pool.map(fetch, names))  # noqa: E731
        measured = _count_requests(read, task.directory / REFERENCES)
        return {**measured, **repeat(read, task.effort.rounds())}


class _Shards:
    """The floor of shards: the index of each, and then everything between two chunks of it."""

    def __init__(self, directory: Path) -> None:
        self._references = References.load(directory)
        prefix = self._references.sources
        self._store = HTTPStore.from_url(prefix.rstrip("/"), client_options={"allow_http": True})
        self._names = [url.removeprefix(prefix) for url in self._references.urls]

    def __getitem__(self, selection: Any) -> None:
        with ThreadPoolExecutor(len(self._names)) as pool:
            list(pool.map(self._fetch, self._names, self._references.lengths.tolist()))

    def _fetch(self, name: str, length: int) -> None:
        inner: Any = self._references.inner
        chunk = inner[0] * inner[1] * inner[2] * 4
        end, index = HEADER + length, 16 * (length // chunk) + 4
        self._store.get_range(name, start=end - index, length=index)
        self._store.get_range(name, start=HEADER, length=length - index - chunk)


def _prepare_process(task: Task, pipeline: str | None) -> None:
    """Let clients and threads exist before anything is measured; another server warms them up."""
    participant = PARTICIPANTS[task.column]
    if pipeline is None:
        participant.configure()
    else:
        zarr.config.set({"codec_pipeline.path": pipeline})
    warm = participant.open(task.directory / "warm")
    if task.column == cases.FLOOR:
        warm[:]
    else:
        first_chunk(warm)


def _count_requests(action: Callable[[], object], directory: Path) -> Measured:
    server: RemoteServer = pickle.loads((directory / "server.pickle").read_bytes())
    server.clear()
    taken = measure(action)
    return {"cold": taken["wall"], "requests": len(server.requests)}
