"""Conversion of other formats and references into Zarr v3 hierarchies, and back.

The public names. They are imported when they are asked for: each needs other libraries.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zarr_manifest.conversion.files import read_files
    from zarr_manifest.conversion.hierarchy_writer import write_hierarchy
    from zarr_manifest.conversion.kerchunk import read_kerchunk
    from zarr_manifest.conversion.kerchunk_export_json import export_kerchunk_json
    from zarr_manifest.conversion.kerchunk_export_parquet import export_kerchunk_parquet
    from zarr_manifest.conversion.kerchunk_json import read_kerchunk_json
    from zarr_manifest.conversion.kerchunk_parquet import read_kerchunk_parquet
    from zarr_manifest.conversion.nodes import (
        ArrayNode,
        GroupNode,
        Node,
        RefusedNode,
        StreamedManifest,
    )
    from zarr_manifest.conversion.refusals import NotConvertibleError
    from zarr_manifest.conversion.report import ConversionReport
    from zarr_manifest.conversion.upgrading import UpgradeReport, upgrade
    from zarr_manifest.conversion.virtualizarr_nodes import read_virtual
    from zarr_manifest.conversion.virtualizarr_objects import (
        to_virtual_dataset,
        to_virtual_datatree,
    )
    from zarr_manifest.conversion.zarr2_hierarchy import read_zarr2

__all__ = [
    "ArrayNode",
    "ConversionReport",
    "GroupNode",
    "Node",
    "NotConvertibleError",
    "RefusedNode",
    "StreamedManifest",
    "UpgradeReport",
    "export_kerchunk_json",
    "export_kerchunk_parquet",
    "read_files",
    "read_kerchunk",
    "read_kerchunk_json",
    "read_kerchunk_parquet",
    "read_virtual",
    "read_zarr2",
    "to_virtual_dataset",
    "to_virtual_datatree",
    "upgrade",
    "write_hierarchy",
]

_MODULES = {
    "files": ["read_files"],
    "hierarchy_writer": ["write_hierarchy"],
    "kerchunk": ["read_kerchunk"],
    "kerchunk_export_json": ["export_kerchunk_json"],
    "kerchunk_export_parquet": ["export_kerchunk_parquet"],
    "kerchunk_json": ["read_kerchunk_json"],
    "kerchunk_parquet": ["read_kerchunk_parquet"],
    "nodes": ["ArrayNode", "GroupNode", "Node", "RefusedNode", "StreamedManifest"],
    "refusals": ["NotConvertibleError"],
    "report": ["ConversionReport"],
    "upgrading": ["UpgradeReport", "upgrade"],
    "virtualizarr_nodes": ["read_virtual"],
    "virtualizarr_objects": ["to_virtual_dataset", "to_virtual_datatree"],
    "zarr2_hierarchy": ["read_zarr2"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
