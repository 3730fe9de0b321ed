"""Whole selections of manifest arrays: looked up, planned, fetched and decoded together."""

from zarr_manifest.pipeline.bulk_pipeline import BulkCodecPipeline
