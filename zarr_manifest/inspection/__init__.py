"""What a hierarchy contains, and what is wrong with it."""

from zarr_manifest.inspection.chunk_maps import ChunkMap
from zarr_manifest.inspection.describing import contents
from zarr_manifest.inspection.html_tree import contents_html
from zarr_manifest.inspection.identity import identity, loose_rows
from zarr_manifest.inspection.node_contents import Contents, NodeContents, tree_lines
from zarr_manifest.inspection.validation import Problem, check_document, validate

__all__ = [
    "ChunkMap",
    "Contents",
    "NodeContents",
    "Problem",
    "check_document",
    "contents",
    "contents_html",
    "identity",
    "loose_rows",
    "tree_lines",
    "validate",
]
