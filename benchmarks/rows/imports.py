"""What `import zarr_manifest` costs beyond `import zarr`, which everybody here but one needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import cases
from benchmarks.cases import MILLISECONDS, Case, Group, Task
from benchmarks.effort import Effort
from benchmarks.measuring import Measured

MODULES = {
    cases.US: "zarr_manifest",
    cases.TENSORSTORE: "tensorstore",
    cases.ICECHUNK: "icechunk",
    cases.VIRTUALIZARR: "virtualizarr",
    cases.FSSPEC_JSON: "fsspec.implementations.reference",
    cases.FSSPEC_PARQUET: "fsspec.implementations.reference",
}

_PROGRAM = """
import time
import zarr
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def group(effort: Effort) -> Group:
    native = "zarr itself is imported before"
    return Group(
        "imports",
        (
            Case(
                "import",
                "import, beyond `import zarr`",
                (MILLISECONDS,),
                _import,
                tuple(MODULES),
                {
                    **dict.fromkeys((cases.NATIVE, cases.NATIVE_FUSED), native),
                    cases.US_BULK: "what the bulk pipeline adds is imported when it is switched on",
                },
            ),
        ),
        prepare,
    )


@contextmanager
def prepare(directory: Path, effort: Effort) -> Iterator[None]:
    yield


def _import(task: Task) -> Measured:
    """Import in processes of their own; the first one compiles."""
    program = _PROGRAM.format(module=MODULES[task.column])
    seconds = [_seconds(program) for _ in range(task.effort.pick(6, 2))]
    return {"wall": min(seconds)}


def _seconds(program: str) -> float:
    # Users do not wait for compilation, which would happen if bytecode could not be written.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", program]
    return float(subprocess.check_output(command, text=True, env=environment))
