"""Many similar files as one."""

from zarr_manifest.conversion.files.combining.aligned_groups import digests_of
from zarr_manifest.conversion.files.combining.combination import combine_files
from zarr_manifest.conversion.files.combining.opened_files import (
    CombineRules,
    FileDataset,
    OpenedFile,
    is_coordinate,
    load_variables,
    open_file,
    stored_variable,
)
from zarr_manifest.conversion.files.combining.splitting import split_references

__all__ = [
    "CombineRules",
    "FileDataset",
    "OpenedFile",
    "combine_files",
    "digests_of",
    "is_coordinate",
    "load_variables",
    "open_file",
    "split_references",
    "stored_variable",
]
