"""``import``: hierarchies from kerchunk references, Zarr v2, models, and DANDI's manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import (
    file_type,
    json_value,
    pairs,
    require_no_file,
    writing_options,
)
from zarr_manifest.command_line.outcomes import bars, write
from zarr_manifest.command_line.tasks import Outcome, Task, TaskGroup, stating_usage

_KERCHUNK_EXAMPLE = ("import kerchunk references.json data.zarr", "references in JSON")
_ZARR2_EXAMPLE = ("import zarr2 old.zarr new.zarr", "a v3 hierarchy over the chunks of old.zarr")


@click.group(name="import", cls=TaskGroup, examples=[_KERCHUNK_EXAMPLE, _ZARR2_EXAMPLE])
def import_() -> None:
    """Make a hierarchy from kerchunk references, Zarr v2, a model, or a manifest of DANDI."""


@import_.command(
    cls=Task,
    short_help="Make a hierarchy from kerchunk references, in JSON or Parquet.",
    examples=[
        _KERCHUNK_EXAMPLE,
        ("import kerchunk references.parq large.zarr --codec zstd", "references in Parquet"),
        (
            "import kerchunk theirs.json ours.zarr --rewrite /home/them/=s3://bucket/",
            "references made on another machine",
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
    help="Replace OLD by NEW at the start of URLs. Repeatable; the longest OLD wins. "
    "An empty OLD is the start of every relative path.",
)
@writing_options
def kerchunk(
    references: str, hierarchy: str, rewrites: tuple[str, ...], allow_refused: bool, **how: Any
) -> Outcome:
    """Make HIERARCHY from kerchunk REFERENCES: a JSON file, or a Parquet directory.

    What cannot be expressed is refused, by name and with the reason, and the rest is
    converted; the exit status is then 1.
    """
    with bars("nodes") as shown:
        rewrite = pairs(rewrites, "--rewrite", empty_keys=True)
        nodes = conversion.read_kerchunk(references, rewrite=rewrite, allow=how["allow"])
        return write(hierarchy, nodes, shown, how, allow_refused=allow_refused)


@import_.command(
    cls=Task,
    short_help="Make a Zarr v3 hierarchy over the chunks of a v2 one.",
    examples=[
        _ZARR2_EXAMPLE,
        (
            "import zarr2 old.zarr published.zarr --url https://data.example.org/old.zarr/",
            "for readers who find old.zarr at that URL",
        ),
    ],
)
@click.argument("store")
@click.argument("hierarchy")
@click.option("--url", help="URL of STORE in references, if not its path or URL here.")
@writing_options
def zarr2(store: str, hierarchy: str, url: str | None, allow_refused: bool, **how: Any) -> Outcome:
    """Make HIERARCHY, in Zarr v3, from the Zarr v2 hierarchy STORE.

    The chunks of STORE stay where they are, unchanged.
    """
    require_no_file(store)
    with bars("nodes") as shown:
        with stating_usage(ValueError):
            nodes = conversion.read_zarr2(store, url=url, allow=how["allow"])
        return write(hierarchy, nodes, shown, how, allow_refused=allow_refused)


@import_.command(
    cls=Task,
    short_help="Make a hierarchy from a Zarr object model.",
    examples=[
        ("import model model.json data.zarr", "what export model wrote, or pydantic-zarr"),
        ("import model model.json data.zarr --inline-below 0", "each manifest in a document"),
    ],
)
@click.argument("file", type=file_type)
@click.argument("hierarchy")
@writing_options
def model(file: Path, hierarchy: str, allow_refused: bool, **how: Any) -> Outcome:
    """Make HIERARCHY from the Zarr object model in FILE: one JSON value, with inline manifests.

    An array without a manifest has no chunks.
    """
    with bars("nodes") as shown:
        nodes = conversion.read_model(json_value(file), allow=how["allow"])
        return write(hierarchy, nodes, shown, how, allow_refused=allow_refused)


@import_.command(
    cls=Task,
    short_help="Make a hierarchy from a Zarr manifest of the DANDI Archive.",
    examples=[
        (
            "import dandi state.json data.zarr --url s3://bucket/old.zarr/ "
            "--environment s3://bucket/",
            "with credentials from the environment",
        ),
        (
            "import dandi state.json data.zarr --url s3://bucket/old.zarr/ "
            "--environment s3://bucket/ --inline-below 0",
            "each manifest in a document",
        ),
    ],
)
@click.argument("manifest")
@click.argument("hierarchy")
@click.option("--url", required=True, help="Where the objects are.")
@writing_options
def dandi(manifest: str, hierarchy: str, url: str, allow_refused: bool, **how: Any) -> Outcome:
    """Make HIERARCHY from MANIFEST, which lists the objects of one state of a Zarr hierarchy.

    Chunks refer to the versions of objects that the manifest names.
    """
    with bars("nodes") as shown:
        nodes = conversion.read_dandi(manifest, url=url, allow=how["allow"])
        return write(hierarchy, nodes, shown, how, allow_refused=allow_refused)
