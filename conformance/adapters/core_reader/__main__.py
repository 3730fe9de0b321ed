"""``python -m conformance.adapters.core_reader``: answer the suite with the core reader."""

from conformance.adapters.core_reader.hierarchy import CoreHierarchy
from conformance.adapters.json_lines import Implementation, Request, serve

FEATURES = ("read", "get_chunk", "list", "missing-error", "gzip")


def _open(request: Request) -> CoreHierarchy:
    return CoreHierarchy(
        request["hierarchy"],
        prefixes=[one["prefix"] for one in request.get("allow") or ()],
        missing_is_an_error=request.get("missing") == "error",
    )


serve(Implementation("core-reader", "1", FEATURES, _open))
