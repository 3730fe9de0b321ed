"""URL references: where the bytes of an entry are, and whether they may be read. Pure."""

from zarr_manifest.locations.allow_list import AllowList, suggest_prefixes
from zarr_manifest.locations.local_paths import (
    local_location,
    local_reference,
    path_of_file_url,
    split_url,
)
from zarr_manifest.locations.redaction import redact, without_secrets
from zarr_manifest.locations.resolving import (
    Base,
    Location,
    StoreLocation,
    UrlLocation,
    resolver,
)
from zarr_manifest.locations.summary import ReferencedLocation, summarize

__all__ = [
    "AllowList",
    "Base",
    "Location",
    "ReferencedLocation",
    "StoreLocation",
    "UrlLocation",
    "local_location",
    "local_reference",
    "path_of_file_url",
    "redact",
    "resolver",
    "split_url",
    "suggest_prefixes",
    "summarize",
    "without_secrets",
]
