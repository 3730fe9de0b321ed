"""Hierarchies and files, one after the other along a dimension."""

from zarr_manifest.conversion.concatenation.concatenating import concat, read_concatenated

__all__ = ["concat", "read_concatenated"]
