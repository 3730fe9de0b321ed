"""``refresh``: record the present state of sources whose bytes are the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import (
    access_options,
    allowed,
    limit_option,
    limits,
    require_no_file,
    sole_writer_option,
)
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task
from zarr_manifest.command_line.wording import spelled
from zarr_manifest.conversion import RenewalReport
from zarr_manifest.showing import counted

read_option = click.option(
    "--read",
    is_flag=True,
    help="Read all chunks: they must have their checksums or, without one, be decodable.",
)


@click.command(
    cls=Task,
    short_help="Record the present state of sources whose bytes are the same.",
    examples=[
        ("refresh mirror.zarr", "after a copy that lost the times of its files"),
        ("refresh mirror.zarr sst --read", "one array; all of its chunks are read"),
    ],
)
@click.argument("hierarchy")
@click.argument("arrays", nargs=-1)
@read_option
@sole_writer_option
@access_options
@limit_option
def refresh(
    hierarchy: str,
    arrays: tuple[str, ...],
    read: bool,
    sole_writer: bool,
    **access: Any,
) -> Outcome:
    """Record the present state of the sources of a HIERARCHY, or of some of its ARRAYS.

    For sources with other times and the same bytes, as after a restore. Each must have the
    recorded version or strong ETag or, where no tag differs, the recorded size. Others are
    refused by name, and stay as recorded; the exit status is then 1. All that is recorded
    is one change.
    """
    require_no_file(hierarchy)
    report = conversion.refresh(
        hierarchy,
        arrays or None,
        read=read,
        allow=allowed(access),
        limits=limits(access["stated_limits"]),
        sole_writer=sole_writer,
    )
    return renewal_outcome(hierarchy, report)


def renewal_outcome(hierarchy: str, report: RenewalReport) -> Outcome:
    """Return the outcome of checking and recording sources."""
    refused: list[dict[str, Any]] = [
        {"location": each.location, "code": each.code, "reason": spelled(each.reason)}
        for each in report.refused
    ]
    document = {
        "hierarchy": hierarchy,
        "objects": report.objects,
        "arrays": report.arrays,
        "refused": refused,
    }
    remarks = [f"refused: {each['location']}: {each['code']}: {each['reason']}" for each in refused]
    return Outcome(document, _lines(hierarchy, report), remarks, PROBLEMS if refused else 0)


def _lines(hierarchy: str, report: RenewalReport) -> Iterator[str]:
    checked = counted(report.objects, "object")
    yield f"{hierarchy}: {checked} checked, {counted(len(report.arrays), 'array')} written"
