"""The bytes of authorised locations; the only package that fetches."""

from zarr_manifest.sources.access import (
    Access,
    Allow,
    Anonymous,
    Environment,
    access_by_prefix,
    access_to,
    anonymous,
    environment,
    key_within,
    open_object_store,
    reader_of,
)
from zarr_manifest.sources.byte_ranges import (
    ByteRequest,
    SourceRange,
    Whole,
    needs_size,
    slice_bounds,
    source_range,
)
from zarr_manifest.sources.hierarchy_objects import (
    can_list,
    hierarchy_reader,
    pure_request,
    slice_of,
    store_errors,
    store_failure,
    store_name,
)
from zarr_manifest.sources.sources import DEFAULT_MAX_GAP, Sources, real_path_within
from zarr_manifest.sources.steps import Call, Steps, in_order, run_async, run_sync

__all__ = [
    "DEFAULT_MAX_GAP",
    "Access",
    "Allow",
    "Anonymous",
    "ByteRequest",
    "Call",
    "Environment",
    "SourceRange",
    "Sources",
    "Steps",
    "Whole",
    "access_by_prefix",
    "access_to",
    "anonymous",
    "can_list",
    "environment",
    "hierarchy_reader",
    "in_order",
    "key_within",
    "needs_size",
    "open_object_store",
    "pure_request",
    "reader_of",
    "real_path_within",
    "run_async",
    "run_sync",
    "slice_bounds",
    "slice_of",
    "source_range",
    "store_errors",
    "store_failure",
    "store_name",
]
