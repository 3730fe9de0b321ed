"""The top-level command, and how the process starts and ends."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, cast

import click

import zarr_manifest
from zarr_manifest.command_line.accepting import accept
from zarr_manifest.command_line.cleaning import clean
from zarr_manifest.command_line.concatenating import concat
from zarr_manifest.command_line.creating import create
from zarr_manifest.command_line.describing import info, locations
from zarr_manifest.command_line.exporting import export
from zarr_manifest.command_line.growing import append, trim
from zarr_manifest.command_line.importing import import_
from zarr_manifest.command_line.locking import lock
from zarr_manifest.command_line.recovering import recover
from zarr_manifest.command_line.refreshing import refresh
from zarr_manifest.command_line.relocating import relocate
from zarr_manifest.command_line.scanning import scan
from zarr_manifest.command_line.tasks import TaskGroup
from zarr_manifest.command_line.upgrading import upgrade
from zarr_manifest.command_line.validating import validate
from zarr_manifest.command_line.verifying import verify
from zarr_manifest.command_line.versions import diff, id_, snapshot
from zarr_manifest.command_line.wording import visible

if TYPE_CHECKING:
    import io


@click.group(
    cls=TaskGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=[
        ("create 2023.nc 2024.nc data.zarr", "a hierarchy over files; nothing is copied"),
        ("info data.zarr", "what it holds"),
        ("locations data.zarr", "what its readers must allow"),
    ],
)
@click.version_option(zarr_manifest.__version__, prog_name="zarr-manifest")
def application() -> None:
    """Turn the files that you already have into one Zarr hierarchy.

    Chunks stay where they are, in netCDF, HDF5, TIFF, GRIB, FITS or older Zarr files;
    the hierarchy records where, in chunk manifests. Read it with zarr or xarray
    through zarr_manifest.ManifestStore. The help of each command has examples.
    """


for command in (
    create,
    concat,
    scan,
    append,
    trim,
    import_,
    export,
    upgrade,
    lock,
    recover,
    refresh,
    relocate,
    accept,
    clean,
    info,
    locations,
    validate,
    verify,
    snapshot,
    id_,
    diff,
):
    application.add_command(command)


def run() -> None:
    """Run the command line with the arguments of the process, then exit."""
    warnings.formatwarning = _one_line
    if hasattr(sys.stdout, "reconfigure"):
        # Some terminals cannot encode every name, or the lines of a tree.
        cast("io.TextIOWrapper[Any]", sys.stdout).reconfigure(errors="backslashreplace")
    application.main(prog_name="zarr-manifest")


def _one_line(message: Warning | str, *_: Any, **__: Any) -> str:
    return f"warning: {visible(str(message))}\n"
