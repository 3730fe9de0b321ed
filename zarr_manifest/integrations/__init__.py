"""Plain ``zarr.open``, xarray, and zarr's codec pipelines."""

from zarr_manifest.integrations.activation import enable
from zarr_manifest.integrations.codec_pipeline import BulkCodecPipeline

__all__ = ["BulkCodecPipeline", "enable"]
