"""Open the bytes you already have as one Zarr hierarchy.

Implements the Zarr v3 storage transformer ``chunk-manifest-json`` for zarr.
"""

from zarr_manifest.errors import (
    ChecksumMismatchError,
    InvalidChunkKeyError,
    InvalidConfigurationError,
    InvalidEntryError,
    InvalidJSONError,
    InvalidManifestError,
    InvalidPathError,
    LimitExceededError,
    LocationNotAllowedError,
    ManifestError,
    ManifestNotFoundError,
    NotConvertibleError,
    RangeOutOfBoundsError,
    ReadOnlyError,
    ShortReadError,
    SourceAccessDeniedError,
    SourceChangedError,
    SourceError,
    SourceNotFoundError,
    UnsupportedChecksumError,
    UnsupportedTransformerError,
    WriteConflictError,
)
from zarr_manifest.format import Limits
from zarr_manifest.hierarchy import ManifestStore
from zarr_manifest.inspection import Problem, validate
from zarr_manifest.integrations import enable
from zarr_manifest.locations import ReferencedLocation
from zarr_manifest.manifest import Manifest, Reference
from zarr_manifest.sources import anonymous, environment
from zarr_manifest.writing import create_array, write_manifest

__version__ = "0.1.0.dev0"

__all__ = [
    "ChecksumMismatchError",
    "InvalidChunkKeyError",
    "InvalidConfigurationError",
    "InvalidEntryError",
    "InvalidJSONError",
    "InvalidManifestError",
    "InvalidPathError",
    "LimitExceededError",
    "Limits",
    "LocationNotAllowedError",
    "Manifest",
    "ManifestError",
    "ManifestNotFoundError",
    "ManifestStore",
    "NotConvertibleError",
    "Problem",
    "RangeOutOfBoundsError",
    "ReadOnlyError",
    "Reference",
    "ReferencedLocation",
    "ShortReadError",
    "SourceAccessDeniedError",
    "SourceChangedError",
    "SourceError",
    "SourceNotFoundError",
    "UnsupportedChecksumError",
    "UnsupportedTransformerError",
    "WriteConflictError",
    "anonymous",
    "create_array",
    "enable",
    "environment",
    "validate",
    "write_manifest",
]
