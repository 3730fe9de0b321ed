"""The references of one array, as columns. Pure."""

from zarr_manifest.manifest.author_columns import TO_THE_END, Columns, NumberedPaths
from zarr_manifest.manifest.encoding import canonical_keys
from zarr_manifest.manifest.keys import Grid, Rows, interpret_keys
from zarr_manifest.manifest.manifest import Manifest, Reference, interpret_manifest
from zarr_manifest.manifest.reference import EMPTY, INLINE, Aside

__all__ = [
    "EMPTY",
    "INLINE",
    "TO_THE_END",
    "Aside",
    "Columns",
    "Grid",
    "Manifest",
    "NumberedPaths",
    "Reference",
    "Rows",
    "canonical_keys",
    "interpret_keys",
    "interpret_manifest",
]
