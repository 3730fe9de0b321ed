"""What is known of the nodes of a hierarchy: what was seen of them, and what is read of others."""

from zarr_manifest.hierarchy.arrays.known.contradictions import not_a_path, vanished
from zarr_manifest.hierarchy.arrays.known.known_arrays import Chunk, KnownArrays, Metadata, Route
from zarr_manifest.hierarchy.arrays.known.looks import Looks, look_again
from zarr_manifest.hierarchy.arrays.known.seen_arrays import Native, Remembered

__all__ = [
    "Chunk",
    "KnownArrays",
    "Looks",
    "Metadata",
    "Native",
    "Remembered",
    "Route",
    "look_again",
    "not_a_path",
    "vanished",
]
