"""URL references: where the bytes of an entry are, and whether they may be read. Pure.

A kind of storage (files, web servers, or one of the clouds) is all that is known of its URLs, its
credentials, and how it is opened.
"""

from zarr_manifest.locations.allow_list import (
    AllowList,
    suggest_prefixes,
    summarize,
)
from zarr_manifest.locations.allow_list import ReferencedLocation as ReferencedLocation
from zarr_manifest.locations.kinds import (
    Cloud,
    Files,
    StorageKind,
    WebServers,
    kind_of,
    known_schemes,
    storage_kinds,
)
from zarr_manifest.locations.local_paths import (
    is_url,
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
    escape_bare_percent,
    is_relative,
    quote_path,
    relative_reference,
    resolver,
)
