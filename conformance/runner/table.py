"""`python -m conformance.runner.table A.json B.json …`: implementations side by side, by area.

Reads the reports that `--json` wrote, and prints a Markdown table. Exits with 1 if any of
them has unexpected results, and with 2 if a file is not a report.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.runner.errors import UsageError

__all__ = ["main", "render"]


def render(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the table: a row for each area, a column for each report."""
    names = [report["implementation"] for report in reports]
    rows = [["area", *(f"{name['name']} {name['version']}".strip() for name in names)]]
    areas = list(dict.fromkeys(area for report in reports for area in report["areas"]))
    rows += [[area, *(_cell(report["areas"].get(area)) for report in reports)] for area in areas]
    rows.append(["total", *(_cell(report["summary"]) for report in reports)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    return "".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        + " |\n"
        for row in rows
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


def _load(path: Path) -> Mapping[str, Any]:
    try:
        report = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be loaded: {error}") from error
    if not isinstance(report, dict) or report.get("format") != 1:
        raise UsageError(f"{path}: is not a report of this runner")
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.runner.table",
        description="Print the results of several implementations side by side.",
    )
    parser.add_argument("reports", nargs="+", type=Path, help="reports written by --json")
    try:
        reports = [_load(path) for path in parser.parse_args(arguments).reports]
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
