"""Questions that decisions rest on, each with a table of its own; only run when named."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.effort import Effort
from benchmarks.experiments import (
    appending,
    compact_form,
    many_datasets,
    merging_gaps,
    scans,
    verifying,
)
from benchmarks.layout import Table

EXPERIMENTS: dict[str, Callable[[Effort], Iterator[Table]]] = {
    "append": appending.run,
    "forms": compact_form.run,
    "datasets": many_datasets.run,
    "gaps": merging_gaps.run,
    "scan": scans.run,
    "verify": verifying.run,
}
