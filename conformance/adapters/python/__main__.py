"""``python -m conformance.adapters.python``: answer the suite with ``zarr_manifest``.

With ``--chunk-by-chunk``, zarr reads selections as it does for debugging.
"""

import sys

import zarr

from conformance.adapters.json_lines import serve
from conformance.adapters.python.implementation import CHUNK_BY_CHUNK, IMPLEMENTATION

if "--chunk-by-chunk" in sys.argv[1:]:
    zarr.config.set({"zarr_manifest.bulk": False})
    serve(CHUNK_BY_CHUNK)
else:
    serve(IMPLEMENTATION)
