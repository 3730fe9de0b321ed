"""What zarr is shown of a node's metadata: not the declaration, which a ManifestStore honours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zarr_manifest.hierarchy.arrays import KnownArrays
from zarr_manifest.hierarchy.underneath import slice_of

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest

__all__ = ["reveal"]


def reveal(
    arrays: KnownArrays,
    path: str,
    metadata: Buffer | None,
    prototype: BufferPrototype,
    byte_range: ByteRequest | None,
) -> Buffer | None:
    """Return a node's ``zarr.json``, or part of it, as zarr is to see it; None if there is none.

    Raises
    ------
    ManifestError
        As of :meth:`KnownArrays.reveal`.
    """
    if metadata is None:
        arrays.note_missing(path)
        return None
    stored = metadata.to_bytes()
    shown = arrays.reveal(path, stored)
    if byte_range is not None:
        shown = shown[slice_of(byte_range, len(shown))]
    elif shown is stored:
        return metadata
    return prototype.buffer.from_bytes(shown)
