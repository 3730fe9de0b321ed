"""Runs groups of cases: data first, then every cell in a fresh process, several passes over all."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.cases import Group, Task
from benchmarks.effort import Effort
from benchmarks.measuring import Measured
from benchmarks.participants import PARTICIPANTS, lacking
from benchmarks.processes import FailedInProcess, in_fresh_process
from benchmarks.results import Results
from benchmarks.rows import GROUPS
from benchmarks.sweeps import SWEEPS

type Report = Callable[[str], None]

_GROUPS = {**GROUPS, **SWEEPS}


def run_group(group: Group, effort: Effort, results: Results, report: Report) -> None:
    """Measure one group into the results."""
    with TemporaryDirectory(prefix="benchmarks-") as directory:
        report(f"{group.name}: data")
        with group.prepare(Path(directory), effort):
            spent: dict[tuple[str, str], float] = {}
            for number in range(effort.passes):
                report(f"{group.name}: pass {number + 1} of {effort.passes}")
                _pass(group, Path(directory), effort, results, spent)


def _pass(
    group: Group,
    directory: Path,
    effort: Effort,
    results: Results,
    spent: dict[tuple[str, str], float],
) -> None:
    for case in group.cases:
        results.explain_absent(case)
        possible: list[str] = []
        for column in case.columns:
            if lacks := PARTICIPANTS[column].lacks or lacking(case.requires):
                results.explain(case.name, column, lacks)
            else:
                possible.append(column)
        taken = dict.fromkeys(possible, 0.0)
        for _ in range(effort.processes):
            # Side by side: what disturbs for a while disturbs all of them.
            for column in possible:
                cell = case.name, column
                if taken[column] > effort.moment or spent.get(cell, 0.0) >= effort.patience:
                    continue
                start = time.monotonic()
                _measure(group.name, case.name, Task(column, directory, effort), results)
                taken[column] = time.monotonic() - start
                spent[cell] = spent.get(cell, 0.0) + taken[column]


def _measure(group: str, case: str, task: Task, results: Results) -> None:
    try:
        results.add(case, task.column, in_fresh_process(_run_case, group, case, task))
    except FailedInProcess as error:
        to_stderr(f"{task.column} failed to do {case}:\n{error.traceback or error}")
        results.fail(case, task.column, str(error))


def _run_case(group: str, name: str, task: Task) -> Measured:
    """Find the case again, in the process that measures it."""
    case = next(each for each in _GROUPS[group](task.effort).cases if each.name == name)
    return case.run(task)


def to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
