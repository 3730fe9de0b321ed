"""``recover``: write the own metadata that an interrupted writer left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

import zarr_manifest
from zarr_manifest.command_line.options import changing_options, hierarchy_argument
from zarr_manifest.command_line.tasks import Outcome, Task
from zarr_manifest.showing import counted


@click.command(
    cls=Task,
    short_help="Write the metadata that an interrupted writer left behind.",
    examples=[
        ("recover data.zarr", "all nodes say what the hierarchy says of them"),
        (
            "recover data.zarr --trust consolidated",
            "where both differ, the consolidated ones count",
        ),
        ("recover data.zarr --json", "which nodes were behind, for scripts"),
    ],
)
@hierarchy_argument
@click.option(
    "--trust",
    type=click.Choice(["consolidated", "own"]),
    help="Which metadata count where consolidated ones and a node's own contradict each other, and "
    "replace the others.  [default: none: that is an error]",
)
@changing_options
def recover(hierarchy: str, trust: Any, **how: Any) -> Outcome:
    """Write the own metadata of nodes of HIERARCHY that an interrupted writer left behind.

    Its change counts already: readers that open HIERARCHY see it. Whatever else changes
    HIERARCHY does this as well.

    Where own metadata contradict the consolidated ones, because a copy was interrupted or other
    software has changed one of them, nothing changes HIERARCHY any more until --trust says which
    count.
    """
    nodes = zarr_manifest.recover(hierarchy, trust=trust, **how)
    document = {"hierarchy": hierarchy, "nodes": nodes}
    return Outcome(document, _lines(hierarchy, nodes, trust))


def _lines(hierarchy: str, nodes: list[str], trust: str | None) -> Iterator[str]:
    if not nodes:
        yield f"{hierarchy}: there is nothing to recover"
        return
    was = "were behind" if trust is None else "were behind or contradictory"
    yield f"{hierarchy}: the metadata of {counted(len(nodes), 'node')} {was}, and are written"
