"""ReadableStore: the side of a ManifestStore that is read.

Every method of zarr's Store that reads is overridden, so that none bypasses the manifests, unless
zarr makes it of those that are. Each resolves a key once: to the hierarchy's own store, to a node's
metadata, shown without their declaration, or to a manifest's reference.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import ManifestError
from zarr_manifest.hierarchy.known_nodes import KnownNodes
from zarr_manifest.hierarchy.listing import list_chunks_below, list_dir, list_prefix
from zarr_manifest.hierarchy.node_table import Chunk, Metadata, Native
from zarr_manifest.sources import import_meanwhile, in_own_loop
from zarr_manifest.stores import requested_range, slice_of
from zarr_manifest.zarr_internals import StoreOnStore

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest


class ReadableStore(StoreOnStore):
    """A hierarchy of manifest arrays and native arrays, as zarr reads it."""

    @property
    @abstractmethod
    def _nodes(self) -> KnownNodes:
        """What is known of the nodes."""

    # In the store of one array: the store that zarr opened it from.
    _opener: Any = None

    # Whether all members of a group with copies are shown as they are at the same time.
    _shows_one_state = True

    _is_on_disk: bool
    """Whether the hierarchy is on this machine, so that no request takes time."""

    _readable: Store
    """The hierarchy's own store, which reads and changes nothing outside its directory."""

    @property
    def _synchronous(self) -> Any:
        """The same store with methods that ``Store`` does not declare."""
        return self._readable

    # Values ------------------------------------------------------------------

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or the bytes that its manifest refers to."""
        prototype = default_buffer_prototype() if prototype is None else prototype
        nodes = self._nodes
        route = nodes.route(key)
        if route is None:
            route = await nodes.find_route(key)
        if isinstance(route, Native):
            found = await self._readable.get(key, prototype, byte_range)
            if found is not None:
                return found
            route = await nodes.route_of_absent(key)
        if isinstance(route, Chunk):
            body = await route.array.get(route.index, requested_range(byte_range))
            return None if body is None else prototype.buffer.from_bytes(body)
        if isinstance(route, Native):
            return None
        if not self._is_on_disk:
            import_meanwhile()
        metadata = await self._readable.get(key, prototype)
        # What zarr is shown now belongs to no array that is open.
        nodes = nodes if self._opener is None else self._opener._nodes
        if self._shows_one_state and nodes.has_copies:
            stored = None if metadata is None else metadata.to_bytes()
            own = await nodes.of_one_state(route.path, stored)
            if own is not stored:
                metadata = None if own is None else prototype.buffer.from_bytes(own)
        return _reveal(nodes, route.path, metadata, prototype, byte_range)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, without an event loop if it is of a known native array.

        That is what zarr's synchronous pipelines read; for others, an event loop is started.
        """
        prototype = default_buffer_prototype() if prototype is None else prototype
        if self._nodes.is_native(key):
            found: Buffer | None = self._synchronous.get_sync(
                key, prototype=prototype, byte_range=byte_range
            )
            if found is not None or self._nodes.is_certainly_absent(key):
                return found
        return in_own_loop(self.get(key, prototype, byte_range))

    async def get_ranges(
        self,
        key: str,
        byte_ranges: Sequence[ByteRequest | None],
        *,
        prototype: BufferPrototype,
        **options: Any,
    ) -> AsyncIterator[Sequence[tuple[int, Buffer | None]]]:
        """Yield many ranges of one value, merged by zarr.

        Errors are raised directly, not in a group.
        """
        refused: BaseExceptionGroup[ManifestError] | None = None
        try:
            async for group in super().get_ranges(key, byte_ranges, prototype=prototype, **options):
                yield group
        except BaseExceptionGroup as error:
            refused = error.subgroup(ManifestError)
            if refused is None:
                raise
        if refused is not None:
            raise refused.exceptions[0]

    async def exists(self, key: str) -> bool:
        """Whether a key has a value, or the manifest names the chunk. Reads no source."""
        route = await self._nodes.find_route(key)
        if isinstance(route, Metadata) and self._nodes.remembered.changes:
            return await self._nodes.metadata(route.path) is not None
        if not isinstance(route, Chunk):
            if await self._readable.exists(key):
                return True
            if isinstance(route, Native):
                route = await self._nodes.route_of_absent(key)
        return isinstance(route, Chunk) and await route.array.row_of(route.index) is not None

    async def getsize(self, key: str) -> int:
        """Return the stored size of a value, in bytes."""
        route = await self._nodes.find_route(key)
        if isinstance(route, Metadata) and self._nodes.remembered.changes:
            metadata = await self._nodes.metadata(route.path)
            if metadata is None:
                raise FileNotFoundError(key)
            return len(metadata)
        if not isinstance(route, Chunk):
            try:
                return await self._readable.getsize(key)
            except FileNotFoundError:
                if isinstance(route, Native):
                    route = await self._nodes.route_of_absent(key)
                if not isinstance(route, Chunk):
                    raise
        size = await route.array.size(route.index)
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the number of bytes below a prefix, including those that manifests refer to."""
        native = await self._readable.getsize_prefix(prefix)
        keys, arrays = await list_chunks_below(self._readable, self._nodes, prefix)
        sizes = (*(self.getsize(key) for key in keys), *(array.total_size() for array in arrays))
        return native + sum(await asyncio.gather(*sizes))

    # Listing -----------------------------------------------------------------

    async def is_empty(self, prefix: str) -> bool:
        """Whether there are no keys below a prefix."""
        async with aclosing(list_dir(self._readable, self._nodes, prefix)) as names:
            return await anext(names, None) is None

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield all keys below a prefix, including chunks of manifest arrays."""
        return list_prefix(self._readable, self._nodes, prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of keys and directories directly below a prefix."""
        return list_dir(self._readable, self._nodes, prefix)


def _reveal(
    known: KnownNodes,
    path: str,
    metadata: Buffer | None,
    prototype: BufferPrototype,
    byte_range: ByteRequest | None,
) -> Buffer | None:
    """Return a node's ``zarr.json``, or part of it, as zarr is to see it; None if there is none.

    Raises
    ------
    ManifestError
        As of :meth:`KnownNodes.reveal`.
    """
    stored = None if metadata is None else metadata.to_bytes()
    changes = known.remembered.changes
    counts = changes.counting(path, stored) if changes else stored
    if counts is None:
        known.note_missing(path)
        return None
    shown = known.reveal(path, counts)
    if byte_range is not None:
        shown = shown[slice_of(byte_range, len(shown))]
    elif shown is stored:
        return metadata
    return prototype.buffer.from_bytes(shown)
