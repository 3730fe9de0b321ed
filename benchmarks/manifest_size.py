"""Manifests of many entries: opening, first chunk, memory per reference.

Each is measured in its own process, which has read a small manifest before, so that imports,
threads and caches do not count. Held memory is what tracemalloc finds, in another process,
because it is slow; resident memory includes what the allocator keeps.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import zarr

from benchmarks.datasets import create_array, declare
from benchmarks.readers import ReadableArray
from benchmarks.tables import Table, mebibytes, milliseconds
from zarr_manifest import ManifestStore

COUNTS = (10_000, 100_000, 1_000_000)
CHUNK_BYTES = 1024
ENTRIES_PER_SOURCE = 1000


def run(quick: bool) -> Iterator[Table]:
    table = Table(
        "Manifests of many entries (cold, a process each)",
        (
            *("entries", "document", "open", "first chunk", "another"),
            *("held", "held/ref.", "resident/ref.", "peak/ref."),
        ),
    )
    for count in COUNTS[:2] if quick else COUNTS:
        with TemporaryDirectory() as directory:
            write_many(Path(directory, "small"), 10)
            write_many(Path(directory, "large"), count)
            document = Path(directory, "large/data/manifest.json").stat().st_size
            result = median_probe(directory, probes=1 if quick else 3)
        table.add(
            f"{count:,}",
            mebibytes(document),
            milliseconds(result["open"]),
            milliseconds(result["first"]),
            milliseconds(result["another"]),
            mebibytes(result["held"]),
            f"{result['held'] / count:.0f} B",
            f"{result['resident'] / count:.0f} B",
            f"{result['peak'] / count:.0f} B",
        )
    yield table


def write_many(hierarchy: Path, count: int) -> None:
    """Write an array of `count` chunks, spread over source files with identical content."""
    create_array(hierarchy, count, CHUNK_BYTES)
    for number in range(-(-count // ENTRIES_PER_SOURCE)):
        (hierarchy / f"source-{number:04}.bin").write_bytes(b"\1" * CHUNK_BYTES * 8)
    manifest: dict[str, dict[str, Any]] = {
        str(number): {
            "path": f"../source-{number // ENTRIES_PER_SOURCE:04}.bin",
            "offset": number % 8 * CHUNK_BYTES,
            "length": CHUNK_BYTES,
        }
        for number in range(count)
    }
    declare(hierarchy / "data", manifest)


def median_probe(directory: str, probes: int) -> dict[str, float]:
    """Run the probes several times, each in its own process, and return medians."""
    results = [
        {key: value for probe in PROBES for key, value in run_probe(probe, directory).items()}
        for _ in range(probes)
    ]
    return {key: sorted(r[key] for r in results)[probes // 2] for key in results[0]}


def run_probe(name: str, directory: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.manifest_size", name, directory]
    result: dict[str, float] = json.loads(subprocess.check_output(command))
    return result


def open_data(hierarchy: Path) -> ReadableArray:
    return zarr.open_array(ManifestStore(hierarchy), path="data", mode="r")


def probe_times(directory: Path) -> dict[str, float]:
    length = CHUNK_BYTES // 4
    open_data(directory / "small")[:]
    before = resident()
    start = time.perf_counter()
    array = open_data(directory / "large")
    opened = time.perf_counter()
    array[:length]
    first = time.perf_counter()
    array[-length:]
    another = time.perf_counter()
    return {
        "open": opened - start,
        "first": first - opened,
        "another": another - first,
        "peak": high_water_mark() - before,
        "resident": resident() - before,
    }


def probe_held(directory: Path) -> dict[str, float]:
    open_data(directory / "small")[:]
    gc.collect()
    tracemalloc.start()
    array = open_data(directory / "large")
    array[: CHUNK_BYTES // 4]
    gc.collect()
    return {"held": tracemalloc.get_traced_memory()[0]}


PROBES = {"times": probe_times, "held": probe_held}


def resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def high_water_mark() -> int:
    """Largest resident size so far; on systems that do not report it, the current one."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resident()


if __name__ == "__main__":
    print(json.dumps(PROBES[sys.argv[1]](Path(sys.argv[2]))))
