"""``upgrade``: repair hierarchies of older writers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import (
    access_options,
    allow_refused_option,
    hierarchy_argument,
    limit_option,
    no_lock_option,
    sole_writer_option,
)
from zarr_manifest.command_line.outcomes import noted, refusals, remarks
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task, stating_usage
from zarr_manifest.conversion import UpgradeReport


@click.command(
    cls=Task,
    short_help="Repair a hierarchy that VirtualiZarr 1.0 to 1.3 wrote.",
    examples=[
        ("upgrade theirs.zarr --dry-run", "what would be repaired"),
        ("upgrade theirs.zarr --to valid.zarr", "repair a copy, and leave theirs.zarr as it is"),
        ("upgrade theirs.zarr --working-directory /data/theirs/", "in place; it was written there"),
    ],
)
@hierarchy_argument
@click.option("--to", "target", metavar="TARGET", help="Repair a copy, written here.")
@click.option(
    "--working-directory",
    metavar="URL",
    help="Working directory of the program that wrote HIERARCHY: its relative paths start there. "
    "By default, it is searched for if HIERARCHY is on disk.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be done.")
@no_lock_option
@sole_writer_option
@allow_refused_option
@access_options
@limit_option
def upgrade(
    hierarchy: str,
    target: str | None,
    dry_run: bool,
    allow_refused: bool,
    **how: Any,
) -> Outcome:
    """Repair a HIERARCHY that VirtualiZarr 1.0 to 1.3 wrote.

    Unambiguous faults are repaired, and each repair is listed. Ambiguous arrays are
    refused with the reason and left unchanged; the exit status is then 1. Sources are
    not read. A second run changes nothing.
    """
    with stating_usage(ValueError):
        report = conversion.upgrade(hierarchy, target=target, dry_run=dry_run, **how)
    document = {
        "hierarchy": hierarchy,
        "target": target,
        "dry_run": dry_run,
        "repaired": {path: list(repairs) for path, repairs in report.repairs.items() if repairs},
        "valid": [path for path, repairs in report.repairs.items() if not repairs],
        "written": report.written,
        "refused": refusals(report.refused),
        "notes": noted(report.notes),
    }
    notes = list(remarks(report.notes, report.refused))
    status = PROBLEMS if report.refused and not allow_refused else 0
    return Outcome(document, _lines(target or hierarchy, report), notes, status)


def _lines(place: str, report: UpgradeReport) -> Iterator[str]:
    for path in report.repaired:
        for repair in report.repairs[path]:
            yield f"/{path}: {repair}"
    yield f"{place}: {report.summary}"
