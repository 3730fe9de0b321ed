"""Files of many formats as nodes, through VirtualiZarr's parsers."""

from zarr_manifest.conversion.files.formats import FORMATS
from zarr_manifest.conversion.files.reading import read_files
from zarr_manifest.conversion.files.workers import Parallel
from zarr_manifest.conversion.files.zarr3 import read_hierarchy

__all__ = ["FORMATS", "Parallel", "read_files", "read_hierarchy"]
