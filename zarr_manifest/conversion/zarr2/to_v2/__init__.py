"""Zarr v3 metadata as Zarr v2."""

from zarr_manifest.conversion.zarr2.to_v2.metadata import (
    Zarr2Metadata,
    convert_array_to_zarr2,
    convert_group_to_zarr2,
)

__all__ = ["Zarr2Metadata", "convert_array_to_zarr2", "convert_group_to_zarr2"]
