"""What a hierarchy contains, and what is wrong with it."""

from zarr_manifest.inspection.node_contents import NodeContents, contents
from zarr_manifest.inspection.validation import Problem, validate

__all__ = ["NodeContents", "Problem", "contents", "validate"]
