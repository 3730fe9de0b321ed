"""Files of many formats as nodes, through VirtualiZarr's parsers."""

from zarr_manifest.conversion.files.formats import FORMATS
from zarr_manifest.conversion.files.reading import Parallel, read_files

__all__ = ["FORMATS", "Parallel", "read_files"]
