"""VirtualiZarr's objects as nodes, and hierarchies as VirtualiZarr's objects."""

from zarr_manifest.conversion.virtual.arrays import (
    add_references,
    array_node,
    checked_metadata,
    json_metadata,
    manifest_of_array,
    url_reference,
)
from zarr_manifest.conversion.virtual.nodes import loaded_node, read_virtual
from zarr_manifest.conversion.virtual.objects import to_virtual_dataset, to_virtual_datatree
