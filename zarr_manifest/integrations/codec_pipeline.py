"""Here installations made before have an entry point, which zarr loads."""

__all__ = ["BulkCodecPipeline"]


class BulkCodecPipeline:
    """Nothing: constructing a ManifestStore is enough."""
