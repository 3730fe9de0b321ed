"""Files of many formats as nodes, through VirtualiZarr's parsers."""

from zarr_manifest.conversion.files.formats import FORMATS
from zarr_manifest.conversion.files.reading import read_files
from zarr_manifest.conversion.files.workers import Parallel

__all__ = ["FORMATS", "Parallel", "read_files"]
