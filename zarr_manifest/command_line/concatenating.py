"""``concat``: hierarchies, one after the other along a dimension."""

from __future__ import annotations

from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import writing_options
from zarr_manifest.command_line.outcomes import bars, write
from zarr_manifest.command_line.tasks import Outcome, Task, stating_usage


@click.command(
    cls=Task,
    short_help="Make one hierarchy from several, along a dimension.",
    examples=[
        ("concat 2023.zarr 2024.zarr both.zarr --dim time", "native arrays are referred to"),
        ("concat 2023.zarr 2024.nc all.zarr --dim time", "with a file"),
        (
            "concat s3://bucket/2023.zarr 2024.zarr all.zarr --dim time --environment s3://bucket/",
            "with one in a bucket, and what it refers to there",
        ),
    ],
)
@click.argument("sources", nargs=-1, required=True)
@click.argument("hierarchy")
@click.option("--dim", required=True, metavar="NAME", help="Dimension to concatenate along.")
@writing_options
def concat(
    sources: tuple[str, ...], hierarchy: str, dim: str, allow_refused: bool, **how: Any
) -> Outcome:
    """Make HIERARCHY from SOURCES, in the order given, without copying their data.

    SOURCES are hierarchies of any kind, data files, or patterns for these. Arrays along
    the dimension get the references of all; other arrays must have the same values in all.
    What does not fit is refused, by name and with the difference, and the rest is written;
    the exit status is then 1. If coordinates do not fit, nothing is written.
    """
    with bars("files") as shown:
        with stating_usage(ValueError):
            nodes = conversion.read_concatenated(sources, dim=dim, allow=how["allow"])
        return write(hierarchy, nodes, shown, how, allow_refused=allow_refused)
