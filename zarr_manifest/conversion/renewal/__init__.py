"""Renewal of a hierarchy whose sources have other times, or another place, and the same bytes."""

from zarr_manifest.conversion.renewal.relocating import relocate
from zarr_manifest.conversion.renewal.renewing import RefusedSource, RenewalReport, refresh

__all__ = ["RefusedSource", "RenewalReport", "refresh", "relocate"]
