"""Hierarchies as kerchunk reference sets."""

from zarr_manifest.conversion.kerchunk.export.json_sets import export_kerchunk_json
from zarr_manifest.conversion.kerchunk.export.parquet_sets import export_kerchunk_parquet
