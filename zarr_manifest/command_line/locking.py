"""``lock``: add the lock to arrays that were written without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import changing_options, hierarchy_argument
from zarr_manifest.command_line.tasks import Outcome, Task
from zarr_manifest.showing import counted


@click.command(
    cls=Task,
    short_help="Lock out readers that do not know manifests.",
    examples=[
        ("lock data.zarr", "every manifest array without a lock"),
        ("lock data.zarr sst time", "only these arrays"),
    ],
)
@hierarchy_argument
@click.argument("arrays", nargs=-1, metavar="[ARRAY]...")
@changing_options
def lock(hierarchy: str, arrays: tuple[str, ...], **how: Any) -> Outcome:
    """Add the lock to manifest arrays of HIERARCHY that lack it, by default all.

    Zarr without this package then refuses them, instead of reading fill values. Readers
    with this package are not disturbed. The arrays are locked in one change, or none is.
    """
    locked = conversion.lock(hierarchy, arrays or None, **how)
    return Outcome({"hierarchy": hierarchy, "locked": locked}, _lines(hierarchy, locked))


def _lines(hierarchy: str, locked: list[str]) -> Iterator[str]:
    for path in locked:
        yield f"/{path}: locked"
    yield f"{hierarchy}: {counted(len(locked), 'array')} locked"
