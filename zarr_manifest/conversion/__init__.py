"""Conversion of other formats and references into Zarr v3 hierarchies, and back.

The public names. They are imported when they are asked for: each needs other libraries.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zarr_manifest.conversion.files.reading import read_files
    from zarr_manifest.conversion.hierarchy_writer import write_hierarchy
    from zarr_manifest.conversion.kerchunk.export_json import export_kerchunk_json
    from zarr_manifest.conversion.kerchunk.export_parquet import export_kerchunk_parquet
    from zarr_manifest.conversion.kerchunk.json_sets import read_kerchunk_json
    from zarr_manifest.conversion.kerchunk.parquet_sets import read_kerchunk_parquet
    from zarr_manifest.conversion.kerchunk.reading import read_kerchunk
    from zarr_manifest.conversion.nodes import (
        ArrayNode,
        GroupNode,
        Node,
        RefusedNode,
        StreamedManifest,
    )
    from zarr_manifest.conversion.older_writers.upgrading import UpgradeReport, upgrade
    from zarr_manifest.conversion.refusals import NotConvertibleError
    from zarr_manifest.conversion.report import ConversionReport
    from zarr_manifest.conversion.virtual.nodes import read_virtual
    from zarr_manifest.conversion.virtual.objects import (
        to_virtual_dataset,
        to_virtual_datatree,
    )
    from zarr_manifest.conversion.zarr2.hierarchy import read_zarr2

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
    "files.reading": ["read_files"],
    "hierarchy_writer": ["write_hierarchy"],
    "kerchunk.export_json": ["export_kerchunk_json"],
    "kerchunk.export_parquet": ["export_kerchunk_parquet"],
    "kerchunk.json_sets": ["read_kerchunk_json"],
    "kerchunk.parquet_sets": ["read_kerchunk_parquet"],
    "kerchunk.reading": ["read_kerchunk"],
    "nodes": ["ArrayNode", "GroupNode", "Node", "RefusedNode", "StreamedManifest"],
    "older_writers.upgrading": ["UpgradeReport", "upgrade"],
    "refusals": ["NotConvertibleError"],
    "report": ["ConversionReport"],
    "virtual.nodes": ["read_virtual"],
    "virtual.objects": ["to_virtual_dataset", "to_virtual_datatree"],
    "zarr2.hierarchy": ["read_zarr2"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
