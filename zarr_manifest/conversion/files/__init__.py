"""Files of many formats as nodes, through VirtualiZarr's parsers."""

from zarr_manifest.conversion.files.finding import Unusable, files_named, unusable_files
from zarr_manifest.conversion.files.formats import FORMATS, ZARR_FORMATS, detect_format
from zarr_manifest.conversion.files.reading import read_files, read_one_by_one, require_variables
from zarr_manifest.conversion.files.scanning import Scan, ScanReport, scan, scan_files
from zarr_manifest.conversion.files.sources import FileSources, file_url
from zarr_manifest.conversion.files.stored_parts import documents_along, is_as_written
from zarr_manifest.conversion.files.workers import Parallel
from zarr_manifest.conversion.files.zarr3 import hierarchy_nodes, read_hierarchy
