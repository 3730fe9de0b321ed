"""Reference sets in Parquet, as nodes."""

from zarr_manifest.conversion.kerchunk.parquet.files import arrow, parquet
from zarr_manifest.conversion.kerchunk.parquet.sets import read_kerchunk_parquet
