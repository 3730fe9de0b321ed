"""``recover``: finish or undo what an interrupted writer began."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import (
    access_options,
    allowed,
    require_no_file,
    sole_writer_option,
)
from zarr_manifest.command_line.tasks import Outcome, Task
from zarr_manifest.showing import counted


@click.command(
    cls=Task,
    short_help="Finish or undo what an interrupted writer began.",
    examples=[
        ("recover data.zarr --undo", "the hierarchy as it was before"),
        ("recover data.zarr --finish", "the hierarchy that was being written"),
    ],
)
@click.argument("hierarchy")
@click.option("--finish", "how", flag_value="finish", help="Finish what was being written.")
@click.option("--undo", "how", flag_value="undo", help="Restore what was there before.")
@sole_writer_option
@access_options
def recover(
    hierarchy: str,
    how: Literal["finish", "undo"] | None,
    sole_writer: bool,
    **access: Any,
) -> Outcome:
    """Finish or undo what a writer of HIERARCHY began before it was interrupted.

    Until then, HIERARCHY cannot be opened. Make sure that the writer does not run any
    more; in a directory on this machine, that is checked.
    """
    if how is None:
        raise click.UsageError("say whether to --finish or to --undo")
    require_no_file(hierarchy)
    allow = allowed(access)
    nodes = conversion.recover(hierarchy, how, sole_writer=sole_writer, allow=allow)
    document = {
        "hierarchy": hierarchy,
        "how": how,
        "recovered": nodes is not None,
        "nodes": nodes or [],
    }
    return Outcome(document, _lines(hierarchy, how, nodes))


def _lines(
    hierarchy: str, how: Literal["finish", "undo"], nodes: list[str] | None
) -> Iterator[str]:
    if nodes is None:
        yield f"{hierarchy}: there is nothing to recover"
        return
    verb = "finished" if how == "finish" else "undone"
    yield f"{hierarchy}: the change of {counted(len(nodes), 'node')} is {verb}"
