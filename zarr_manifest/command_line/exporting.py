"""``export``: hierarchies to kerchunk reference sets, and to models."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from zarr_manifest import conversion
from zarr_manifest.command_line.options import (
    allow_refused_option,
    hierarchy_argument,
    reading_options,
)
from zarr_manifest.command_line.outcomes import bars, conversion_outcome
from zarr_manifest.command_line.tasks import Outcome, Task, TaskGroup
from zarr_manifest.errors import WriteConflictError
from zarr_manifest.showing import size

_JSON_EXAMPLE = ("export kerchunk data.zarr references.json", "for fsspec, in JSON")


@click.group(cls=TaskGroup, examples=[_JSON_EXAMPLE])
def export() -> None:
    """Export a hierarchy to kerchunk references, or to one JSON value."""


@export.command(
    cls=Task,
    short_help="Export to references for fsspec, in JSON or Parquet.",
    examples=[
        _JSON_EXAMPLE,
        ("export kerchunk data.zarr references.parq --parquet", "for large sets, in Parquet"),
    ],
)
@hierarchy_argument
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--parquet", is_flag=True, help="Write a Parquet directory instead of JSON.")
@click.option(
    "--record-size",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="References per Parquet file.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing reference set.")
@allow_refused_option
@reading_options
def kerchunk(
    hierarchy: str,
    target: Path,
    parquet: bool,
    record_size: int,
    allow_refused: bool,
    **how: Any,
) -> Outcome:
    """Write the references of HIERARCHY to TARGET, as kerchunk does.

    fsspec's ReferenceFileSystem reads the result, and so does xarray through it. Native
    arrays are exported, too. Nodes that kerchunk cannot express are refused, each by name
    and with the reason; the exit status is then 1.
    """
    if not parquet and target.suffix in (".parq", ".parquet"):
        raise click.UsageError(f"{target} would be JSON: add --parquet, or choose another name")
    with bars("references") as shown:
        if parquet:
            report = conversion.export_kerchunk_parquet(
                hierarchy, target, record_size=record_size, progress=shown.wrote, **how
            )
        else:
            report = conversion.export_kerchunk_json(hierarchy, target, progress=shown.wrote, **how)
    return conversion_outcome({"target": str(target)}, report, (), allow_refused)


@export.command(
    cls=Task,
    short_help="Export to a Zarr object model: one JSON value.",
    examples=[
        ("export model data.zarr model.json", "to mail, to commit, or to test against"),
        ("export model data.zarr model.json --overwrite", "again"),
    ],
)
@hierarchy_argument
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@reading_options
def model(hierarchy: str, target: Path, overwrite: bool, **how: Any) -> Outcome:
    """Write HIERARCHY to the file TARGET as a Zarr object model, with inline manifests.

    zarr_manifest.ModelStore opens it, and so do libraries of models, such as pydantic-zarr.
    Native chunks are referred to by their URLs.
    """
    if target.exists() and not overwrite:
        raise WriteConflictError(
            "the target exists",
            location=target.absolute().as_uri(),
            remedy="Pass --overwrite to replace it, or name another one.",
        )
    text = json.dumps(conversion.to_model(hierarchy, **how), indent=2)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as directory:
        made = Path(directory) / "model.json"
        made.write_text(f"{text}\n")
        made.replace(target)
    line = f"{target}: {size(len(text))}"
    return Outcome({"hierarchy": hierarchy, "target": str(target)}, [line])
