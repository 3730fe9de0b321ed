"""The error for an object that does not exist, for all readers."""

from __future__ import annotations

from zarr_manifest.errors import ManifestError, SourceChangedError, SourceNotFoundError
from zarr_manifest.format import NO_CONDITIONS, Conditions

__all__ = ["missing_object"]


def missing_object(conditions: Conditions = NO_CONDITIONS, *, detail: str = "") -> ManifestError:
    """Return the error for an object that does not exist, or not in the version that is required.

    Examples
    --------
    >>> missing_object().code, missing_object(Conditions(version="7")).code
    ('source_not_found', 'source_changed')
    """
    if conditions.version is not None:
        return SourceChangedError(
            f"the object has no version {conditions.version}",
            remedy="If it was moved, or its version removed, make the manifest again.",
        )
    return SourceNotFoundError(
        f"the object does not exist{detail}",
        remedy="If it was moved, a different 'base' may find it.",
    )
