"""``clean``: remove what nothing in a hierarchy refers to any more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import click

import zarr_manifest
from zarr_manifest.command_line.options import (
    access_options,
    duration,
    hierarchy_argument,
    limit_option,
    passed_to,
)
from zarr_manifest.command_line.outcomes import members
from zarr_manifest.command_line.tasks import Outcome, Task
from zarr_manifest.showing import counted, size
from zarr_manifest.writing import CleaningReport


@click.command(
    cls=Task,
    short_help="Remove what nothing in a hierarchy refers to any more.",
    examples=[
        ("clean data.zarr --dry-run", "what would be removed"),
        ("clean data.zarr", "what was written more than a week ago"),
        ("clean data.zarr --older-than 12h", "what was written more than 12 hours ago"),
        (
            "clean chunks --used-by may.zarr --used-by june.zarr",
            "which chunks in a place that snapshots share none of these uses",
        ),
    ],
)
@hierarchy_argument
@click.option(
    "--older-than",
    default="7d",
    show_default=True,
    metavar="AGE",
    callback=passed_to(partial(duration, option="--older-than")),
    help="Leave alone what was written less than this ago, as 7d, 12h, 30m or 0s.",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@click.option(
    "--used-by",
    multiple=True,
    metavar="HIERARCHY",
    help="List what this hierarchy does not use, where HIERARCHY is a place for chunks. "
    "Repeatable: name all that share it.",
)
@click.option(
    "--no-others",
    is_flag=True,
    help="Promise that no other hierarchies use these chunks: then they are removed.",
)
@access_options
@limit_option
def clean(
    hierarchy: str, dry_run: bool, used_by: tuple[str, ...], no_others: bool, **how: Any
) -> Outcome:
    """Remove manifest documents and chunks that nothing in HIERARCHY refers to any more.

    Writers leave what they replace, for readers that opened HIERARCHY before. Only objects
    that have the digest that their name states are removed, and files that killed writers
    left; if some metadata or manifest cannot be read, nothing is. Writers may work
    meanwhile: what they write is young.
    """
    if no_others and not used_by:
        raise click.UsageError("--no-others is about chunks that hierarchies share: add --used-by")
    dry_run = dry_run or bool(used_by and not no_others)
    report = zarr_manifest.clean(
        hierarchy, dry_run=dry_run, used_by=used_by or None, no_others=no_others, **how
    )
    document = {
        "hierarchy": hierarchy,
        "dry_run": dry_run,
        "unused": [members(each, "key", "kind", "nbytes") for each in report.unused],
        **members(report, "nbytes", "young"),
        "kept": [{"key": key, "reason": reason} for key, reason in report.kept],
    }
    remarks = [f"note: {key} stays: {reason}" for key, reason in report.kept]
    return Outcome(document, _lines(hierarchy, report, dry_run), remarks)


def _lines(hierarchy: str, report: CleaningReport, dry_run: bool) -> Iterator[str]:
    for each in report.unused:
        yield f"{each.key}  {size(each.nbytes)}"
    verb = "would remove" if dry_run else "removed"
    young = f"; {counted(report.young, 'younger object')} left alone" if report.young else ""
    yield f"{hierarchy}: {verb} {report}{young}"
