"""A zarr Store over the nodes of a hierarchy.

A node is known if a store has read its metadata, and need not read them again. A fill chunk is
the encoded form of an empty chunk, for readers that treat a missing key as an error.
"""

from typing import TYPE_CHECKING

from zarr_manifest.hierarchy.contradictions import (
    Contradiction,
    being_changed,
    contradiction,
    find_contradiction,
    only_consolidated,
)
from zarr_manifest.hierarchy.listing import UnlistedChanges
from zarr_manifest.hierarchy.store import ManifestStore, prepare_zarr
from zarr_manifest.lazy_names import from_modules

if TYPE_CHECKING:
    from zarr_manifest.hierarchy.declared_array import (
        ChunkKeyEncoding,
        DeclaredArray,
        interpret_array,
    )
    from zarr_manifest.hierarchy.inspected_hierarchy import InspectedHierarchy, store_underneath
    from zarr_manifest.hierarchy.located_chunks import LocatedChunks, ranges_of
    from zarr_manifest.hierarchy.manifest_documents import (
        CONCURRENCY,
        LoadedManifest,
        ManifestDocuments,
        interpret_document_of,
        interpret_paths,
    )
    from zarr_manifest.hierarchy.stored_documents import (
        Partition,
        fetch_document,
        partitions_to_read,
    )
    from zarr_manifest.hierarchy.transformer import (
        ChunkManifestTransformer,
        ConditionCheck,
        Verify,
        encode_fill_chunk,
    )
    from zarr_manifest.hierarchy.walking import (
        Node,
        copies_in,
        list_nodes,
        no_hierarchy,
        nodes_of,
        open_for_reading,
        read_nodes,
    )

# Type checkers read the imports above; this would have them believe that every name is there.
if not TYPE_CHECKING:
    __getattr__ = from_modules(
        __name__,
        {
            "declared_array": "ChunkKeyEncoding DeclaredArray interpret_array",
            "inspected_hierarchy": "InspectedHierarchy store_underneath",
            "located_chunks": "LocatedChunks ranges_of",
            "manifest_documents": (
                "CONCURRENCY LoadedManifest ManifestDocuments interpret_document_of interpret_paths"
            ),
            "stored_documents": "Partition fetch_document partitions_to_read",
            "transformer": "ChunkManifestTransformer ConditionCheck Verify encode_fill_chunk",
            "walking": (
                "Node copies_in list_nodes no_hierarchy nodes_of open_for_reading read_nodes"
            ),
        },
    )
