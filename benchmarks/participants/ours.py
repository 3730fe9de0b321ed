"""Ourselves: one manifest document, or partitions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zarr
from zarr.abc.store import Store

from benchmarks.references import Places, References

if TYPE_CHECKING:
    from zarr_manifest import Manifest

NAME = "ours.zarr"
PARTITIONED = "partitioned.zarr"


def write(references: References, directory: Path) -> None:
    """Write one document."""
    from zarr_manifest import write_manifest

    references.create_array(directory / NAME)
    write_manifest(directory / NAME, "data", manifest_of(references))


def write_partitioned(
    references: References, directory: Path, size: int, names: str | None = None
) -> None:
    """Write documents of `size` chunks along the first dimension."""
    from zarr_manifest import write_manifest

    references.create_array(directory / PARTITIONED)
    write_manifest(
        directory / PARTITIONED,
        "data",
        manifest_of(references),
        partition_shape=(size, *references.grid[1:]),
        manifest_url=names,
    )


def manifest_of(references: References, start: int = 0) -> Manifest:
    """Return a manifest of the columns; the first row is the chunk of number `start`."""
    from zarr_manifest import Manifest
    from zarr_manifest.manifest import NumberedPaths

    complete = len(references) == math.prod(references.grid)
    return Manifest.from_columns(
        references.grid,
        paths=NumberedPaths(references.objects, references.urls),
        offsets=references.offsets,
        lengths=references.lengths,
        indices=None if complete else references.indices(start),
    )


def store(directory: Path) -> Store:
    from zarr_manifest import ManifestStore

    return ManifestStore(directory / NAME, allow=[Places.load(directory).sources])


def open_partitioned(directory: Path) -> Any:
    from zarr_manifest import ManifestStore

    allowed = [Places.load(directory).sources]
    found = ManifestStore(directory / PARTITIONED, allow=allowed)
    return zarr.open_group(found, mode="r")["data"]
