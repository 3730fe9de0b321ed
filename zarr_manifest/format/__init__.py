"""The specification in code: declarations, manifest documents, chunk keys, checksums.

No input or output, and no zarr.
"""

from zarr_manifest.format.checksums import compute_checksum, parse_checksum, verify_checksum
from zarr_manifest.format.chunk_grid import (
    PLACEHOLDER,
    ChunkGrid,
    Partitions,
    document_reference,
    grid_index,
    grid_indices,
    interpret_chunk_grid,
    number_chunks,
)
from zarr_manifest.format.chunk_keys import (
    encode_relative,
    format_canonical,
    owner_candidates,
    parse_canonical,
    parse_relative,
)
from zarr_manifest.format.conditions import (
    NO_CONDITIONS,
    Conditions,
    format_last_modified,
    parse_conditions,
)
from zarr_manifest.format.declaration import (
    TRANSFORMER_NAME,
    Configuration,
    interpret_declaration,
    is_declaration,
    parse_declaration,
)
from zarr_manifest.format.document_codecs import (
    KNOWN_CODECS,
    DocumentCodec,
    complete_codec,
    decode_body,
    encode_body,
)
from zarr_manifest.format.findings import Findings, collect, strict
from zarr_manifest.format.limits import Limits, limit_exceeded, too_much
from zarr_manifest.format.manifest_document import (
    Entry,
    Lines,
    Members,
    count_inline_bytes,
    explain_object,
    interpret_document,
)
from zarr_manifest.format.node_metadata import (
    NODE_METADATA,
    NODE_NAMES,
    ArrayMetadata,
    ancestors,
    arrays_in,
    declare,
    dump_node,
    impossible_member,
    impossible_name,
    interpret_codecs,
    interpret_members,
    is_possible_path,
    members_in,
    parse_node,
    without_declarations,
)
from zarr_manifest.format.unfinished import is_placeholder, placeholder, unfinished_error

__all__ = [
    "KNOWN_CODECS",
    "NODE_METADATA",
    "NODE_NAMES",
    "NO_CONDITIONS",
    "PLACEHOLDER",
    "TRANSFORMER_NAME",
    "ArrayMetadata",
    "ChunkGrid",
    "Conditions",
    "Configuration",
    "DocumentCodec",
    "Entry",
    "Findings",
    "Limits",
    "Lines",
    "Members",
    "Partitions",
    "ancestors",
    "arrays_in",
    "collect",
    "complete_codec",
    "compute_checksum",
    "count_inline_bytes",
    "declare",
    "decode_body",
    "document_reference",
    "dump_node",
    "encode_body",
    "encode_relative",
    "explain_object",
    "format_canonical",
    "format_last_modified",
    "grid_index",
    "grid_indices",
    "impossible_member",
    "impossible_name",
    "interpret_chunk_grid",
    "interpret_codecs",
    "interpret_declaration",
    "interpret_document",
    "interpret_members",
    "is_declaration",
    "is_placeholder",
    "is_possible_path",
    "limit_exceeded",
    "members_in",
    "number_chunks",
    "owner_candidates",
    "parse_canonical",
    "parse_checksum",
    "parse_conditions",
    "parse_declaration",
    "parse_node",
    "parse_relative",
    "placeholder",
    "strict",
    "too_much",
    "unfinished_error",
    "verify_checksum",
    "without_declarations",
]
