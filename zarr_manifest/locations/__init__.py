"""URL references: where the bytes of an entry are, and whether the reader allows it. Pure."""

from zarr_manifest.locations.redaction import redact
from zarr_manifest.locations.resolving import (
    AllowList,
    Base,
    Location,
    StoreLocation,
    UrlLocation,
    suggest_prefixes,
)
from zarr_manifest.locations.summary import ReferencedLocation, summarize

__all__ = [
    "AllowList",
    "Base",
    "Location",
    "ReferencedLocation",
    "StoreLocation",
    "UrlLocation",
    "redact",
    "suggest_prefixes",
    "summarize",
]
