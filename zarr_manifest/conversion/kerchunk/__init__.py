"""kerchunk reference sets as nodes, and hierarchies as kerchunk reference sets."""

from zarr_manifest.conversion.kerchunk.export import export_kerchunk_json, export_kerchunk_parquet
from zarr_manifest.conversion.kerchunk.json import read_kerchunk_json
from zarr_manifest.conversion.kerchunk.parquet import read_kerchunk_parquet
from zarr_manifest.conversion.kerchunk.reading import read_kerchunk
