"""``import``: hierarchies out of kerchunk references and Zarr v2."""

from __future__ import annotations

from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest._opening import open_hierarchy
from zarr_manifest.command_line.layout import Layout
from zarr_manifest.command_line.options import access_options, pairs, writing_options
from zarr_manifest.command_line.outcomes import hierarchy_outcome
from zarr_manifest.command_line.progress import bars
from zarr_manifest.command_line.tasks import Outcome, Task, TaskGroup, stating_usage

__all__ = ["import_"]


@click.group(name="import", cls=TaskGroup)
def import_() -> None:
    """Make a hierarchy out of references, or out of Zarr v2."""


@import_.command(
    cls=Task,
    examples=[
        ("import kerchunk references.json data.zarr", "references in JSON"),
        ("import kerchunk references.parq large.zarr --codec zstd", "references in Parquet"),
        (
            "import kerchunk theirs.json ours.zarr --rewrite /home/them/=s3://bucket/",
            "references that were made on another machine",
        ),
    ],
)
@click.argument("references")
@click.argument("hierarchy")
@click.option(
    "--rewrite",
    "rewrites",
    multiple=True,
    metavar="OLD=NEW",
    help="Put NEW in place of OLD where URLs begin with it. Repeatable; the longest OLD first.",
)
@writing_options
@access_options
def kerchunk(references: str, hierarchy: str, rewrites: tuple[str, ...], **layout: Any) -> Outcome:
    """Make HIERARCHY out of kerchunk REFERENCES: a JSON file, or a Parquet directory.

    What cannot be expressed is refused, by name and with the reason, and the rest is
    converted; the exit status is then 1.
    """
    how = Layout.of(layout)
    with bars("nodes") as shown:
        nodes = conversion.read_kerchunk(references, rewrite=pairs(rewrites, "--rewrite"))
        report = how.write(hierarchy, nodes, shown)
    return hierarchy_outcome(hierarchy, report, allow_refused=layout["allow_refused"])


@import_.command(
    cls=Task,
    examples=[
        ("import zarr2 old.zarr new.zarr", "a v3 hierarchy over the chunks of old.zarr"),
        (
            "import zarr2 old.zarr published.zarr --url https://data.example.org/old.zarr/",
            "for readers who find old.zarr there",
        ),
    ],
)
@click.argument("store")
@click.argument("hierarchy")
@click.option("--url", help="What STORE is called in references, if not by its path or URL.")
@writing_options
@access_options
def zarr2(store: str, hierarchy: str, url: str | None, **layout: Any) -> Outcome:
    """Make HIERARCHY, in Zarr v3, out of the Zarr v2 hierarchy STORE.

    The chunks of STORE stay where they are, and are not changed.
    """
    how = Layout.of(layout)
    with bars("nodes") as shown:
        with stating_usage(ValueError):
            nodes = conversion.read_zarr2(open_hierarchy(store, how.allow, read_only=True), url=url)
        report = how.write(hierarchy, nodes, shown)
    return hierarchy_outcome(hierarchy, report, allow_refused=layout["allow_refused"])
