"""Many similar files as one."""

from zarr_manifest.conversion.files.combining.combination import (
    Combine,
    OpenedFile,
    combine_files,
    open_groups,
)
from zarr_manifest.conversion.files.combining.splitting import References, split_references

__all__ = [
    "Combine",
    "OpenedFile",
    "References",
    "combine_files",
    "open_groups",
    "split_references",
]
