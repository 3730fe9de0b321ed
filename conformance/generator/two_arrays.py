"""A hierarchy of two arrays, ``a`` with a manifest and ``n`` native, all of whose files are read.

For areas that ask the same of whatever is read: metadata, documents, sources, native chunks.
"""

from __future__ import annotations

from conformance.generator.case import Case
from conformance.generator.standard import ARRAY, ENTRIES, with_source

__all__ = ["BLOCKS", "FILES", "with_two_arrays"]

# What a reader may be led astray by: its name, its path, the array to be read, and the phase.
FILES: tuple[tuple[str, str, str, str], ...] = (
    ("source", "a/data.bin", "a", "chunk"),
    ("manifest", "a/manifest.json", "a", "manifest"),
    ("metadata", "a/zarr.json", "a", "declaration"),
    ("native-chunk", "n/c/1", "n", "chunk"),
)

# The configuration of a manifest with a document for each chunk.
BLOCKS = {"manifest": "./{partition}.json", "partition_shape": [1]}


def with_two_arrays(case: Case) -> Case:
    """Add both arrays, and the source of the first one beside it."""
    return with_source(case, ENTRIES).array("n", ARRAY, transformers=None).native_chunks("n")
