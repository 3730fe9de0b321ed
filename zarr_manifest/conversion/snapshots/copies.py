"""Where the chunks of a snapshot are copied to, under names with their digest."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec
from msgspec import Struct

from zarr_manifest.format import compute_checksum, verify_checksum
from zarr_manifest.manifest import Row
from zarr_manifest.writing import SMALL_CHUNK, GuardedStore, chunk_name


class Copied(NamedTuple):
    """A chunk that was copied: its checksum and size, and its bytes if they are inline."""

    checksum: str
    size: int
    data: bytes | None = None


class Origins(Struct, frozen=True):
    """What the chunks of an array were copied from: checksums by digests of what is read.

    Parameters
    ----------
    key : str
        Where this is kept, beside the chunks.
    known : dict of str to str
        Of the snapshot before.
    present : dict of str to str
        Of this one.
    """

    key: str
    known: dict[str, str]
    present: dict[str, str]


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
        self._origins: dict[str, Origins] = {}

    def path(self, checksum: str) -> str:
        """Return the path of a chunk in manifests."""
        return self._prefix + chunk_name(checksum)

    def origins(self, array: str) -> Origins:
        """Return what an array's chunks were copied from before, given its URL."""
        key = f"origins/{hashlib.sha256(array.encode()).hexdigest()}.json"
        if key not in self._origins:
            body = self._store.read(key).body if self._is_shared else None
            try:
                known = msgspec.json.decode(body or b"{}", type=dict[str, str])
            except msgspec.DecodeError:
                known = {}  # all is read again
            self._origins[key] = Origins(key, known, {})
        return self._origins[key]

    def keep_origins(self) -> None:
        """Keep what all chunks were copied from, for the next snapshot."""
        for each in self._origins.values():
            if self._is_shared and each.present != each.known:
                self._store.put(each.key, msgspec.json.encode(each.present))

    async def known(self, entry: Row, origin: str, origins: Origins) -> Copied | None:
        """Return the copy that there is of a chunk; None if it has to be read."""
        checksum = entry.checksum or ""
        if not checksum.startswith("sha256:"):
            checksum = origins.known.get(origin, "")
        if not checksum or (entry.length or 0) <= SMALL_CHUNK:
            return None
        if checksum not in self._there and self._is_shared:
            key = self._below + chunk_name(checksum)
            if await self._store.store.exists(key):
                self._there.add(checksum)
        return Copied(checksum, entry.length or 0) if checksum in self._there else None

    def add(self, entry: Row, body: memoryview) -> Copied:
        """Copy a chunk, unless it is there; in any thread."""
        if entry.checksum is not None:
            verify_checksum(entry.checksum, body)
        checksum = compute_checksum("sha256", body)
        if 0 < len(body) <= SMALL_CHUNK:
            return Copied(checksum, len(body), bytes(body))
        if checksum not in self._there:
            self._there.add(checksum)
            self._store.put(self._below + chunk_name(checksum), bytes(body))
        return Copied(checksum, len(body))
