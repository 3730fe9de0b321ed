"""Print the one table and the goals; `--write-docs` makes a page of them."""

from __future__ import annotations

import argparse
import sys

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


def main() -> int:
    arguments = _parse()
    effort = Effort(quick=arguments.quick, huge=arguments.huge)
    print("\n".join(description()))
    for name in (name for name in arguments.names if name in EXPERIMENTS):
        for table in EXPERIMENTS[name](effort):
            print(f"\n{table.text()}", flush=True)
    names = [name for name in arguments.names or GROUPS if name in GROUPS]
    groups, results = [GROUPS[name](effort) for name in names], Results()
    for group in groups:
        run_group(group, effort, results, to_stderr)
    cases = [case for group in groups for case in group.cases]
    if cases:
        print(f"\n{tabulate(cases, results).text()}\n\n{judge(goals(), results).text()}")
    if arguments.write_docs:
        for sweep in SWEEPS.values():
            run_group(sweep(effort), effort, results, to_stderr)
        page.write(cases, results, effort)
        print(f"\nwritten: {page.PAGE}")
    for failure in results.failures:
        to_stderr(f"failed: {failure}")
    return 1 if results.failures else 0


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
    parser.add_argument(
        "--write-docs", action="store_true", help="write docs/performance.md, with plots"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if arguments.write_docs and arguments.names:
        parser.error("the page has all rows: --write-docs goes without names")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
