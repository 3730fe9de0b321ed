"""The error that says that something cannot be expressed in Zarr v3, and why."""

from zarr_manifest.errors import NotConvertibleError

__all__ = ["NotConvertibleError"]
