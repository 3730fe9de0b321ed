"""What importing costs beyond `import zarr`, which everybody here but one needs.

Ours is imported with the name that opens hierarchies, because the package loads its packages when
their names are used.
"""

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

IMPORTS = {
    cases.US: "from zarr_manifest import ManifestStore",
    cases.TENSORSTORE: "import tensorstore",
    cases.ICECHUNK: "import icechunk",
    cases.VIRTUALIZARR: "import virtualizarr",
    cases.FSSPEC_JSON: "import fsspec.implementations.reference",
    cases.FSSPEC_PARQUET: "import fsspec.implementations.reference",
}

_PROGRAM = """
import gc
import time
import zarr
gc.collect()
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""


def group(effort: Effort) -> Group:
    native = "zarr itself is imported before"
    return Group(
        "imports",
        (
            Case(
                "import",
                "import what opens, beyond `import zarr`",
                (MILLISECONDS,),
                _import,
                tuple(IMPORTS),
                dict.fromkeys((cases.NATIVE, cases.NATIVE_FUSED), native),
            ),
        ),
        prepare,
    )


@contextmanager
def prepare(directory: Path, effort: Effort) -> Iterator[None]:
    yield


def _import(task: Task) -> Measured:
    """Import in processes of their own; the first one compiles."""
    program = _PROGRAM.format(statement=IMPORTS[task.column])
    seconds = [_seconds(program) for _ in range(task.effort.pick(6, 2))]
    return {"wall": min(seconds)}


def _seconds(program: str) -> float:
    # Users do not wait for compilation, which would happen if bytecode could not be written.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", program]
    return float(subprocess.check_output(command, text=True, env=environment))
