"""Zarr v2 metadata and hierarchies as Zarr v3."""

from zarr_manifest.conversion.zarr2.to_v3.chunk_key_owners import (
    count_keys,
    find_owner,
    refused_strays,
    unread_keys,
)
from zarr_manifest.conversion.zarr2.to_v3.codecs import (
    convert_codecs,
    object_codec_of,
    read_pipeline,
)
from zarr_manifest.conversion.zarr2.to_v3.fill_values import convert_fill_value
from zarr_manifest.conversion.zarr2.to_v3.hierarchy import read_zarr2
from zarr_manifest.conversion.zarr2.to_v3.planning import (
    ArrayPlan,
    GroupPlan,
    Plan,
    is_metadata_key,
    plan_nodes,
)

__all__ = [
    "ArrayPlan",
    "GroupPlan",
    "Plan",
    "convert_codecs",
    "convert_fill_value",
    "count_keys",
    "find_owner",
    "is_metadata_key",
    "object_codec_of",
    "plan_nodes",
    "read_pipeline",
    "read_zarr2",
    "refused_strays",
    "unread_keys",
]
