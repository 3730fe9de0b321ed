"""Values of other formats as JSON and as Zarr data types."""

from zarr_manifest.conversion.values.attribute_values import json_attributes
from zarr_manifest.conversion.values.compound_types import packed_type, packed_values
from zarr_manifest.conversion.values.json_values import as_array, as_object, brief
from zarr_manifest.conversion.values.text import is_utf8, text_of
from zarr_manifest.conversion.values.unstable_types import (
    HAS_ALL_BYTE_ORDERS,
    unstable_types_accepted,
)

__all__ = [
    "HAS_ALL_BYTE_ORDERS",
    "as_array",
    "as_object",
    "brief",
    "is_utf8",
    "json_attributes",
    "packed_type",
    "packed_values",
    "text_of",
    "unstable_types_accepted",
]
