"""The references of one array, as columns. Pure.

A row is the position of a reference in these columns, which are in C order of the chunks. For
users: :class:`Manifest`, and :class:`Reference`, its entry for one chunk.
"""

from typing import TYPE_CHECKING

from zarr_manifest.lazy_names import from_modules
from zarr_manifest.manifest.chunk_numbers import ChunkNumbers
from zarr_manifest.manifest.decoding import interpret_manifest
from zarr_manifest.manifest.encoding import canonical_keys, entry_of
from zarr_manifest.manifest.joining import JoinedReferences, join_references
from zarr_manifest.manifest.keys import Grid, MemberRows, interpret_keys
from zarr_manifest.manifest.references import (
    EMPTY,
    INLINE,
    TO_THE_END,
    Columns,
    Extras,
    PathNumbers,
    References,
    Row,
    path_table,
)
from zarr_manifest.manifest.references import Reference as Reference
from zarr_manifest.manifest.text_columns import TextColumns, distinct_numbers

if TYPE_CHECKING:
    from zarr_manifest.manifest.given_columns import (
        NumberedPaths,
        conditions_of,
        references_from_columns,
    )
    from zarr_manifest.manifest.manifest import Manifest, references_of

# Type checkers read the imports above; this would have them believe that every name is there.
if not TYPE_CHECKING:
    __getattr__ = from_modules(
        __name__,
        {
            "given_columns": "NumberedPaths conditions_of references_from_columns",
            "manifest": "Manifest references_of",
        },
    )
