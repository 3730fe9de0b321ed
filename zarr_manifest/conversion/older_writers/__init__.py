"""Repair of manifest hierarchies that VirtualiZarr 1.0 to 1.3 wrote."""

from zarr_manifest.conversion.older_writers.metadata import repair_array
from zarr_manifest.conversion.older_writers.upgrading import UpgradeReport, upgrade
