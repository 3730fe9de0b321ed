"""Plain ``zarr.open``, and xarray."""

from zarr_manifest.integrations.activation import enable

__all__ = ["enable"]
