"""Files of many formats as nodes, through VirtualiZarr's parsers."""

from zarr_manifest.conversion.files.finding import files_named
from zarr_manifest.conversion.files.formats import FORMATS, ZARR_FORMATS, detect_format
from zarr_manifest.conversion.files.reading import read_files
from zarr_manifest.conversion.files.sources import FileSources
from zarr_manifest.conversion.files.workers import Parallel
from zarr_manifest.conversion.files.zarr3 import read_hierarchy

__all__ = [
    "FORMATS",
    "ZARR_FORMATS",
    "FileSources",
    "Parallel",
    "detect_format",
    "files_named",
    "read_files",
    "read_hierarchy",
]
