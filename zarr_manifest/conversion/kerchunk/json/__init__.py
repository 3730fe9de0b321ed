"""Reference sets in JSON, as nodes."""

from zarr_manifest.conversion.kerchunk.json.references import ReferenceColumns, inline_bytes
from zarr_manifest.conversion.kerchunk.json.sets import read_kerchunk_json
