"""What is measured: columns (who reads), cases (what), and the quantities that make rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.effort import Effort
from benchmarks.measuring import Measured

US = "zarr-manifest"
NATIVE = "zarr native"
NATIVE_FUSED = "zarr native, fused"
TENSORSTORE = "TensorStore"
ICECHUNK = "Icechunk"
VIRTUALIZARR = "VirtualiZarr"
FSSPEC_JSON = "fsspec JSON"
FSSPEC_PARQUET = "fsspec Parquet"
FLOOR = "floor"

COLUMNS = (
    US,
    NATIVE,
    NATIVE_FUSED,
    TENSORSTORE,
    ICECHUNK,
    VIRTUALIZARR,
    FSSPEC_JSON,
    FSSPEC_PARQUET,
    FLOOR,
)


@dataclass(frozen=True)
class Quantity:
    """One measured number: its name among those that a case measures, and how it is shown."""

    name: str
    unit: str
    scale: float = 1.0


SECONDS = Quantity("wall", "s")
CPU_SECONDS = Quantity("cpu", "CPU s")
MILLISECONDS = Quantity("wall", "ms", 1e3)
PEAK = Quantity("peak", "MB peak", 1e-6)
REQUESTS = Quantity("requests", "requests")


@dataclass(frozen=True)
class Task:
    """One cell, for the process that measures it: `directory` has what `prepare` made."""

    column: str
    directory: Path
    effort: Effort


@dataclass(frozen=True)
class Case:
    """Some work that the participants do, each in its column.

    Attributes
    ----------
    name
        How goals refer to it; short, and unique.
    title
        What the table says.
    quantities
        The rows: which of the measured numbers are shown.
    run
        Does the work for one column; called in a fresh process.
    columns
        Who takes part.
    reasons
        Why the others do not.
    requires
        Packages without which nobody can.
    """

    name: str
    title: str
    quantities: tuple[Quantity, ...]
    run: Callable[[Task], Measured]
    columns: tuple[str, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """Cases that share data: `prepare` makes them in a directory, and may keep servers running."""

    name: str
    cases: tuple[Case, ...]
    prepare: Callable[[Path, Effort], AbstractContextManager[None]]
