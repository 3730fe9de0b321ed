"""Where figures come from: the processor, the system, and the versions of what was compared."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "zarr",
    "numpy",
    "numcodecs",
    "obstore",
    "tensorstore",
    "icechunk",
    "virtualizarr",
    "fsspec",
    "fastparquet",
    "pyarrow",
    "kerchunk",
    "xarray",
    "dask",
)


def description() -> list[str]:
    """Return lines about the machine and the versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}",
        f"Python {platform.python_version()}, {', '.join(map(_with_version, PACKAGES))}",
    ]


def _with_version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"no {package}"


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
