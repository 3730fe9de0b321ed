"""Demonstration of zarr_manifest on real netCDF files: ``python -m demo [OUTPUT_DIR]``."""
