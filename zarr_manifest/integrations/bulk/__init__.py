"""Whole selections of manifest arrays: located, fetched and decoded in bulk."""

from zarr_manifest.integrations.bulk.selection import read_selection

__all__ = ["read_selection"]
