"""``validate``: list everything that is wrong with a hierarchy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import zarr_manifest
from zarr_manifest.command_line.options import (
    arrays_option,
    file_type,
    hierarchy_argument,
    json_value,
    reading_options,
)
from zarr_manifest.command_line.outcomes import members
from zarr_manifest.command_line.tasks import PROBLEMS, Outcome, Task, stating_usage
from zarr_manifest.command_line.wording import spelled
from zarr_manifest.inspection import Problem
from zarr_manifest.showing import counted, note_lines


@click.command(
    cls=Task,
    short_help="Print everything that is wrong with a hierarchy.",
    examples=[
        ("validate data.zarr", "every problem, one per line"),
        ("validate data.zarr --array sst --array ice", "only these arrays"),
        ("validate data.zarr --strict", "what is valid, but worth a look, is a problem, too"),
        ("validate data.zarr --model model.json", "the nodes, attributes and shapes of a model"),
        ("validate data.zarr --json", "for programs"),
    ],
)
@hierarchy_argument
@arrays_option("Check only this array. Repeatable. Needed on web servers, which cannot list.")
@click.option(
    "--model",
    metavar="FILE",
    type=file_type,
    help="Compare the nodes with this Zarr object model, in JSON.",
)
@click.option("--strict", is_flag=True, help="Take notes for problems.")
@reading_options
def validate(
    hierarchy: str, arrays: tuple[str, ...], model: Path | None, strict: bool, **how: Any
) -> Outcome:
    """Check the declarations and manifests of HIERARCHY, without reading sources.

    Prints every problem, not only the first, and notes about what is valid, but worth a
    look. The exit status is 1 if there is a problem. With a model, each node that is missing,
    differs or is not in the model is one; where its chunks are does not count.
    """
    with stating_usage(ValueError):
        found = zarr_manifest.validate(
            hierarchy,
            arrays=arrays or None,
            strict=True,
            model=None if model is None else json_value(model),
            **how,
        )
    notes = [each for each in found if each.is_note]
    problems = [each for each in found if not each.is_note]
    document = {
        "hierarchy": hierarchy,
        "problems": list(map(problem_document, problems)),
        "notes": list(map(problem_document, notes)),
    }
    remarks = list(note_lines((note.array, spelled(note.message)) for note in notes))
    lines = [spelled(each.message) for each in problems]
    if strict:
        lines += remarks
    count = len(found) if strict else len(problems)
    lines.append(counted(count, "problem") if count else f"{hierarchy} is valid")
    notes_shown = [] if strict else [f"note: {line}" for line in remarks]
    return Outcome(document, lines, notes_shown, status=PROBLEMS if count else 0)


def problem_document(problem: Problem) -> dict[str, str | None]:
    """Return a problem as JSON values."""
    found = members(problem, "code", "phase", "array", "chunk")
    return {**found, "message": spelled(problem.message)}
