"""``validate``: list everything that is wrong with a hierarchy."""

from __future__ import annotations

from typing import Any

import click

import zarr_manifest
from zarr_manifest.command_line.options import reading, reading_options, require_no_file
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task, stating_usage
from zarr_manifest.command_line.wording import spelled
from zarr_manifest.inspection import Problem
from zarr_manifest.showing import counted

__all__ = ["validate"]


@click.command(
    cls=Task,
    short_help="Print everything that is wrong with a hierarchy.",
    examples=[
        ("validate data.zarr", "every problem, one per line"),
        ("validate data.zarr --array sst --array ice", "only these arrays"),
        ("validate data.zarr --json", "for programs"),
    ],
)
@click.argument("hierarchy")
@click.option(
    "--array",
    "arrays",
    multiple=True,
    metavar="PATH",
    help="Check only this array. Repeatable. Needed on web servers, which cannot list.",
)
@reading_options
def validate(hierarchy: str, arrays: tuple[str, ...], **options: Any) -> Outcome:
    """Check the declarations and manifests of HIERARCHY, without reading sources.

    Prints every problem, not only the first. The exit status is 1 if there is one.
    """
    require_no_file(hierarchy)
    with stating_usage(ValueError):
        problems = zarr_manifest.validate(hierarchy, arrays=arrays or None, **reading(options))
    document = {"hierarchy": hierarchy, "problems": [_document(found) for found in problems]}
    lines = [spelled(found.message) for found in problems]
    lines.append(counted(len(problems), "problem") if problems else f"{hierarchy} is valid")
    return Outcome(document, lines, status=PROBLEMS if problems else 0)


def _document(problem: Problem) -> dict[str, str | None]:
    return {
        "code": problem.code,
        "phase": problem.phase,
        "array": problem.array,
        "chunk": problem.chunk,
        "message": spelled(problem.message),
    }
