"""``python -m conformance.adapters.python [--bulk]``: answer the suite with ``zarr_manifest``.

With ``--bulk``, selections of several chunks are read at once, by its codec pipeline.
"""

import sys

import zarr

from conformance.adapters.json_lines import serve
from conformance.adapters.python.implementation import IMPLEMENTATION, IN_BULK

if "--bulk" in sys.argv[1:]:
    zarr.config.set({"codec_pipeline.path": "zarr_manifest.BulkCodecPipeline"})
    serve(IN_BULK)
else:
    serve(IMPLEMENTATION)
