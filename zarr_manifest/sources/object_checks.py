"""What is checked of an object and its bytes, whatever reads it; and the errors for it."""

from __future__ import annotations

from zarr_manifest.errors import (
    ManifestError,
    ShortReadError,
    SourceChangedError,
    SourceError,
    SourceNotFoundError,
)
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.showing import counted
from zarr_manifest.sources.byte_ranges import unknown_size


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


def reject_encoded(encoding: object) -> None:
    """Reject bytes that a server has encoded (specification, "Content encodings").

    Offsets, lengths, sizes and checksums count the bytes of an object as it is.

    Raises
    ------
    SourceError
        If the value of ``Content-Encoding`` names an encoding.
    """
    if encoding is not None and str(encoding).strip().lower() not in ("", "identity"):
        raise SourceError(
            f"the server sends the object encoded: Content-Encoding is {encoding}",
            remedy="Serve it as it is.",
        )


def known_size(state: Conditions) -> int:
    """Return the size of an object, given its state.

    Raises
    ------
    SourceError
        The server does not say how large it is.
    """
    if state.size is None:
        raise unknown_size()
    return state.size


def short_body(announced: int, arrived: int) -> ShortReadError:
    """Return the error for a body of fewer bytes than the source announced, or of more."""
    return ShortReadError(
        f"the source announced {counted(announced, 'byte')}, but {arrived:,} arrived"
    )
