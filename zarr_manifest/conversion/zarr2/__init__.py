"""Conversion of Zarr v2 to Zarr v3, and back."""

from zarr_manifest.conversion.zarr2.codecs import ARRAY_FILTERS
from zarr_manifest.conversion.zarr2.data_types import DataType, convert_data_type
from zarr_manifest.conversion.zarr2.fill_values import convert_fill_value
from zarr_manifest.conversion.zarr2.hierarchy import read_zarr2
from zarr_manifest.conversion.zarr2.planning import (
    Plan,
    by_owner,
    count_keys,
    find_owner,
    is_metadata_key,
    plan_nodes,
    refused_strays,
)
from zarr_manifest.conversion.zarr2.to_v2 import (
    Zarr2Metadata,
    convert_array_to_zarr2,
    convert_group_to_zarr2,
)
from zarr_manifest.conversion.zarr2.to_v3 import (
    ArrayPlan,
    convert_array,
    convert_codecs,
    convert_group,
    object_codec_of,
    read_pipeline,
)
