"""The references of one array, as columns. Pure.

For users: :class:`Manifest`, and :class:`Reference`, its entry for one chunk.
"""

from zarr_manifest.manifest.author_columns import TO_THE_END, Columns, NumberedPaths
from zarr_manifest.manifest.encoding import canonical_keys
from zarr_manifest.manifest.keys import Grid, Rows, canonical_indices, interpret_keys
from zarr_manifest.manifest.manifest import Manifest, references_of
from zarr_manifest.manifest.reference import EMPTY, INLINE, Extras, Reference, Row
from zarr_manifest.manifest.reference_table import References, interpret_manifest
from zarr_manifest.manifest.text_columns import TextColumns

__all__ = [
    "EMPTY",
    "INLINE",
    "TO_THE_END",
    "Columns",
    "Extras",
    "Grid",
    "Manifest",
    "NumberedPaths",
    "Reference",
    "References",
    "Row",
    "Rows",
    "TextColumns",
    "canonical_indices",
    "canonical_keys",
    "interpret_keys",
    "interpret_manifest",
    "references_of",
]
