"""The target of a conversion: a hierarchy of manifest arrays."""

from zarr_manifest.conversion.target.arrays import (
    array_in_memory,
    decoded_values,
    encoded_chunks,
    open_with_zarr,
    require_valid_array,
    unwritten_array,
)
from zarr_manifest.conversion.target.hierarchy_writer import PartitionShape, write_hierarchy
from zarr_manifest.conversion.target.locking import lock
from zarr_manifest.conversion.target.source_paths import OptionalBase, SourcePaths
