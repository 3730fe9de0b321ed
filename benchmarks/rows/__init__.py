"""The rows of the table, one module for each group of cases that share data."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.cases import Group
from benchmarks.effort import Effort
from benchmarks.rows import (
    conversions,
    imports,
    local_reads,
    native_arrays,
    opening,
    remote_reads,
    writing,
    xarray_reads,
)

GROUPS: dict[str, Callable[[Effort], Group]] = {
    "opening": opening.group,
    "imports": imports.group,
    "writing": writing.group,
    "local": local_reads.group,
    "remote": remote_reads.group,
    "xarray": xarray_reads.group,
    "native": native_arrays.group,
    "conversions": conversions.group,
}
