"""``upgrade``: hierarchies of older writers, made valid."""

from __future__ import annotations

from collections.abc import Iterator

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import (
    access_options,
    allowed,
    open_existing,
    require_no_file,
)
from zarr_manifest.command_line.outcomes import note_lines, noted, refusal_lines, refusals
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task, stating_usage
from zarr_manifest.conversion import UpgradeReport
from zarr_manifest.hierarchy import open_hierarchy

__all__ = ["upgrade"]


@click.command(
    cls=Task,
    short_help="Make valid what VirtualiZarr 1.0 to 1.3 wrote.",
    examples=[
        ("upgrade theirs.zarr --dry-run", "what would be repaired"),
        ("upgrade theirs.zarr --to valid.zarr", "in a copy, and theirs.zarr stays as it is"),
        ("upgrade theirs.zarr --base /data/theirs/", "in place; where it was written in is known"),
    ],
)
@click.argument("hierarchy")
@click.option("--to", "target", metavar="TARGET", help="Repair a copy, at this place.")
@click.option(
    "--base",
    metavar="URL",
    help="The directory in which HIERARCHY was written, which relative paths are relative to. "
    "Looked for otherwise, if HIERARCHY is on disk.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing, and say what would be done.")
@click.option(
    "--sole-writer",
    is_flag=True,
    help="Promise that nobody else writes there, for stores where that cannot be told.",
)
@click.option("--allow-refused", is_flag=True, help="Exit with 0 also where something was refused.")
@access_options
def upgrade(
    hierarchy: str,
    target: str | None,
    base: str | None,
    dry_run: bool,
    sole_writer: bool,
    allow_refused: bool,
    anonymously: tuple[str, ...],
    with_credentials: tuple[str, ...],
    settings: tuple[str, ...],
) -> Outcome:
    """Make a HIERARCHY valid that VirtualiZarr 1.0 to 1.3 wrote.

    What is unambiguous is repaired, and named. Arrays of which it cannot be told what
    they should be are refused with the reason, and stay as they are; the exit status is
    then 1. Sources are not read. A second run changes nothing.
    """
    allow = allowed(anonymously, with_credentials, settings)
    require_no_file(hierarchy)
    with stating_usage(ValueError):
        read_only = dry_run or target is not None
        report = conversion.upgrade(
            open_existing(hierarchy, allow, read_only=read_only),
            target=None if target is None else open_hierarchy(target, allow, read_only=dry_run),
            base=base,
            dry_run=dry_run,
            sole_writer=sole_writer,
        )
    document = {
        "hierarchy": hierarchy,
        "target": target,
        "dry_run": dry_run,
        "repaired": {path: list(repairs) for path, repairs in report.arrays.items() if repairs},
        "valid": [path for path, repairs in report.arrays.items() if not repairs],
        "written": report.written,
        "refused": refusals(report.refused),
        "notes": noted(report.notes),
    }
    remarks = [*note_lines(report.notes), *refusal_lines(report.refused)]
    status = PROBLEMS if report.refused and not allow_refused else 0
    return Outcome(document, _lines(target or hierarchy, report), remarks, status)


def _lines(place: str, report: UpgradeReport) -> Iterator[str]:
    for path in report.repaired:
        for repair in report.arrays[path]:
            yield f"/{path}: {repair}"
    verb = "would be repaired" if report.dry_run else "repaired"
    total = len(report.arrays) + len(report.refused)
    yield f"{place}: {len(report.repaired)} of {total} manifest arrays {verb}"
