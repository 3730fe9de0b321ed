"""Whole selections of manifest arrays: looked up, planned, fetched and decoded together.

A chunk has a place in the memory of the output if its bytes go there as they are. Chunks are read
ahead if they are requested before they are wanted.
"""

from zarr_manifest.pipeline.bulk_pipeline import BulkCodecPipeline
