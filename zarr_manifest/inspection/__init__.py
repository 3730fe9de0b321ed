"""What a hierarchy contains, and what is wrong with it."""

from zarr_manifest.inspection.describing import contents
from zarr_manifest.inspection.node_contents import Contents, NodeContents, tree_lines
from zarr_manifest.inspection.validation import Problem, check_document, validate

__all__ = [
    "Contents",
    "NodeContents",
    "Problem",
    "check_document",
    "contents",
    "tree_lines",
    "validate",
]
