"""A reference to one chunk, and how columns represent it.

Offsets, lengths and path numbers are columns; the rest, which few entries have, are
extras. Pure.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from zarr_manifest.format import NO_CONDITIONS, Conditions, Entry, format_last_modified
from zarr_manifest.showing import without_defaults

__all__ = [
    "EMPTY",
    "INLINE",
    "NO_EXTRAS",
    "OBJECT_BYTES",
    "Extras",
    "Reference",
    "Row",
    "entry_of",
]

# Values of the path number column for entries without a path.
INLINE = -1
EMPTY = -2

# Estimated memory of a small Python object, including what refers to it.
OBJECT_BYTES = 200


class Reference(Struct, frozen=True):
    """The entry of one chunk in a manifest.

    Parameters
    ----------
    path : str or None
        URL reference, as written; None for inline and explicitly empty chunks.
    offset : int
        First byte of the chunk in its object.
    length : int or None
        Number of bytes; None if the chunk runs to the end of its object.
    data : bytes or None
        The encoded chunk, inline.
    checksum : str or None
        ``"<algorithm>:<hex>"`` over the encoded chunk.
    conditions : Conditions
        What the source object must still match.

    Examples
    --------
    >>> Reference("s3://bucket/f.nc", offset=100, length=8)
    Reference(path='s3://bucket/f.nc', offset=100, length=8)
    """

    path: str | None
    offset: int = 0
    length: int | None = None
    data: bytes | None = None
    checksum: str | None = None
    conditions: Conditions = NO_CONDITIONS

    def __repr__(self) -> str:
        return without_defaults(self)

    @property
    def is_empty(self) -> bool:
        """Whether the chunk is explicitly empty: every element is the fill value."""
        return self.path is None and self.data is None


class Row(Struct, frozen=True):
    """The columns' values for one chunk: a :class:`Reference` with the number of its path.

    Parameters
    ----------
    path_number : int
        Index in the table of paths; ``INLINE`` or ``EMPTY`` without one.
    offset, length, data, checksum, conditions
        As of :class:`Reference`.
    """

    path_number: int
    offset: int = 0
    length: int | None = None
    data: bytes | None = None
    checksum: str | None = None
    conditions: Conditions = NO_CONDITIONS

    @property
    def is_empty(self) -> bool:
        """Whether the chunk is explicitly empty."""
        return self.path_number == EMPTY


def entry_of(reference: Reference) -> Entry:
    """Return a reference as an entry of a document."""
    unset = msgspec.UNSET
    data, conditions = reference.data, reference.conditions
    last_modified = format_last_modified(conditions)
    has_range = reference.path is not None and (
        reference.offset > 0 or reference.length is not None
    )
    has_length = reference.path is not None and reference.length is not None
    return Entry(
        path=unset if reference.path is None else reference.path,
        offset=reference.offset if has_range else unset,
        length=reference.length if has_length and reference.length is not None else unset,
        data=unset if data is None else data,
        checksum=unset if reference.checksum is None else reference.checksum,
        etag=unset if conditions.etag is None else conditions.etag,
        last_modified=unset if last_modified is None else last_modified,
        version=unset if conditions.version is None else conditions.version,
        size=unset if conditions.size is None else conditions.size,
    )


class Extras(msgspec.Struct, frozen=True):
    """The parts of a reference that only some entries have."""

    data: bytes | None = None
    checksum: str | None = None
    conditions: Conditions = NO_CONDITIONS


NO_EXTRAS = Extras()
