"""Manifest arrays: what they declare, and whose chunk a key is."""

from zarr_manifest.hierarchy.arrays.declared_array import DeclaredArray, interpret_array
from zarr_manifest.hierarchy.arrays.documents import (
    CONCURRENCY,
    FollowingManifests,
    ManifestDocuments,
    Partition,
    PartitionKeys,
    fetch_document,
    interpret_document_of,
    partitions_to_read,
)
from zarr_manifest.hierarchy.arrays.fill_chunks import encode_fill_chunk
from zarr_manifest.hierarchy.arrays.key_encoding import ChunkKeyEncoding
from zarr_manifest.hierarchy.arrays.located_chunks import LocatedChunks
from zarr_manifest.hierarchy.arrays.shared_calls import SharedCalls
from zarr_manifest.hierarchy.arrays.transformer import (
    ChunkManifestTransformer,
    ConditionCheck,
    Verify,
)

__all__ = [
    "CONCURRENCY",
    "ChunkKeyEncoding",
    "ChunkManifestTransformer",
    "ConditionCheck",
    "DeclaredArray",
    "FollowingManifests",
    "LocatedChunks",
    "ManifestDocuments",
    "Partition",
    "PartitionKeys",
    "SharedCalls",
    "Verify",
    "encode_fill_chunk",
    "fetch_document",
    "interpret_array",
    "interpret_document_of",
    "partitions_to_read",
]
