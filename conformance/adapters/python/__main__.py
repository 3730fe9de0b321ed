"""``python -m conformance.adapters.python``: answer the suite with ``zarr_manifest``."""

from conformance.adapters.json_lines import serve
from conformance.adapters.python.implementation import IMPLEMENTATION

serve(IMPLEMENTATION)
