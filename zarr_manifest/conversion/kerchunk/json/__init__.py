"""Reference sets in JSON, as nodes."""

from zarr_manifest.conversion.kerchunk.json.references import inline_bytes, with_versions
from zarr_manifest.conversion.kerchunk.json.sets import read_kerchunk_json

__all__ = ["inline_bytes", "read_kerchunk_json", "with_versions"]
