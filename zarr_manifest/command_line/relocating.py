"""``relocate``: refer to sources at their new place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import (
    arrays_option,
    changing_options,
    hierarchy_argument,
    limit_option,
    pairs,
)
from zarr_manifest.command_line.refreshing import read_option, renewal_outcome
from zarr_manifest.command_line.tasks import Outcome, Task, stating_usage
from zarr_manifest.locations import is_url


@click.command(
    cls=Task,
    short_help="Refer to sources at their new place.",
    examples=[
        ("relocate data.zarr 2023.nc=archive/2023.nc", "a file that was moved, by its size"),
        (
            "relocate data.zarr 2023.nc=s3://bucket/2023.nc --environment s3://bucket/ --read",
            "a file that is in a bucket now; all of its chunks are read",
        ),
    ],
)
@hierarchy_argument
@click.argument("moves", nargs=-1, required=True, metavar="OLD=NEW...")
@arrays_option("Only this array. Repeatable.")
@read_option
@changing_options
@limit_option
def relocate(
    hierarchy: str,
    moves: tuple[str, ...],
    arrays: tuple[str, ...],
    **how: Any,
) -> Outcome:
    """Let a HIERARCHY refer to sources below NEW that were below OLD.

    Both are URL prefixes, or paths of directories or files. What is at the new place must
    have the recorded strong ETag or, where no tag differs, the recorded size. If a single
    object has not, nothing is written, and the exit status is 1. The new paths of all arrays
    are one change.
    """
    places = {_place(old): _place(new) for old, new in pairs(moves, "relocate").items()}
    with stating_usage(ValueError):
        report = conversion.relocate(hierarchy, places, arrays or None, **how)
    return renewal_outcome(hierarchy, report)


def _place(text: str) -> str:
    """Return a URL as it is, and a path as the absolute one."""
    return text if is_url(text) or not text else Path(text).absolute().as_uri()
