"""``refresh``: record the present state of sources whose bytes are the same."""

from __future__ import annotations

from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import changing_options, hierarchy_argument, limit_option
from zarr_manifest.command_line.outcomes import members, refused_sources
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task
from zarr_manifest.conversion import RenewalReport

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
@hierarchy_argument
@click.argument("arrays", nargs=-1)
@read_option
@changing_options
@limit_option
def refresh(hierarchy: str, arrays: tuple[str, ...], **how: Any) -> Outcome:
    """Record the present state of the sources of a HIERARCHY, or of some of its ARRAYS.

    For sources with other times and the same bytes, as after a restore. Each must have the
    recorded version or strong ETag or, where no tag differs, the recorded size. Others are
    refused by name, and stay as recorded; the exit status is then 1. All that is recorded
    is one change.
    """
    return renewal_outcome(hierarchy, conversion.refresh(hierarchy, arrays or None, **how))


def renewal_outcome(hierarchy: str, report: RenewalReport) -> Outcome:
    """Return the outcome of checking and recording sources."""
    refused, remarks = refused_sources(report.refused)
    found = members(report, "objects", "arrays")
    document = {"hierarchy": hierarchy, **found, "refused": refused}
    lines = [f"{hierarchy}: {report.summary}"]
    return Outcome(document, lines, remarks, PROBLEMS if refused else 0)
