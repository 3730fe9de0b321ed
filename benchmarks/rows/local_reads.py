"""Reading whole arrays whose chunks are in local files: large and small chunks, compressed, 1 GiB.

Manifests are loaded, and files are in the page cache, before the time is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import cases
from benchmarks.cases import CPU_SECONDS, PEAK, SECONDS, Case, Group, Quantity, Task
from benchmarks.chunks import check, write_chunks
from benchmarks.effort import Effort
from benchmarks.measuring import Measured, least, measure, repeat
from benchmarks.participants import PARTICIPANTS, write_all
from benchmarks.references import References, first_chunk
from benchmarks.rows import dask_reads

WRITTEN = (cases.US, cases.ICECHUNK, cases.FSSPEC_JSON, cases.FSSPEC_PARQUET)
OBJECTS = 20


def group(effort: Effort) -> Group:
    every = cases.COLUMNS
    size = sizes(effort)
    lazily = f"{size['R1'][0]:,} tasks of xarray and dask"
    cells = {
        name: f"{shape[0]:,} x {shape[1] * shape[2] * 4 // 1024:,} KiB"
        for name, shape in size.items()
    }
    read = (SECONDS, CPU_SECONDS)
    few = (cases.US, cases.NATIVE)
    left_out = effort.pick((), tuple(set(dask_reads.COLUMNS) - set(few)))
    return Group(
        "local",
        (
            Case("R1", f"R1 read {cells['R1']}", read, partial(_read, "R1"), every),
            Case(
                "R1 threads",
                f"R1 by {lazily}, threads",
                (SECONDS,),
                partial(dask_reads.read_in_threads, "R1", {}),
                dask_reads.COLUMNS,
                dask_reads.REASONS,
                dask_reads.REQUIRES,
            ),
            Case(
                "R1 processes",
                f"R1 by {lazily}, processes",
                (SECONDS,),
                partial(dask_reads.read_in_processes, "R1", {}),
                effort.pick(dask_reads.COLUMNS, few),
                {**dask_reads.REASONS, **dict.fromkeys(left_out, "not in a quick run")},
                dask_reads.REQUIRES,
            ),
            Case("R2", f"R2 read {cells['R2']}", read, partial(_read, "R2"), every),
            Case(
                "R2 beyond",
                "R2 each chunk, beyond zarr with a pipeline that does nothing",
                (
                    Quantity("wall", "µs", 1e6),
                    Quantity("cpu", "CPU µs", 1e6),
                    Quantity("indexing", "µs, that pipeline", 1e6),
                ),
                _read_beyond_indexing,
                (cases.US,),
                dict.fromkeys(every[1:], "is compared as a whole, in the row above"),
            ),
            Case("R3", f"R3 read {cells['R3']}, zstd", read, partial(_read, "R3"), every),
            Case(
                "R6",
                f"R6 one read of {size['R6'][0]:,} MiB, beyond the output",
                (PEAK,),
                _read_beyond,
                every,
            ),
        ),
        prepare,
    )


def sizes(effort: Effort) -> dict[str, tuple[int, int, int]]:
    """Return the shapes: a chunk is one field of the last two dimensions."""
    gibibytes = 4 if effort.huge else 1
    return {
        "R1": (effort.pick(2000, 100), 256, 256),
        "R2": (effort.pick(20_000, 1000), 32, 32),
        "R3": (effort.pick(2000, 100), 256, 256),
        "R6": (effort.pick(1024 * gibibytes, 64), 512, 512),
    }


@contextmanager
def prepare(directory: Path, effort: Effort) -> Iterator[None]:
    for name, shape in sizes(effort).items():
        (directory / name).mkdir()
        written = write_chunks(directory / name, shape, objects=OBJECTS, zstd=name == "R3")
        write_all(written, directory / name, WRITTEN)
    yield


def _read(name: str, task: Task) -> Measured:
    participant = PARTICIPANTS[task.column]
    participant.configure()
    array = participant.open(task.directory / name)
    references = References.load(task.directory / name)
    if task.column != cases.FLOOR:
        check(references, array[:])
    return repeat(lambda: array[:], task.effort.rounds())


class _Nothing:
    """A codec pipeline that reads nothing: what is left is zarr's own indexing."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual

    def __getattr__(self, name: str) -> Any:
        return getattr(self._usual, name)

    async def read(self, batch: Iterable[Any], *_: Any, **__: Any) -> list[dict[str, str]]:
        return [{"status": "present"} for _ in batch]


def _read_beyond_indexing(task: Task) -> Measured:
    """Read with a pipeline that does nothing and with ours, in turn."""
    participant = PARTICIPANTS[task.column]
    participant.configure()
    array, indexed = (participant.open(task.directory / "R2") for _ in range(2))
    opened: Any = indexed.async_array
    object.__setattr__(opened, "codec_pipeline", _Nothing(opened.codec_pipeline))
    array[:], indexed[:]
    with_it, without = [], []
    for _ in task.effort.rounds():
        without.append(measure(lambda: indexed[:]))
        with_it.append(measure(lambda: array[:]))
    ours, indexing, chunks = least(with_it), least(without), array.shape[0]
    beyond = {name: (ours[name] - indexing[name]) / chunks for name in ("wall", "cpu")}
    return {**beyond, "indexing": indexing["wall"] / chunks}


def _read_beyond(task: Task) -> Measured:
    """Measure the first read, of which the output does not count."""
    participant = PARTICIPANTS[task.column]
    participant.configure()
    small: Any = participant.open(task.directory / "R3")
    array = participant.open(task.directory / "R6")
    if task.column != cases.FLOOR:
        first_chunk(small)
        first_chunk(array)
    taken = measure(lambda: array[:])
    output = int(sizes(task.effort)["R6"][0]) << 20
    return {"peak": max(0.0, taken["peak"] - output)}
