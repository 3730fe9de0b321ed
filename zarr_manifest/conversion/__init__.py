"""Conversion of other formats and references into Zarr v3 hierarchies, and back.

The public names, imported on first use: each needs other libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarr_manifest.lazy_names import from_modules

if TYPE_CHECKING:
    from zarr_manifest.conversion.concatenation import (
        AppendReport,
        TrimReport,
        append,
        concat,
        read_concatenated,
        trim,
    )
    from zarr_manifest.conversion.dandi import read_dandi
    from zarr_manifest.conversion.files import (
        FORMATS,
        Parallel,
        Scan,
        ScanReport,
        read_files,
        read_hierarchy,
        scan,
        scan_files,
    )
    from zarr_manifest.conversion.kerchunk import (
        export_kerchunk_json,
        export_kerchunk_parquet,
        read_kerchunk,
        read_kerchunk_json,
        read_kerchunk_parquet,
    )
    from zarr_manifest.conversion.models import ModelStore as ModelStore  # of the package above
    from zarr_manifest.conversion.models import from_model, read_model, to_model
    from zarr_manifest.conversion.nodes import (
        ArrayNode,
        ConversionReport,
        GroupNode,
        Node,
        RefusedNode,
        StreamedManifest,
    )
    from zarr_manifest.conversion.older_writers import UpgradeReport, upgrade
    from zarr_manifest.conversion.renewal import (
        AcceptanceReport,
        RefusedSource,
        RenewalReport,
        accept,
        complete,
        refresh,
        relocate,
    )
    from zarr_manifest.conversion.snapshots import (
        ChunkDifference,
        Difference,
        NodeDifference,
        diff,
        snapshot,
    )
    from zarr_manifest.conversion.target import lock, write_hierarchy
    from zarr_manifest.conversion.virtual import (
        read_virtual,
        to_virtual_dataset,
        to_virtual_datatree,
    )
    from zarr_manifest.conversion.zarr2 import read_zarr2

__all__ = [
    "FORMATS",
    "AcceptanceReport",
    "AppendReport",
    "ArrayNode",
    "ChunkDifference",
    "ConversionReport",
    "Difference",
    "GroupNode",
    "Node",
    "NodeDifference",
    "Parallel",
    "RefusedNode",
    "RefusedSource",
    "RenewalReport",
    "Scan",
    "ScanReport",
    "StreamedManifest",
    "TrimReport",
    "UpgradeReport",
    "accept",
    "append",
    "complete",
    "concat",
    "diff",
    "export_kerchunk_json",
    "export_kerchunk_parquet",
    "from_model",
    "lock",
    "read_concatenated",
    "read_dandi",
    "read_files",
    "read_hierarchy",
    "read_kerchunk",
    "read_kerchunk_json",
    "read_kerchunk_parquet",
    "read_model",
    "read_virtual",
    "read_zarr2",
    "refresh",
    "relocate",
    "scan",
    "scan_files",
    "snapshot",
    "to_model",
    "to_virtual_dataset",
    "to_virtual_datatree",
    "trim",
    "upgrade",
    "write_hierarchy",
]

# Type checkers read the imports above; this would have them believe that every name is there.
if not TYPE_CHECKING:
    __getattr__ = from_modules(
        __name__,
        {
            "dandi": ("read_dandi",),
            "files": (
                "FORMATS",
                "Parallel",
                "Scan",
                "ScanReport",
                "read_files",
                "read_hierarchy",
                "scan",
                "scan_files",
            ),
            "concatenation": (
                "AppendReport",
                "TrimReport",
                "append",
                "concat",
                "read_concatenated",
                "trim",
            ),
            "kerchunk": (
                "export_kerchunk_json",
                "export_kerchunk_parquet",
                "read_kerchunk",
                "read_kerchunk_json",
                "read_kerchunk_parquet",
            ),
            "models": (
                "ModelStore",
                "from_model",
                "read_model",
                "to_model",
            ),
            "nodes": (
                "ArrayNode",
                "ConversionReport",
                "GroupNode",
                "Node",
                "RefusedNode",
                "StreamedManifest",
            ),
            "renewal": (
                "AcceptanceReport",
                "RefusedSource",
                "RenewalReport",
                "accept",
                "complete",
                "refresh",
                "relocate",
            ),
            "older_writers": (
                "UpgradeReport",
                "upgrade",
            ),
            "snapshots": (
                "ChunkDifference",
                "Difference",
                "NodeDifference",
                "diff",
                "snapshot",
            ),
            "target": (
                "lock",
                "write_hierarchy",
            ),
            "virtual": (
                "read_virtual",
                "to_virtual_dataset",
                "to_virtual_datatree",
            ),
            "zarr2": ("read_zarr2",),
        },
    )

    def __dir__() -> list[str]:
        return sorted(__all__)
