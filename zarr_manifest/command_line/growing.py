"""``append`` and ``trim``: a hierarchy that grows at one end, and shrinks at the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.creating import (
    executor,
    keep_going_option,
    load_option,
    parallel_option,
    scans_option,
)
from zarr_manifest.command_line.options import changing_options, hierarchy_argument
from zarr_manifest.command_line.outcomes import members, noted, refused_sources, remarks
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task, stating_usage
from zarr_manifest.conversion import AppendReport
from zarr_manifest.showing import counted


@click.command(
    cls=Task,
    short_help="Append files or hierarchies along a dimension.",
    examples=[
        ("append 2023.zarr 2024.nc --dim time", "a second time: already there"),
        ("append 2023.zarr '2024*.nc' --dim time --same-locations", "all files that match"),
    ],
)
@hierarchy_argument
@click.argument("sources", nargs=-1, required=True)
@click.option("--dim", required=True, metavar="NAME", help="Dimension to append along.")
@click.option(
    "--replace",
    is_flag=True,
    help="Replace what has the same coordinates, but other references.",
)
@click.option(
    "--same-locations",
    is_flag=True,
    help="Refuse references that readers would have to allow besides those before.",
)
@load_option("Read this variable, and store it inline, as coordinates are. Repeatable.")
@keep_going_option
@parallel_option
@scans_option
@changing_options
def append(
    hierarchy: str,
    sources: tuple[str, ...],
    parallel: str | None,
    **how: Any,
) -> Outcome:
    """Append SOURCES to HIERARCHY, in the order given, as one change.

    SOURCES are data files, hierarchies of any kind, or patterns for these. Readers see all
    of it or nothing. If anything does not fit, nothing is written. What is there already,
    with the same references, is left out.
    """
    with executor(parallel) as workers, stating_usage(ValueError):
        report = conversion.append(hierarchy, sources, parallel=workers, **how)
    refused, lines = refused_sources(report.refused)
    document = {
        "hierarchy": hierarchy,
        **members(report, "appended", "replaced"),
        "already_there": report.there,
        **members(report, "arrays", "references", "new_locations"),
        "notes": noted(report.notes),
        "refused": refused,
    }
    notes = [
        *(
            f"new location: {place}: readers must allow it from now on"
            for place in report.new_locations
        ),
        *remarks(report.notes, []),
        *lines,
    ]
    return Outcome(document, _lines(hierarchy, report), notes, PROBLEMS if refused else 0)


def _lines(hierarchy: str, report: AppendReport) -> Iterator[str]:
    for name in report.there:
        yield f"already there: {name}"
    for name in report.replaced:
        yield f"replaced: {name}"
    for name in report.appended:
        yield f"appended: {name}"
    if report.arrays:
        written = counted(report.references, "reference")
        yield f"{hierarchy}: {counted(report.arrays, 'array')} changed, {written} written"


@click.command(
    cls=Task,
    short_help="Remove the beginning of a hierarchy along a dimension.",
    examples=[
        ("trim data.zarr --dim time --keep 2", "a rolling window, in whole chunks"),
        ("trim data.zarr --dim time --keep 3650", "at most: does nothing if there are fewer"),
    ],
)
@hierarchy_argument
@click.option("--dim", required=True, metavar="NAME", help="Dimension to remove values of.")
@click.option(
    "--keep",
    required=True,
    type=click.IntRange(min=1),
    help="How many of the last values stay; more, if they are in the same chunks.",
)
@changing_options
def trim(hierarchy: str, dim: str, keep: int, **how: Any) -> Outcome:
    """Remove the first values of HIERARCHY along a dimension, in whole chunks, as one change.

    Sources stay, and so do the chunks of native arrays, to which references are written.
    """
    report = conversion.trim(hierarchy, dim=dim, keep=keep, **how)
    document = {"hierarchy": hierarchy, **members(report, "kept", "removed", "arrays")}
    removed = counted(report.removed, "value")
    line = f"{hierarchy}: {removed} removed along {dim}, {report.kept:,} kept"
    return Outcome(document, [line])
