"""Hierarchies and files, one after the other along a dimension."""

from zarr_manifest.conversion.concatenation.appending import (
    AppendReport,
    TrimReport,
    append,
    trim,
)
from zarr_manifest.conversion.concatenation.concatenating import concat, read_concatenated

__all__ = ["AppendReport", "TrimReport", "append", "concat", "read_concatenated", "trim"]
