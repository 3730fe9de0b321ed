"""Files of many formats as nodes, through VirtualiZarr's parsers."""

from zarr_manifest.conversion.files.finding import Unusable, files_named, unusable_files
from zarr_manifest.conversion.files.formats import FORMATS, ZARR_FORMATS, detect_format
from zarr_manifest.conversion.files.reading import read_files, read_one_by_one, require_variables
from zarr_manifest.conversion.files.scanning import Scan, ScanReport, scan, scan_files
from zarr_manifest.conversion.files.sources import FileSources, file_url
from zarr_manifest.conversion.files.stored_parts import documents_along, is_as_written
from zarr_manifest.conversion.files.workers import Parallel
from zarr_manifest.conversion.files.zarr3 import hierarchy_nodes, read_hierarchy

__all__ = [
    "FORMATS",
    "ZARR_FORMATS",
    "FileSources",
    "Parallel",
    "Scan",
    "ScanReport",
    "Unusable",
    "detect_format",
    "documents_along",
    "file_url",
    "files_named",
    "hierarchy_nodes",
    "is_as_written",
    "read_files",
    "read_hierarchy",
    "read_one_by_one",
    "require_variables",
    "scan",
    "scan_files",
    "unusable_files",
]
