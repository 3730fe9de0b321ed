"""The manifest documents of an array: which exist, and what they hold."""

from zarr_manifest.hierarchy.arrays.documents.following_manifests import FollowingManifests
from zarr_manifest.hierarchy.arrays.documents.manifest_documents import (
    CONCURRENCY,
    LoadedManifest,
    ManifestDocuments,
    fetch_document,
    interpret_document_of,
)
from zarr_manifest.hierarchy.arrays.documents.partition_documents import (
    Partition,
    PartitionKeys,
    partitions_to_read,
)

__all__ = [
    "CONCURRENCY",
    "FollowingManifests",
    "LoadedManifest",
    "ManifestDocuments",
    "Partition",
    "PartitionKeys",
    "fetch_document",
    "interpret_document_of",
    "partitions_to_read",
]
