"""netCDF classic files."""

from zarr_manifest.conversion.files.netcdf3.trees import read_netcdf3

__all__ = ["read_netcdf3"]
