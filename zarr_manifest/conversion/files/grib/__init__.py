"""GRIB2 files."""

from zarr_manifest.conversion.files.grib.trees import read_grib
