"""The rows of the table, one module for each group of cases that share data."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.cases import Group
from benchmarks.effort import Effort
from benchmarks.rows import local_reads, opening, remote_reads

GROUPS: dict[str, Callable[[Effort], Group]] = {
    "opening": opening.group,
    "local": local_reads.group,
    "remote": remote_reads.group,
}
