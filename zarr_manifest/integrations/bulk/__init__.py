"""Whole selections of manifest arrays: located, fetched and decoded in bulk."""

from zarr_manifest.integrations.bulk.pipeline import BulkCodecPipeline
from zarr_manifest.integrations.bulk.switching import read_in_bulk, reading_in_bulk

__all__ = ["BulkCodecPipeline", "read_in_bulk", "reading_in_bulk"]
