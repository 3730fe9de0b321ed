"""The target of a conversion: a hierarchy of manifest arrays."""

from zarr_manifest.conversion.target.array_metadata import open_with_zarr, require_valid_array
from zarr_manifest.conversion.target.hierarchy_writer import write_hierarchy
from zarr_manifest.conversion.target.inline_arrays import (
    array_in_memory,
    decoded_values,
    encoded_chunks,
    unwritten_array,
)
from zarr_manifest.conversion.target.journal import JOURNAL
from zarr_manifest.conversion.target.locking import lock
from zarr_manifest.conversion.target.recovery import recover
from zarr_manifest.conversion.target.whole_change import (
    EarlierHierarchy,
    WholeChange,
    with_all_copies,
)

__all__ = [
    "JOURNAL",
    "EarlierHierarchy",
    "WholeChange",
    "array_in_memory",
    "decoded_values",
    "encoded_chunks",
    "lock",
    "open_with_zarr",
    "recover",
    "require_valid_array",
    "unwritten_array",
    "with_all_copies",
    "write_hierarchy",
]
