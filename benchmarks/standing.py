"""What to reach, as goals over the results of the table."""

from __future__ import annotations

import os

from benchmarks import cases
from benchmarks.goals import Cell, Goal
from zarr_manifest.sources.range_reading import MOST_BYTES_IN_FLIGHT

#: "Level with": what measuring again may change.
LEVEL = 1.1

#: What one partition, and the threads that write, may take.
_PARTITION_MEMORY = 32e6


def goals() -> tuple[Goal, ...]:
    """Return all goals, in the order of the table."""
    return (
        *_opening(),
        *_writing(),
        *_local(),
        *_remote(),
        *_xarray(),
        *_native(),
        *_conversions(),
    )


def _opening() -> tuple[Goal, ...]:
    icechunk = cases.ICECHUNK
    return (
        Goal(
            "O1 CPU, of Icechunk's with one manifest", "O1", "cpu", 1.0, Cell("O1", icechunk, "cpu")
        ),
        Goal(
            "O1 peak memory, of the document",
            "O1",
            "peak",
            1.5,
            Cell("O1", cases.FLOOR, "document"),
        ),
        Goal(
            "O2 CPU, of Icechunk's with split manifests",
            "O2",
            "cpu",
            LEVEL,
            Cell("O2", icechunk, "cpu"),
        ),
        Goal(
            "import `ManifestStore`, beyond zarr's import",
            "import",
            "wall",
            0.030,
            scale=1e3,
            unit="ms",
        ),
        Goal("O4 held per reference", "O4", "per reference", 24.0, unit="B"),
        Goal(
            "O4 held per reference of partitions", "O4 partitions", "per reference", 24.0, unit="B"
        ),
        Goal(
            "O3 time of the first chunk, beyond O2",
            "O3",
            "wall",
            0.050,
            Cell("O2", None, "wall"),
            beyond=True,
            scale=1e3,
            unit="ms",
        ),
        Goal(
            "O3 peak memory, beyond O2",
            "O3",
            "peak",
            20e6,
            Cell("O2", None, "peak"),
            beyond=True,
            scale=1e-6,
            unit="MB",
        ),
    )


def _writing() -> tuple[Goal, ...]:
    found = []
    for name, how in (("write stream", "one after the other"), ("write partitions", "columns")):
        found += [
            Goal(
                f"O3 write partitions, {how}: CPU of 10^6 references",
                name,
                "cpu per million",
                1.0,
                unit="s",
            ),
            Goal(
                f"O3 write partitions, {how}: peak memory beyond what is handed over",
                name,
                "peak",
                _PARTITION_MEMORY,
                scale=1e-6,
                unit="MB",
            ),
        ]
    return tuple(found)


def _local() -> tuple[Goal, ...]:
    def faster(name: str, column: str, bound: float) -> Goal:
        text = f"{name} speed, of {column}"
        return Goal(text, name, "wall", bound, Cell(name, column, "wall"), speedup=True)

    return (
        faster("R1", cases.NATIVE, 5.0),
        faster("R1", cases.NATIVE_FUSED, 1.5),
        *(
            Goal(
                f"R1 a task for each chunk, {scheduler}: time, of native",
                f"R1 {scheduler}",
                "wall",
                1.0,
                Cell(f"R1 {scheduler}", cases.NATIVE, "wall"),
            )
            for scheduler in ("threads", "processes")
        ),
        faster("R2", cases.NATIVE, 13.0),
        faster("R2", cases.TENSORSTORE, 0.5),
        Goal(
            "R2 each chunk, beyond zarr's indexing",
            "R2 beyond",
            "wall",
            4e-6,
            scale=1e6,
            unit="µs",
        ),
        faster("R3", cases.NATIVE, 2.7),
        faster("R3", cases.NATIVE_FUSED, 1.0),
        faster("R3", cases.TENSORSTORE, 1 / LEVEL),
        Goal(
            "R3 cores busy",
            "R3",
            "wall",
            0.75 * (os.cpu_count() or 1),
            Cell("R3", None, "cpu"),
            speedup=True,
            unit="",
        ),
        Goal(
            "R6 peak memory beyond the output: the stated budget",
            "R6",
            "peak",
            float(MOST_BYTES_IN_FLIGHT),
            scale=1e-6,
            unit="MB",
        ),
    )


def _remote() -> tuple[Goal, ...]:
    found = []
    for name, text in (
        ("R4", "R4"),
        ("R4 fused", "R4, FusedCodecPipeline configured"),
        ("R4 sharded", "R4, shards"),
        ("R4 threads", "R4, xarray and dask"),
    ):
        floor = "R4" if name == "R4 fused" else name
        time = Cell(floor, cases.FLOOR, "wall")
        found += [
            Goal(f"{text}: requests", name, "requests", 20.0, unit=""),
            Goal(f"{text}: time, of the floor", name, "wall", 1.5, time),
        ]
    return tuple(found)


def _xarray() -> tuple[Goal, ...]:
    found = []
    for name, text, what in (
        ("D none", "one variable, `chunks=None`", "first"),
        ("D none", "one variable, `chunks=None`, next", "wall"),
        ("D auto", 'one variable, `chunks="auto"`', "first"),
        ("D auto", 'one variable, `chunks="auto"`, next', "wall"),
        ("D tasks 8", "a task for each chunk, 8 threads", "first"),
        ("D tasks 8", "a task for each chunk, 8 threads, next", "wall"),
        ("D few", "3 chunks, a task each", "first"),
        ("D few", "3 chunks, a task each, next", "wall"),
        ("D turns", "10 variables, one after the other", "wall"),
        ("D open", "opening and one chunk, in a new process", "new"),
        ("D open", "opening and one chunk", "wall"),
        ("D open URL", "opening by URL and one chunk, in a new process", "new"),
    ):
        native = Cell(name, cases.NATIVE, what)
        found.append(Goal(f"D {text}: time, of native", name, what, 1.0, native))
    requests = Cell("D open", cases.NATIVE, "requests")
    found.append(
        Goal("D opening and one chunk: requests, of native", "D open", "requests", 1.0, requests)
    )
    for what, text in (("first", ""), ("wall", ", next")):
        title = f"D a task for each chunk, 2 threads{text}: speed, of native"
        native = Cell("D tasks", cases.NATIVE, what)
        found.append(Goal(title, "D tasks", what, 2.0, native, speedup=True))
    return tuple(found)


def _native() -> tuple[Goal, ...]:
    works = (("R5 read", "a read"), ("R5 open", "opening a group"), ("R5 list", "listing"))
    # zarr overwrites an array's metadata, so they are read again before: another writer may have
    # given the array a manifest. Before the first time, manifests are looked for by a listing.
    looks = (("requests", "an append", 2.0), ("later", "a later append", 1.0))
    return (
        *(
            Goal(f"R5 CPU of {text}, of native", name, "cpu", 1.03, Cell(name, None, "without"))
            for name, text in works
        ),
        *(
            Goal(
                f"R5 requests of {text}, beyond native",
                "R5 append",
                name,
                bound,
                Cell("R5 append", cases.NATIVE, name),
                beyond=True,
                unit="",
            )
            for name, text, bound in looks
        ),
    )


def _conversions() -> tuple[Goal, ...]:
    loading = Cell("import JSON", cases.FSSPEC_JSON, "cpu")
    found = [
        Goal("import JSON: CPU, of fsspec's own loading", "import JSON", "cpu", LEVEL, loading)
    ]
    for form in ("JSON", "Parquet"):
        name = f"export {form}"
        floor = Cell(name, cases.FLOOR, "cpu")
        text = f"{name}: CPU, of encoding and writing what is at hand"
        found.append(Goal(text, name, "cpu", 2.0, floor))
    return tuple(found)
