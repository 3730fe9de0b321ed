"""The store of a hierarchy that is being edited: it keeps what is written until the commit.

Metadata stay in memory. A chunk that is written to a manifest array becomes an object that is named
by its digest, which nothing refers to yet, or stays in memory if it is small. Chunks of native
arrays are written only where no reader looks: of new arrays, or beyond the present shape.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import Advice, ReadOnlyError, Setting, WriteConflictError
from zarr_manifest.format import (
    METADATA_NAMES,
    ArrayMetadata,
    ChunkGrid,
    Configuration,
    consolidated_members,
    dump_node,
    format_canonical,
    has_consolidated,
    join,
    likely_owner,
    node_of_metadata,
    parse_node,
    with_members,
    without_copies,
)
from zarr_manifest.hierarchy import (
    ChunkKeyEncoding,
    ChunkManifestTransformer,
    DeclaredArray,
    ManifestStore,
    list_nodes,
)
from zarr_manifest.stores import OwnStore, can_list, requested_range, slice_of

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest

# Chunks of at most so many bytes are written into the manifest: an object takes a request.
_SMALL_CHUNK = 512

type Index = tuple[int, ...]


class WrittenChunk(Struct, frozen=True):
    """A chunk that was written as an object in the hierarchy's store.

    Parameters
    ----------
    key : str
        Key of the object.
    length : int
        Its number of bytes.
    checksum : str
        Their checksum.
    """

    key: str
    length: int
    checksum: str

    def entry(self, path: str) -> dict[str, Any]:
        """Return the entry that refers to it by a path."""
        return {"path": path, "length": self.length, "checksum": self.checksum}


# An entry as in a manifest, or what will be one; None if the chunk is missing.
type Edited = Mapping[str, Any] | WrittenChunk | None


@dataclass(slots=True)
class Edits:
    """What is to change in a hierarchy.

    Parameters
    ----------
    before : dict of str to (bytes or None)
        By path, the ``zarr.json`` of nodes as first seen; None where there was none.
    after : dict of str to (bytes or None)
        By path, their new metadata; None if the node is removed.
    entries : dict of str to dict
        By path of an array, the entries of chunks that change.
    native : set of str
        Keys of the native chunks that were written.
    """

    before: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    after: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    entries: dict[str, dict[Index, Edited]] = field(default_factory=dict[str, dict[Index, Edited]])
    native: set[str] = field(default_factory=set[str])
    has_ended: bool = False

    def removed_natives(self) -> list[str]:
        """Return the paths of native arrays that are removed, whose chunks have no use then."""
        return [
            path
            for path, body in self.after.items()
            if body is None and _native_chunks(path, self.before.get(path) or b"{}") is not None
        ]


class StagedStore(OwnStore):
    """A hierarchy's own store, with metadata that are not written yet.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    edits : Edits
        What is to change, to be added to.
    """

    def __init__(self, store: Store, edits: Edits) -> None:
        super().__init__(store)
        self._edits = edits
        self._natives: dict[str, _NativeChunks | None] = {}

    # Metadata -----------------------------------------------------------------------

    async def _first(self, path: str) -> bytes | None:
        """Return the ``zarr.json`` of a node as it was before the edit, and remember it."""
        if path not in self._edits.before:
            found = await self._store.get(join(path, "zarr.json"), default_buffer_prototype())
            self._edits.before.setdefault(path, None if found is None else found.to_bytes())
        return self._edits.before[path]

    async def _document(self, path: str) -> bytes | None:
        """Return the ``zarr.json`` of a node as it is to be."""
        after = self._edits.after
        body = after[path] if path in after else await self._first(path)
        node = None if body is None or not after else parse_node(body)
        if node is None or not has_consolidated(node):
            return body
        below = f"{path}/" if path else ""
        members = consolidated_members(node)
        for changed, document in after.items():
            if changed == path or not changed.startswith(below):
                continue
            member = changed.removeprefix(below)
            if document is None:
                members.pop(member, None)
            else:
                members[member] = without_copies(parse_node(document) or {})
        return dump_node(with_members(node, members))

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or part of it."""
        path = node_of_metadata(key)
        if path is None:
            return await super().get(key, prototype, byte_range)
        prototype = default_buffer_prototype() if prototype is None else prototype
        body = await self._document(path)
        if body is None:
            return None
        part = slice(None) if byte_range is None else slice_of(byte_range, len(body))
        return prototype.buffer.from_bytes(body[part])

    async def exists(self, key: str) -> bool:
        """Whether a key has a value."""
        path = node_of_metadata(key)
        if path is None:
            return await super().exists(key)
        return await self._document(path) is not None

    async def getsize(self, key: str) -> int:
        """Return the size of a value, in bytes."""
        path = node_of_metadata(key)
        if path is None:
            return await super().getsize(key)
        body = await self._document(path)
        if body is None:
            raise FileNotFoundError(key)
        return len(body)

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix."""
        staged = {join(path, "zarr.json"): body for path, body in self._edits.after.items()}
        async for key in super().list_prefix(prefix):
            if key not in staged:
                yield key
        for key, body in staged.items():
            if body is not None and key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of keys and directories directly below a prefix."""
        path = prefix.rstrip("/")
        after, below = self._edits.after, f"{path}/" if path else ""
        removed = {each for each, body in after.items() if body is None}
        there = {
            each.removeprefix(below).partition("/")[0]
            for each, body in after.items()
            if body is not None and each.startswith(below) and each != path
        }
        async for name in super().list_dir(prefix):
            if join(path, name) not in removed and name not in there:
                yield name
        for name in sorted(there):
            yield name

    # Changing -----------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Keep metadata for the commit, or write a native chunk where no reader looks."""
        path = node_of_metadata(key)
        if path is not None:
            before = await self._first(path)
            if before is None and path not in self._edits.after:
                await self._require_free(path, value.to_bytes())
            self._edits.after[path] = value.to_bytes()
            return
        if key.rpartition("/")[2] in METADATA_NAMES:
            raise ReadOnlyError(
                "nodes of Zarr v2 cannot be edited",
                location=key,
                remedy="Write them without editing the hierarchy.",
            )
        await self._require_unread(key)
        self._edits.native.add(key)
        await super().set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write the value of a key unless it has one."""
        if not await self.exists(key):
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove a node at the commit, or a native chunk where no reader looks."""
        path = node_of_metadata(key)
        if path is not None:
            if await self._first(path) is None:
                self._edits.after.pop(path, None)
            else:
                self._edits.after[path] = None
            return
        if key.rpartition("/")[2] in METADATA_NAMES or not await super().exists(key):
            return
        await self._require_unread(key)
        self._edits.native.discard(key)
        await super().delete(key)

    async def remove_below(self, path: str) -> None:
        """Remove a node, and those below it, at the commit."""
        below = f"{path}/" if path else ""
        nodes = {node.path for node in await list_nodes(self._store)} | self._edits.after.keys()
        for node in sorted(nodes):
            if node == path or node.startswith(below):
                await self.delete(join(node, "zarr.json"))
        for key in sorted(self._edits.native):
            if key.startswith(below):
                await self.delete(key)

    # Native chunks ------------------------------------------------------------------

    async def _require_unread(self, key: str) -> None:
        """Refuse to change a native chunk that readers may read already."""
        path = likely_owner(key)
        if path not in self._natives:
            body = await self._first(path)
            self._natives[path] = None if body is None else _native_chunks(path, body)
        chunks = self._natives[path]
        index = None if chunks is None else chunks.index_of(key)
        if chunks is not None and index is not None and chunks.grid.contains(index):
            raise ReadOnlyError(
                "readers see this chunk of a native array already, so that it cannot be replaced "
                "as a part of a whole change",
                array=path,
                chunk=format_canonical(index),
                remedy="Write it without editing the hierarchy; or append in whole chunks.",
            )

    async def _require_free(self, path: str, body: bytes) -> None:
        """Refuse a new native array in whose place there are chunks of another."""
        chunks = _native_chunks(path, body)
        if chunks is None or not can_list(self._store):
            return
        async for key in super().list_prefix(f"{path}/" if path else ""):
            if key not in self._edits.native and chunks.index_of(key) is not None:
                raise WriteConflictError(
                    "there is no array at this path, but objects with the names of its chunks",
                    array=path,
                    location=key,
                    remedy="Remove them, or choose another path.",
                )


@dataclass(frozen=True, slots=True)
class _NativeChunks:
    """Keys of the chunks of a native array."""

    path: str
    grid: ChunkGrid
    encoding: ChunkKeyEncoding

    def index_of(self, key: str) -> Index | None:
        below = f"{self.path}/" if self.path else ""
        return self.encoding.decode(key[len(below) :]) if key.startswith(below) else None


def _native_chunks(path: str, body: bytes) -> _NativeChunks | None:
    node = parse_node(body) or {}
    if node.get("node_type") != "array" or ArrayMetadata("", node).declaration:
        return None
    grid = ChunkGrid.from_metadata(node)
    if grid is None:
        return None
    encoding = ChunkKeyEncoding(node, len(grid.counts))
    encoding.learn(grid)
    return _NativeChunks(path, grid, encoding)


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where chunks are put that hierarchies share.

    Parameters
    ----------
    store : Store
        The place.
    url : str
        Its URL, without a slash at the end.
    """

    store: Store
    url: str


class EditedStore(ManifestStore):
    """A hierarchy as it will be once an edit is committed.

    Parameters
    ----------
    location
        As of :class:`ManifestStore`.
    edits : Edits
        What is to change, to be added to.
    chunks_in : Store, optional
        Where chunks are put that are written; by default beside the array.
    **settings
        As of :class:`ManifestStore`.
    """

    def __init__(
        self, location: Any, edits: Edits, *, chunks_in: ChunkPlace | None = None, **settings: Any
    ) -> None:
        self._edits = edits
        self._chunks_in = chunks_in
        self._is_read_only = False
        super().__init__(location, **settings)

    _may_grow = True

    def _seen(self, inside: Store) -> Store:
        self._inside = inside
        return StagedStore(inside, self._edits)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a hierarchy that is being edited cannot be sent to another process: what is written "
            "there would be lost. Write from threads, or write native arrays without editing."
        )

    def with_read_only(self, read_only: bool = False) -> Any:
        """Return the same hierarchy, with the same changes, read-only or writable."""
        twin = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(twin, name, value)
        twin._is_read_only = read_only
        return twin

    @property
    def read_only(self) -> bool:
        """Whether the store is read-only."""
        return self._is_read_only or super().read_only

    @property
    def _supports_sync_io(self) -> bool:
        return False

    # Reading ------------------------------------------------------------------------

    async def _edited(self, key: str) -> tuple[ChunkManifestTransformer, Index] | None:
        """Return the array and the index of a chunk that was edited; None for others."""
        if not self._edits.entries:
            return None
        owner = await self._nodes.owner(key)
        edited = {} if owner is None else self._edits.entries.get(owner.array.array_path, {})
        return (owner.array, owner.index) if owner is not None and owner.index in edited else None

    def _alone(self, array: ChunkManifestTransformer, index: Index) -> ChunkManifestTransformer:
        """Return an array whose manifest has nothing but the entry of an edited chunk."""
        entry = self._edits.entries[array.array_path][index]
        base = array.declared.configuration.base
        if isinstance(entry, WrittenChunk):
            name = entry.key.removeprefix(f"{array.array_path}/")
            base, entry = "./", entry.entry(f"./{quote(name)}")
        manifest = {} if entry is None else {format_canonical(index): entry}
        configuration = Configuration(json.dumps(manifest).encode(), base)
        return self._transformer(array.array_path, array.metadata, configuration)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, as it is to be."""
        found = await self._edited(key)
        if found is None:
            return await super().get(key, prototype, byte_range)
        array, index = found
        body = await self._alone(array, index).get(index, requested_range(byte_range))
        prototype = default_buffer_prototype() if prototype is None else prototype
        return None if body is None else prototype.buffer.from_bytes(body)

    async def exists(self, key: str) -> bool:
        """Whether a key has a value, as it is to be."""
        found = await self._edited(key)
        if found is None:
            return await super().exists(key)
        return self._edits.entries[found[0].array_path][found[1]] is not None

    async def getsize(self, key: str) -> int:
        """Return the stored size of a value, in bytes."""
        found = await self._edited(key)
        if found is None:
            return await super().getsize(key)
        size = await self._alone(*found).size(found[1])
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield all keys below a prefix, including chunks of manifest arrays."""
        edited: dict[str, bool] = {}
        for path, entries in self._edits.entries.items():
            array = await self._nodes.array_at(path)
            if array is not None:
                edited |= {
                    join(path, array.key_of(index)): entry is not None
                    for index, entry in entries.items()
                }
        async for key in super().list_prefix(prefix):
            if key not in edited:
                yield key
        for key, is_there in edited.items():
            if is_there and key.startswith(prefix):
                yield key

    async def owner_of_chunk(self, key: str) -> ChunkManifestTransformer | None:
        """Return the manifest array that a chunk belongs to, if it can be read in bulk."""
        array = await super().owner_of_chunk(key)
        return None if array is None or array.array_path in self._edits.entries else array

    # Writing ------------------------------------------------------------------------

    async def declared(self, path: str) -> DeclaredArray | None:
        """Return an array with its declaration; None if it has none."""
        array = await self._nodes.array_at(path)
        return None if array is None or array.array_path != path else array.declared

    async def set_entry(self, path: str, index: Index, entry: Edited) -> None:
        """Keep the entry of a chunk for the commit."""
        self._require_open()
        await self._remember(path)
        self._edits.entries.setdefault(path, {})[index] = entry

    def _require_open(self) -> None:
        if self._edits.has_ended:
            raise ReadOnlyError(
                "the edit of this hierarchy has ended",
                remedy=Advice("Begin another: ", Setting("edit", python="zm.edit(...)"), "."),
            )

    async def set(self, key: str, value: Buffer) -> None:
        """Keep a value for the commit."""
        self._require_open()
        owner = None if key.rpartition("/")[2] in METADATA_NAMES else await self._nodes.owner(key)
        if owner is None:
            await super().set(key, value)
            return
        body = value.to_bytes()
        entry = await self._stored(owner.array, body)
        await self.set_entry(owner.array.array_path, owner.index, entry)

    async def _remember(self, path: str) -> None:
        """Remember the metadata of an array whose chunks are edited, to notice other writers."""
        await self._readable.get(join(path, "zarr.json"), default_buffer_prototype())

    async def _stored(self, array: ChunkManifestTransformer, body: bytes) -> Edited:
        """Store a chunk, and return what its entry will be."""
        digest = hashlib.sha256(body).hexdigest()
        checksum = f"sha256:{digest}"
        if len(body) <= _SMALL_CHUNK:
            return {"data": base64.b64encode(body).decode(), "checksum": checksum}
        name = f"sha256/{digest[:2]}/{digest}"
        place = self._chunks_in
        key = join(array.array_path, f"chunks/{name}") if place is None else name
        # Also if it is there: so it is young, and not cleaned away before the commit.
        store = self._inside if place is None else place.store
        await store.set(key, default_buffer_prototype().buffer.from_bytes(body))
        chunk = WrittenChunk(key, len(body), checksum)
        return chunk if place is None else chunk.entry(f"{place.url}/{name}")

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Keep a value for the commit unless its key has one."""
        if not await self.exists(key):
            await self.set(key, value)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Refuse: values are kept in the event loop."""
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        """Remove a value at the commit; a chunk of a manifest array becomes explicitly empty."""
        self._require_open()
        owner = None if key.rpartition("/")[2] in METADATA_NAMES else await self._nodes.owner(key)
        if owner is None:
            await self._readable.delete(key)
            path = node_of_metadata(key)
            if path is not None:
                self._nodes.deleted(path)
            return
        await self.set_entry(owner.array.array_path, owner.index, {})

    def delete_sync(self, key: str) -> None:
        """Refuse: values are kept in the event loop."""
        raise NotImplementedError

    async def delete_dir(self, prefix: str) -> None:
        """Remove nodes at the commit."""
        self._require_open()
        path = prefix.rstrip("/")
        staged = self._readable
        assert isinstance(staged, StagedStore)
        await staged.remove_below(path)
        below = f"{path}/" if path else ""
        for edited in [p for p in self._edits.entries if p == path or p.startswith(below)]:
            del self._edits.entries[edited]
        self._nodes.deleted_below(path)
