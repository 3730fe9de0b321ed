"""``export``: hierarchies to kerchunk reference sets, and to models."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import msgspec

from zarr_manifest import conversion
from zarr_manifest.command_line.options import (
    allow_refused_option,
    reading,
    reading_options,
    require_no_file,
)
from zarr_manifest.command_line.outcomes import conversion_outcome
from zarr_manifest.command_line.progress import bars
from zarr_manifest.command_line.tasks import Outcome, Task, TaskGroup
from zarr_manifest.errors import SourceNotFoundError, WriteConflictError
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
@click.argument("hierarchy")
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
    overwrite: bool,
    allow_refused: bool,
    **options: Any,
) -> Outcome:
    """Write the references of HIERARCHY to TARGET, as kerchunk does.

    fsspec's ReferenceFileSystem reads the result, and so does xarray through it. Native
    arrays are exported, too. Nodes that kerchunk cannot express are refused, each by name
    and with the reason; the exit status is then 1.
    """
    how = reading(options)
    require_no_file(hierarchy)
    if not parquet and target.suffix in (".parq", ".parquet"):
        raise click.UsageError(f"{target} would be JSON: add --parquet, or choose another name")
    _require_replaceable(target, parquet=parquet, overwrite=overwrite)
    # Beside the target, so that it can be renamed into place.
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as directory:
        made = Path(directory) / "references"
        with bars("references") as shown:
            if parquet:
                report = conversion.export_kerchunk_parquet(
                    hierarchy, made, record_size=record_size, progress=shown.wrote, **how
                )
            else:
                report = conversion.export_kerchunk_json(
                    hierarchy, made, progress=shown.wrote, **how
                )
        if target.is_dir():
            # A rename replaces only files; this one is removed with the temporary directory.
            target.rename(Path(directory) / "earlier")
        made.rename(target)
    return conversion_outcome({"target": str(target)}, report, (), allow_refused)


@export.command(
    cls=Task,
    short_help="Export to a Zarr object model: one JSON value.",
    examples=[
        ("export model data.zarr model.json", "to mail, to commit, or to test against"),
        ("export model data.zarr model.json --overwrite", "again"),
    ],
)
@click.argument("hierarchy")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@reading_options
def model(hierarchy: str, target: Path, overwrite: bool, **options: Any) -> Outcome:
    """Write HIERARCHY to the file TARGET as a Zarr object model, with inline manifests.

    zarr_manifest.ModelStore opens it, and so do libraries of models, such as pydantic-zarr.
    Native chunks are referred to by their URLs.
    """
    how = reading(options)
    require_no_file(hierarchy)
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


def _require_replaceable(target: Path, *, parquet: bool, overwrite: bool) -> None:
    """Refuse an existing target, unless it is a reference set that may be replaced."""
    if not target.parent.is_dir():
        raise SourceNotFoundError(
            "there is no directory on this machine for the references",
            location=target.parent.absolute().as_uri(),
            remedy="Name a target in an existing directory.",
        )
    if not target.exists():
        return
    if not overwrite:
        raise WriteConflictError(
            "the target exists",
            location=target.absolute().as_uri(),
            remedy="Pass --overwrite to replace it, or name another one.",
        )
    if parquet != target.is_dir() or not (
        (target / ".zmetadata").exists() if parquet else _is_json_set(target)
    ):
        raise WriteConflictError(
            "the target exists, and is not a reference set of this kind",
            location=target.absolute().as_uri(),
            remedy="Remove it, or name another one.",
        )


def _is_json_set(file: Path) -> bool:
    try:
        members = msgspec.json.decode(file.read_bytes(), type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return False
    # Version 0 consists of nothing but the references themselves.
    return "refs" in members or any(key.endswith((".zarray", ".zgroup")) for key in members)
