"""``accept``: declare the checksums of manifest documents as they are now."""

from __future__ import annotations

from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import changing_options, hierarchy_argument, limit_option
from zarr_manifest.command_line.outcomes import members
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task
from zarr_manifest.command_line.validating import problem_document
from zarr_manifest.command_line.wording import spelled
from zarr_manifest.showing import counted


@click.command(
    cls=Task,
    short_help="Declare manifest documents as they are now.",
    examples=[
        ("accept data.zarr sst", "whose manifest document was edited"),
        ("accept data.zarr sst time", "both, as one change"),
    ],
)
@hierarchy_argument
@click.argument("arrays", nargs=-1, required=True, metavar="ARRAY...")
@changing_options
@limit_option
def accept(hierarchy: str, arrays: tuple[str, ...], **how: Any) -> Outcome:
    """Declare the checksums of the manifest documents of ARRAYs in HIERARCHY as they are now.

    For documents that somebody has edited, and for declarations without checksums, which do
    not notice stale copies. The documents are validated first: if there is a problem, nothing
    is written, and the exit status is 1. All that is written is one change.
    """
    report = conversion.accept(hierarchy, arrays, **how)
    document = {
        "hierarchy": hierarchy,
        **members(report, "documents", "arrays"),
        "problems": list(map(problem_document, report.problems)),
    }
    if report.problems:
        lines = [spelled(each.message) for each in report.problems]
        return Outcome(document, [*lines, counted(len(lines), "problem")], status=PROBLEMS)
    return Outcome(document, [f"{hierarchy}: {report}"])
