"""The specification in code: declarations, manifest documents, chunk keys, checksums.

No input or output, and no zarr.
"""

from typing import TYPE_CHECKING

from zarr_manifest.format.checksums import (
    compute_checksum,
    crc32c,
    parse_checksum,
    verify_checksum,
)
from zarr_manifest.format.chunk_grid import (
    ChunkGrid,
    Partitions,
    grid_index,
    grid_indices,
    interpret_chunk_grid,
    number_chunks,
)
from zarr_manifest.format.conditions import (
    NO_CONDITIONS,
    Conditions,
    format_last_modified,
    parse_conditions,
)
from zarr_manifest.format.declaration import (
    TRANSFORMER_NAME,
    TRANSFORMERS,
    Configuration,
    as_object,
    dump_briefly,
    interpret_declaration,
    is_declaration,
    parse_declaration,
)
from zarr_manifest.format.declared_documents import (
    DIGEST_PATTERN,
    DIGEST_PLACEHOLDER,
    MOST_NAMES,
    PLACEHOLDER,
    VerifiedBody,
    document_checksum,
    document_reference,
    interpret_partition_names,
    names_outside,
    state_checksums,
    state_partitions,
    verify_document,
)
from zarr_manifest.format.document_codecs import (
    KNOWN_CODECS,
    Body,
    DocumentCodec,
    complete_codec,
    decode_body,
    encode_body,
)
from zarr_manifest.format.findings import Findings, collect, mapped, strict
from zarr_manifest.format.keys import (
    METADATA_NAMES,
    NODE_METADATA,
    NODE_NAMES,
    ancestors,
    canonical_indices,
    encode_relative,
    format_canonical,
    has_forbidden_character,
    impossible_name,
    is_possible_path,
    join,
    likely_owner,
    member_of,
    node_of_metadata,
    owner_candidates,
    parse_canonical,
    parse_relative,
)
from zarr_manifest.format.limits import LARGEST_INTEGER, Limits, limit_exceeded, too_much
from zarr_manifest.format.node_metadata import (
    ArrayMetadata,
    arrays_in,
    canonical_json,
    declaration_of,
    declare,
    dump_node,
    element_size,
    impossible_member,
    interpret_codecs,
    interpret_members,
    members_in,
    parse_node,
    undeclared_kind,
    without_declarations,
)
from zarr_manifest.format.precedence import (
    Pending,
    PendingChange,
    PendingChanges,
    consolidated_members,
    contradicted_members,
    has_consolidated,
    interpret_pending,
    own_digest,
    parse_pending,
    with_members,
    with_pending,
    without_copies,
)
from zarr_manifest.lazy_names import from_modules

if TYPE_CHECKING:
    from zarr_manifest.format.manifest_document import (
        Entry,
        Lines,
        Members,
        count_inline_bytes,
        explain_object,
        interpret_document,
    )
    from zarr_manifest.format.object_models import (
        ArrayModel,
        GroupModel,
        differences,
        is_model_of_array,
        model_of_nodes,
        nodes_of_model,
    )

# Type checkers read the imports above; this would have them believe that every name is there.
if not TYPE_CHECKING:
    __getattr__ = from_modules(
        __name__,
        {
            "manifest_document": (
                "Entry Lines Members count_inline_bytes explain_object interpret_document"
            ),
            "object_models": (
                "ArrayModel GroupModel differences is_model_of_array model_of_nodes nodes_of_model"
            ),
        },
    )
