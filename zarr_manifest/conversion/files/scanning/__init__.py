"""Scans: what is known of one file, as a document that can be kept and used again."""

from zarr_manifest.conversion.files.scanning.documents import FileScan
from zarr_manifest.conversion.files.scanning.kept_scans import KeptScans
from zarr_manifest.conversion.files.scanning.parsing import FileWork, parse_file, zarr_nodes
from zarr_manifest.conversion.files.scanning.scanning import (
    Scan,
    ScanCounts,
    keep_scan,
    kept_name,
    opened_scan,
    scan_of,
    scanned,
)

__all__ = [
    "FileScan",
    "FileWork",
    "KeptScans",
    "Scan",
    "ScanCounts",
    "keep_scan",
    "kept_name",
    "opened_scan",
    "parse_file",
    "scan_of",
    "scanned",
    "zarr_nodes",
]
