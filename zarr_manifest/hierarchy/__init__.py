"""A zarr Store over the nodes of a hierarchy."""

import atexit

from zarr_manifest.hierarchy.declared_array import DeclaredArray, interpret_array
from zarr_manifest.hierarchy.inspected_hierarchy import InspectedHierarchy, store_underneath
from zarr_manifest.hierarchy.key_encoding import ChunkKeyEncoding
from zarr_manifest.hierarchy.known_arrays import METADATA_NAMES, join, node_of_metadata
from zarr_manifest.hierarchy.manifest_documents import (
    CONCURRENCY,
    ManifestDocuments,
    fetch_document,
    interpret_document_of,
)
from zarr_manifest.hierarchy.opening import (
    base_directory,
    object_url,
    open_hierarchy,
    store_as_zarr_would,
    store_urls,
)
from zarr_manifest.hierarchy.partition_documents import (
    Partition,
    around_partition,
    partitions_to_read,
    require_few_partitions,
)
from zarr_manifest.hierarchy.process_end import finish_requests
from zarr_manifest.hierarchy.store import ManifestStore
from zarr_manifest.hierarchy.store_listing import (
    link_outside,
    list_inside,
    list_keys,
    not_listable,
)
from zarr_manifest.hierarchy.transformer import Verify, encode_fill_chunk
from zarr_manifest.hierarchy.walking import (
    Node,
    list_nodes,
    no_hierarchy,
    open_for_reading,
    read_node,
)
from zarr_manifest.hierarchy.zarr_internals import (
    array_class,
    ensure_open,
    ignored_transformers,
    is_store,
    opening_module,
    sync,
)

__all__ = [
    "CONCURRENCY",
    "METADATA_NAMES",
    "ChunkKeyEncoding",
    "DeclaredArray",
    "InspectedHierarchy",
    "ManifestDocuments",
    "ManifestStore",
    "Node",
    "Partition",
    "Verify",
    "around_partition",
    "array_class",
    "base_directory",
    "encode_fill_chunk",
    "ensure_open",
    "fetch_document",
    "ignored_transformers",
    "interpret_array",
    "interpret_document_of",
    "is_store",
    "join",
    "link_outside",
    "list_inside",
    "list_keys",
    "list_nodes",
    "no_hierarchy",
    "node_of_metadata",
    "not_listable",
    "object_url",
    "open_for_reading",
    "open_hierarchy",
    "opening_module",
    "partitions_to_read",
    "read_node",
    "require_few_partitions",
    "store_as_zarr_would",
    "store_underneath",
    "store_urls",
    "sync",
]

# Before zarr's own, which closes the loop: the last one registered is called first.
atexit.register(finish_requests)
