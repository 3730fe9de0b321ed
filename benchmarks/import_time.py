"""What ``import zarr_manifest`` costs beyond ``import zarr``, which it needs anyway.

Each import runs in its own process, and only the import is timed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.tables import Table, milliseconds, ratio

IMPORTS = ("zarr", "zarr_manifest", "zarr_manifest, obstore", "zarr_manifest, xarray")
ROUNDS = 15

_PROGRAM = """
import sys, time
start = time.perf_counter()
import {modules}
print(time.perf_counter() - start, len(sys.modules))
"""


def run(quick: bool) -> Iterator[Table]:
    table = Table(
        "Importing (median; a process each)", ("import", "time", "compared with zarr", "modules")
    )
    taken: dict[str, list[tuple[float, int]]] = {modules: [] for modules in IMPORTS}
    # In turn, so that a disturbance affects all; the first round writes the bytecode.
    for _ in range(1 + (ROUNDS // 3 if quick else ROUNDS)):
        for modules in IMPORTS:
            taken[modules].append(measure(modules))
    zarr = median(seconds for seconds, _ in taken["zarr"][1:])
    for modules, measured in taken.items():
        seconds = median(seconds for seconds, _ in measured[1:])
        table.add(modules, milliseconds(seconds), ratio(seconds / zarr), f"{measured[-1][1]:,}")
    yield table


def measure(modules: str) -> tuple[float, int]:
    """Return the seconds that an import takes, and the number of modules loaded after it."""
    # Users do not wait for compilation, which would happen if bytecode could not be written.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(modules=modules)],
        capture_output=True,
        check=True,
        text=True,
        env=environment,
    )
    seconds, count = done.stdout.split()
    return float(seconds), int(count)
