"""``scan``: what is found in files, kept for ``create``."""

from __future__ import annotations

import re
from typing import Any, TextIO

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.creating import (
    checksum_option,
    executor,
    format_option,
    lines_of,
    list_option,
    load_option,
    parallel_option,
    recursive_option,
)
from zarr_manifest.command_line.options import access_options
from zarr_manifest.command_line.outcomes import bars, members, refused_sources
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task, stating_usage
from zarr_manifest.conversion import ScanReport


@click.command(
    cls=Task,
    short_help="Keep what is found in files, for create --scans.",
    examples=[
        ("scan 2023.nc 2024.nc --scans scans", "then: create ... --scans scans"),
        ("scan '20*.nc' --scans scans --part 3/100", "the third of 100 jobs of an array"),
    ],
)
@click.argument("files", nargs=-1)
@click.option(
    "--scans",
    metavar="PLACE",
    required=True,
    help="Directory, or URL of a prefix of a bucket, in which scans are kept.",
)
@click.option(
    "--part",
    default="1/1",
    metavar="N/COUNT",
    help="Scan only one part of the files, such as 3/100. Which one a file belongs to depends on "
    "its URL alone.",
)
@list_option
@recursive_option
@format_option
@load_option("The same as for create --scans. Repeatable.")
@parallel_option
@checksum_option
@access_options
def scan(
    files: tuple[str, ...],
    scans: str,
    part: str,
    list_: TextIO | None,
    loadable_variables: tuple[str, ...],
    parallel: str | None,
    **how: Any,
) -> Outcome:
    """Scan FILES, and keep what is found in each, for create --scans with the same options.

    FILES are as for create. Those that have a scan, and have not changed, are not read again.
    Files that cannot be read or converted are refused by name, and the others are scanned; the
    exit status is then 1. Any number of jobs may scan into one place at once.
    """
    matched = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", part)
    if matched is None:
        raise click.UsageError(f"--part takes N/COUNT, such as 3/100, not {part!r}")
    named = [*files, *lines_of(list_)]
    if not named:
        raise click.UsageError("name the files: FILES, or --from-file LIST")
    with bars("files") as shown, executor(parallel) as workers, stating_usage(ValueError):
        report = conversion.scan_files(
            named,
            scans,
            part=(int(matched[1]), int(matched[2])),
            loadable_variables=loadable_variables or None,
            parallel=workers,
            progress=shown.found,
            **how,
        )
    return _outcome(scans, report)


def _outcome(scans: str, report: ScanReport) -> Outcome:
    refused, remarks = refused_sources(report.refused)
    unkept = [
        f"note: {url}: not kept: its state is unknown, or it has just been written"
        for url in report.unkept
    ]
    found = members(report, "found", "made", "unkept")
    document = {"scans": scans, **found, "refused": refused}
    lines = [f"{scans}: {report.summary}"]
    return Outcome(document, lines, [*unkept, *remarks], PROBLEMS if refused else 0)
