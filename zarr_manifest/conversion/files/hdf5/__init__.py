"""HDF5 and netCDF-4 files."""

from zarr_manifest.conversion.files.hdf5.trees import read_hdf5
