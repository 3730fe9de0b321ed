"""Plain ``zarr.open``, xarray, and zarr's codec pipelines.

zarr imports this whenever it looks for a pipeline, in programs too that read no manifest.
"""

from typing import TYPE_CHECKING, Any

from zarr_manifest.integrations.codec_pipeline import BulkCodecPipeline

if TYPE_CHECKING:
    from zarr_manifest.integrations.activation import enable

__all__ = ["BulkCodecPipeline", "enable"]

# Type checkers would believe that every name is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return `enable`, which needs most of this package, when it is first used."""
        if name != "enable":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from zarr_manifest.integrations.activation import enable

        globals()[name] = enable
        return enable
