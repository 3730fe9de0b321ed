"""Snapshots of hierarchies, and the difference between two hierarchies."""

from zarr_manifest.conversion.snapshots.comparing import ChunkDifference
from zarr_manifest.conversion.snapshots.differences import Difference, NodeDifference, diff
from zarr_manifest.conversion.snapshots.taking import snapshot
