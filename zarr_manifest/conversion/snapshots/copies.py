"""Where the chunks of a snapshot are copied to, under names with their digest."""

from __future__ import annotations

from typing import NamedTuple

from zarr_manifest.format import verify_checksum
from zarr_manifest.manifest import Row
from zarr_manifest.writing import SMALL_CHUNK, GuardedStore, chunk_checksum, chunk_name


class Copied(NamedTuple):
    """A chunk that was copied: its checksum and size, and its bytes if they are inline."""

    checksum: str
    size: int
    data: bytes | None = None


class Copies:
    """Where chunks are copied to.

    Parameters
    ----------
    store : GuardedStore
        The place.
    below : str
        What keys begin with.
    prefix : str
        What paths in manifests begin with.
    is_shared : bool
        Whether chunks of others may be there.
    """

    def __init__(
        self, store: GuardedStore, below: str, prefix: str, *, is_shared: bool = False
    ) -> None:
        self._store = store
        self._below = below
        self._prefix = prefix
        self._is_shared = is_shared
        self._there: set[str] = set()

    def path(self, checksum: str) -> str:
        """Return the path of a chunk in manifests."""
        return self._prefix + chunk_name(checksum)

    async def has(self, checksum: str) -> bool:
        """Whether a chunk is there, so that it need not be copied."""
        if checksum not in self._there and self._is_shared:
            key = self._below + chunk_name(checksum)
            if await self._store.store.exists(key):
                self._there.add(checksum)
        return checksum in self._there

    def add(self, entry: Row, body: memoryview) -> Copied:
        """Copy a chunk, unless it is there; in any thread."""
        if entry.checksum is not None:
            verify_checksum(entry.checksum, body)
        checksum = chunk_checksum(body)
        if 0 < len(body) <= SMALL_CHUNK:
            return Copied(checksum, len(body), bytes(body))
        if checksum not in self._there:
            self._there.add(checksum)
            self._store.put(self._below + chunk_name(checksum), bytes(body))
        return Copied(checksum, len(body))
