"""Conversion of other formats and references into Zarr v3 hierarchies, and back.

The public names, imported on first use: each needs other libraries. A joint is where the chunks of
one source end along a dimension, and those of the next begin. A note, or a refusal, is what a
conversion says of a node that it changed, or that it cannot convert.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarr_manifest.lazy_names import from_modules

if TYPE_CHECKING:
    from zarr_manifest.conversion.concatenation import AppendReport as AppendReport
    from zarr_manifest.conversion.concatenation import TrimReport as TrimReport
    from zarr_manifest.conversion.concatenation import append as append
    from zarr_manifest.conversion.concatenation import concat as concat
    from zarr_manifest.conversion.concatenation import read_concatenated as read_concatenated
    from zarr_manifest.conversion.concatenation import trim as trim
    from zarr_manifest.conversion.dandi import read_dandi as read_dandi
    from zarr_manifest.conversion.files import FORMATS as FORMATS
    from zarr_manifest.conversion.files import Parallel as Parallel
    from zarr_manifest.conversion.files import Scan as Scan
    from zarr_manifest.conversion.files import ScanReport as ScanReport
    from zarr_manifest.conversion.files import read_files as read_files
    from zarr_manifest.conversion.files import read_hierarchy as read_hierarchy
    from zarr_manifest.conversion.files import scan as scan
    from zarr_manifest.conversion.files import scan_files as scan_files
    from zarr_manifest.conversion.kerchunk import export_kerchunk_json as export_kerchunk_json
    from zarr_manifest.conversion.kerchunk import export_kerchunk_parquet as export_kerchunk_parquet
    from zarr_manifest.conversion.kerchunk import read_kerchunk as read_kerchunk
    from zarr_manifest.conversion.kerchunk import read_kerchunk_json as read_kerchunk_json
    from zarr_manifest.conversion.kerchunk import read_kerchunk_parquet as read_kerchunk_parquet
    from zarr_manifest.conversion.models import ModelStore as ModelStore
    from zarr_manifest.conversion.models import from_model as from_model
    from zarr_manifest.conversion.models import read_model as read_model
    from zarr_manifest.conversion.models import to_model as to_model
    from zarr_manifest.conversion.nodes import ArrayNode as ArrayNode
    from zarr_manifest.conversion.nodes import ConversionReport as ConversionReport
    from zarr_manifest.conversion.nodes import GroupNode as GroupNode
    from zarr_manifest.conversion.nodes import Node as Node
    from zarr_manifest.conversion.nodes import RefusedNode as RefusedNode
    from zarr_manifest.conversion.nodes import StreamedManifest as StreamedManifest
    from zarr_manifest.conversion.older_writers import UpgradeReport as UpgradeReport
    from zarr_manifest.conversion.older_writers import upgrade as upgrade
    from zarr_manifest.conversion.renewal import AcceptanceReport as AcceptanceReport
    from zarr_manifest.conversion.renewal import RefusedSource as RefusedSource
    from zarr_manifest.conversion.renewal import RenewalReport as RenewalReport
    from zarr_manifest.conversion.renewal import accept as accept
    from zarr_manifest.conversion.renewal import complete as complete
    from zarr_manifest.conversion.renewal import refresh as refresh
    from zarr_manifest.conversion.renewal import relocate as relocate
    from zarr_manifest.conversion.snapshots import ChunkDifference as ChunkDifference
    from zarr_manifest.conversion.snapshots import Difference as Difference
    from zarr_manifest.conversion.snapshots import NodeDifference as NodeDifference
    from zarr_manifest.conversion.snapshots import diff as diff
    from zarr_manifest.conversion.snapshots import snapshot as snapshot
    from zarr_manifest.conversion.target import lock as lock
    from zarr_manifest.conversion.target import write_hierarchy as write_hierarchy
    from zarr_manifest.conversion.virtual import read_virtual as read_virtual
    from zarr_manifest.conversion.virtual import to_virtual_dataset as to_virtual_dataset
    from zarr_manifest.conversion.virtual import to_virtual_datatree as to_virtual_datatree
    from zarr_manifest.conversion.zarr2 import read_zarr2 as read_zarr2

# Type checkers read the imports above; this would have them believe that every name is there.
if not TYPE_CHECKING:
    _NAMES = {
        "dandi": "read_dandi",
        "files": "FORMATS Parallel Scan ScanReport read_files read_hierarchy scan scan_files",
        "concatenation": "AppendReport TrimReport append concat read_concatenated trim",
        "kerchunk": (
            "export_kerchunk_json export_kerchunk_parquet read_kerchunk read_kerchunk_json "
            "read_kerchunk_parquet"
        ),
        "models": "ModelStore from_model read_model to_model",
        "nodes": "ArrayNode ConversionReport GroupNode Node RefusedNode StreamedManifest",
        "renewal": (
            "AcceptanceReport RefusedSource RenewalReport accept complete refresh relocate"
        ),
        "older_writers": "UpgradeReport upgrade",
        "snapshots": "ChunkDifference Difference NodeDifference diff snapshot",
        "target": "lock write_hierarchy",
        "virtual": "read_virtual to_virtual_dataset to_virtual_datatree",
        "zarr2": "read_zarr2",
    }
    __all__ = sorted({*" ".join(_NAMES.values()).split()} - {"ModelStore"})  # of the package above
    __getattr__ = from_modules(__name__, _NAMES)

    def __dir__() -> list[str]:
        return __all__
