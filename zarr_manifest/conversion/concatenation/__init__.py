"""Hierarchies and files, one after the other along a dimension."""

from zarr_manifest.conversion.concatenation.appending import AppendReport, append
from zarr_manifest.conversion.concatenation.concatenating import concat, read_concatenated
from zarr_manifest.conversion.concatenation.cutting import TrimReport, trim
