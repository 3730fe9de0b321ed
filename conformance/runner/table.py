"""`python -m conformance.runner.table A.json B.json …`: implementations side by side.

Reads the reports that `--json` wrote, and prints Markdown tables, by class and by area. Where an
implementation holds a class, its cell says so. Exits with 1 if any of
them has unexpected results, and with 2 if a file is not a report.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.runner.errors import UsageError
from conformance.runner.reports import load_report

__all__ = ["main", "render"]


def render(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the tables: a row for each class or area, a column for each report."""
    by_class = _rows("class", reports, "classes")
    by_area = _rows("area", reports, "areas")
    by_area.append(["total", *(_cell(report["summary"]) for report in reports)])
    return _markdown(by_class) + "\n" + _markdown(by_area)


def _rows(heading: str, reports: Sequence[Mapping[str, Any]], groups: str) -> list[list[str]]:
    names = [report["implementation"] for report in reports]
    rows = [[heading, *(f"{name['name']} {name['version']}".strip() for name in names)]]
    for group in dict.fromkeys(group for report in reports for group in report[groups]):
        cells = [
            ("held: " if groups == "classes" and group in (report["held"] or ()) else "")
            + _cell(report[groups].get(group))
            for report in reports
        ]
        rows.append([group, *cells])
    return rows


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |\n"
        for line in lines
    )


def _cell(counts: Mapping[str, int] | None) -> str:
    """Show `passed/run`, and the other outcomes."""
    if counts is None:
        return "-"
    run = sum(counts.values()) - counts["skipped"]
    if not run:
        return "skipped"
    others = [
        f"{counts[outcome]} {outcome.replace('_', ' ')}"
        for outcome in ("failed", "unexpected_pass", "known", "advisory", "skipped")
        if counts[outcome]
    ]
    shown = f"{counts['passed'] + counts['unexpected_pass']}/{run}"
    return f"{shown} ({', '.join(others)})" if others else shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.runner.table",
        description="Print the results of several implementations side by side.",
    )
    parser.add_argument("reports", nargs="+", type=Path, help="reports written by --json")
    try:
        reports = [load_report(path) for path in parser.parse_args(arguments).reports]
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(render(reports))
    for report in reports:
        for problem in report["problems"]:
            sys.stdout.write(f"\n{report['implementation']['name']}: {problem}\n")
    return 1 if any(report["unexpected"] for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
