"""``recover``: write the own metadata that an interrupted writer left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

import zarr_manifest
from zarr_manifest.command_line.options import (
    access_options,
    hierarchy_argument,
    sole_writer_option,
)
from zarr_manifest.command_line.tasks import Outcome, Task
from zarr_manifest.showing import counted


@click.command(
    cls=Task,
    short_help="Write the metadata that an interrupted writer left behind.",
    examples=[
        ("recover data.zarr", "all nodes say what the hierarchy says of them"),
        ("recover data.zarr --json", "which nodes were behind, for scripts"),
    ],
)
@hierarchy_argument
@sole_writer_option
@access_options
def recover(hierarchy: str, **how: Any) -> Outcome:
    """Write the own metadata of nodes of HIERARCHY that an interrupted writer left behind.

    Its change counts already: readers that open HIERARCHY see it. Whatever else changes
    HIERARCHY does this as well.
    """
    nodes = zarr_manifest.recover(hierarchy, **how)
    document = {"hierarchy": hierarchy, "nodes": nodes}
    return Outcome(document, _lines(hierarchy, nodes))


def _lines(hierarchy: str, nodes: list[str]) -> Iterator[str]:
    if not nodes:
        yield f"{hierarchy}: there is nothing to recover"
        return
    yield f"{hierarchy}: the metadata of {counted(len(nodes), 'node')} were behind, and are written"
