"""Code that opens paths itself, xarray, and dask's workers."""

from zarr_manifest.integrations.activation import enable
