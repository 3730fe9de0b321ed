"""Print the one table and the goals; `--write-docs` makes a page of them."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks import page
from benchmarks.effort import Effort
from benchmarks.experiments import EXPERIMENTS
from benchmarks.goals import judge
from benchmarks.layout import tabulate
from benchmarks.machine import description
from benchmarks.results import Results
from benchmarks.rows import GROUPS
from benchmarks.runner import run_group, to_stderr
from benchmarks.standing import goals
from benchmarks.sweeps import SWEEPS

#: What was measured last, for `--saved`.
SAVED = Path("bench-output/results.json")


def main() -> int:
    arguments = _parse()
    for name in (name for name in arguments.names if name in EXPERIMENTS):
        for table in EXPERIMENTS[name](Effort(arguments.quick, arguments.huge)):
            print(f"\n{table.text()}", flush=True)
    names = [name for name in arguments.names or GROUPS if name in GROUPS]
    if not names:
        return 0
    results = Results.load(SAVED) if arguments.saved else _measure(names, arguments)
    cases = [case for name in names for case in GROUPS[name](results.effort).cases]
    print("\n".join(results.machine))
    chosen = [goal for goal in goals() if goal.case in {case.name for case in cases}]
    print(f"\n{tabulate(cases, results).text()}\n\n{judge(chosen, results).text()}")
    if arguments.write_docs:
        page.write(cases, results)
        print(f"\nwritten: {page.PAGE}")
    for failure in results.failures:
        to_stderr(f"failed: {failure}")
    return 1 if results.failures else 0


def _measure(names: list[str], arguments: argparse.Namespace) -> Results:
    passes = arguments.passes or (1 if arguments.quick else 3)
    effort = Effort(arguments.quick, arguments.huge, passes)
    results = Results(effort, description())
    if arguments.again:
        results = Results.load(SAVED)
        effort = replace(results.effort, passes=passes)
    for name in (*names, *(SWEEPS if arguments.write_docs else ())):
        run_group({**GROUPS, **SWEEPS}[name](effort), effort, results, to_stderr)
        results.save(SAVED)
    return results


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = (*GROUPS, *EXPERIMENTS)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="name",
        help=f"groups of rows: {', '.join(GROUPS)} (all by default); or experiments, which have "
        f"tables of their own: {', '.join(EXPERIMENTS)}",
    )
    parser.add_argument("--quick", action="store_true", help="less data, measured once")
    parser.add_argument(
        "--huge", action="store_true", help="also what takes many minutes and gigabytes"
    )
    parser.add_argument("--passes", type=int, help="how often all cells are measured (3, or 1)")
    parser.add_argument(
        "--write-docs", action="store_true", help="write docs/performance.md, with plots"
    )
    parser.add_argument(
        "--saved", action="store_true", help=f"measure nothing: use {SAVED}, of the last run"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help=f"measure as much data as in {SAVED}, and keep the least of both",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if arguments.write_docs and arguments.names:
        parser.error("the page has all rows: --write-docs goes without names")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
