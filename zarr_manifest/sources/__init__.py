"""The bytes of authorised locations; the only package that fetches."""

from zarr_manifest.sources.access import (
    Access,
    Allow,
    Anonymous,
    Environment,
    access_by_prefix,
    access_to,
    anonymous,
    describe_access,
    environment,
    key_within,
    local_directories,
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
    refused_key,
    slice_of,
    store_errors,
    store_failure,
    store_name,
)
from zarr_manifest.sources.local_files import HIERARCHY, Directory, link_outside
from zarr_manifest.sources.sources import DEFAULT_MAX_GAP, Sources
from zarr_manifest.sources.steps import Call, Steps, in_order, run_async, run_sync
from zarr_manifest.sources.store_directory import directory_of, is_fsspec_on_web
from zarr_manifest.sources.web import within_host
from zarr_manifest.sources.web_hierarchy import WebStore, web_directory

__all__ = [
    "DEFAULT_MAX_GAP",
    "HIERARCHY",
    "Access",
    "Allow",
    "Anonymous",
    "ByteRequest",
    "Call",
    "Directory",
    "Environment",
    "SourceRange",
    "Sources",
    "Steps",
    "WebStore",
    "Whole",
    "access_by_prefix",
    "access_to",
    "anonymous",
    "can_list",
    "describe_access",
    "directory_of",
    "environment",
    "hierarchy_reader",
    "in_order",
    "is_fsspec_on_web",
    "key_within",
    "link_outside",
    "local_directories",
    "needs_size",
    "open_object_store",
    "pure_request",
    "reader_of",
    "refused_key",
    "run_async",
    "run_sync",
    "slice_bounds",
    "slice_of",
    "source_range",
    "store_errors",
    "store_failure",
    "store_name",
    "web_directory",
    "within_host",
]
