"""Many similar files as one."""

from zarr_manifest.conversion.files.combining.combination import (
    Combine,
    OpenedFile,
    combine_files,
    open_groups,
)

__all__ = ["Combine", "OpenedFile", "combine_files", "open_groups"]
