"""Bytes that have been fetched already, as zarr's codec pipelines take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from zarr_manifest.hierarchy import pure_request
from zarr_manifest.sources import slice_bounds

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest

__all__ = ["Prefetched"]


class Prefetched(Struct, frozen=True):
    """The encoded bytes of a chunk; a byte getter of zarr.

    Parameters
    ----------
    body : memoryview
        All of them.
    """

    body: memoryview

    async def get(
        self, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer:
        """Return the bytes, or some of them."""
        return self.get_sync(prototype, byte_range)

    def get_sync(self, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer:
        """Return the bytes, or some of them, without an event loop."""
        part = self.body[slice(*slice_bounds(len(self.body), pure_request(byte_range)))]
        return prototype.buffer.from_bytes(part)
