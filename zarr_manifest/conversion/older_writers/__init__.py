"""What VirtualiZarr 1.0 to 1.3 wrote in this very format, made valid."""

from zarr_manifest.conversion.older_writers.upgrading import UpgradeReport, upgrade

__all__ = ["UpgradeReport", "upgrade"]
