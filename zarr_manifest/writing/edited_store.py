"""The store of a hierarchy that is being edited: it keeps what is written until the commit.

Metadata stay in memory. A chunk that is written becomes an object that is named by its digest,
which nothing refers to yet, or stays in memory if it is small. So nothing is ever written where
another writer or a reader looks: a native array whose chunks change gets a manifest, which refers
to the chunks that stay.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import Advice, ReadOnlyError, Setting
from zarr_manifest.format import (
    METADATA_NAMES,
    MOST_NAMES,
    TRANSFORMER_NAME,
    ArrayMetadata,
    ChunkGrid,
    Configuration,
    Partitions,
    collect,
    compute_checksum,
    consolidated_members,
    declaration_of,
    declare,
    dump_node,
    format_canonical,
    has_consolidated,
    interpret_declaration,
    join,
    likely_owner,
    node_of_metadata,
    number_chunks,
    parse_node,
    with_members,
    without_copies,
)
from zarr_manifest.hierarchy import (
    ChunkManifestTransformer,
    InspectedHierarchy,
    LoadedManifest,
    ManifestDocuments,
    ManifestStore,
    Node,
)
from zarr_manifest.locations import Location, StoreLocation
from zarr_manifest.showing import counted
from zarr_manifest.writing.conditional_put import GuardedStore
from zarr_manifest.writing.edits import (
    SMALL_CHUNK,
    ChunkPlace,
    Edited,
    Edits,
    Index,
    StagedStore,
    WrittenChunk,
    chunk_name,
    coordinates_of,
    is_native,
)
from zarr_manifest.writing.given_entries import interpret_entries

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer


class _EditedManifest(ManifestDocuments):
    """The manifest of an array in which chunks that were edited have their new entries.

    Parameters
    ----------
    stored : ManifestDocuments
        The manifest as it is stored.
    edits : Edits
        What is to change.
    """

    def __init__(self, stored: ManifestDocuments, edits: Edits) -> None:
        vars(self).update(vars(stored), _edits=edits)

    _edits: Edits

    @property
    def _edited(self) -> Mapping[Index, Edited]:
        return self._edits.entries.get(self.array.path, {})

    def known(self, index: Index) -> LoadedManifest | None:
        """Return the document that is responsible for a chunk if it is loaded, and authorised."""
        return None if index in self._edited else super().known(index)

    async def owner(self, index: Index) -> LoadedManifest:
        """Return the document that is responsible for a chunk."""
        return self._only([index]) if index in self._edited else await super().owner(index)

    async def every(self) -> AsyncIterator[LoadedManifest]:
        """Yield all documents, and in the end one of all chunks that were edited."""
        indices = np.array(list(self._edited), np.int64).reshape(-1, self.array.ndim)
        edited = number_chunks(indices, self.array.chunk_grid.counts)
        async for loaded in super().every():
            yield LoadedManifest(loaded.manifest.without_chunks(edited), loaded.locations)
        yield self._only(self._edited)

    def _only(self, chunks: Iterable[Index]) -> LoadedManifest:
        """Return a document of nothing but the entries of edited chunks."""
        array = self.array
        given: dict[Index, Mapping[str, Any]] = {}
        own: dict[str, Location] = {}
        for index in filter(array.chunk_grid.contains, chunks):
            entry = self._edited[index]
            if isinstance(entry, WrittenChunk):
                own[name := f"./{quote(entry.key)}"] = StoreLocation(entry.key)
                given[index] = entry.entry(name)
            elif entry is not None:
                given[index] = entry
        manifest = interpret_entries(array, given)
        return LoadedManifest(
            manifest, tuple([own.get(path) or array.base.resolve(path) for path in manifest.paths])
        )


class EditedStore(ManifestStore):
    """A hierarchy as it will be once an edit is committed.

    Parameters
    ----------
    location
        As of :class:`ManifestStore`.
    edits : Edits
        What is to change, to be added to.
    own : GuardedStore
        The hierarchy's own store.
    hierarchy : InspectedHierarchy
        The hierarchy, as it is.
    chunks_in : ChunkPlace, optional
        Where chunks are put that are written; by default beside the array.
    **settings
        As of :class:`ManifestStore`.
    """

    # The commit finds out what others have changed meanwhile.
    _shows_one_state = False

    def __init__(
        self,
        location: Any,
        edits: Edits,
        own: GuardedStore,
        hierarchy: InspectedHierarchy,
        *,
        chunks_in: ChunkPlace | None = None,
        **settings: Any,
    ) -> None:
        self._edits = edits
        self._own = own
        self._hierarchy = hierarchy
        self._chunks_in = chunks_in
        self._is_read_only = False
        super().__init__(location, **settings)

    def _of_array(self, path: str, metadata: Any) -> Any:
        """Return this store: arrays become what is written."""
        return self

    def _seen(self, inside: Store) -> Store:
        self._staged = StagedStore(inside, self._edits)
        return self._staged

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a hierarchy that is being edited cannot be sent to another process: what is written "
            "there would be lost. Write from threads, or write native arrays without editing."
        )

    @property
    def underneath(self) -> Store:
        """Refuse: what is written there would not be a part of the edit, and what is read, old.

        Raises
        ------
        TypeError
        """
        raise TypeError(
            "this hierarchy is being edited: change it through the group that edit() has given, "
            "and entries(array); or do it before or after the edit"
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

    def _transformer(
        self, path: str, metadata: dict[str, Any], configuration: Configuration
    ) -> ChunkManifestTransformer:
        array = super()._transformer(path, metadata, configuration)
        array.manifest = _EditedManifest(array.manifest, self._edits)
        return array

    async def owner_of_chunk(self, key: str) -> ChunkManifestTransformer | None:
        """Return the manifest array that a chunk belongs to, if it can be read in bulk."""
        array = await super().owner_of_chunk(key)
        return None if array is None or self._edits.entries.get(array.array_path) else array

    # Writing ------------------------------------------------------------------------

    def edited(self, path: str) -> Mapping[Index, Edited]:
        """Return the entries of an array that change."""
        return self._edits.entries.get(path, {})

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
        name = key.rpartition("/")[2]
        path = node_of_metadata(key)
        if path is not None:
            await self._set_node(path, value)
        elif name in METADATA_NAMES:
            raise ReadOnlyError(
                "nodes of Zarr v2 cannot be edited",
                location=key,
                remedy="Write them with zarr alone, without a ManifestStore.",
            )
        else:
            array, index = await self._chunk(key)
            await self.set_entry(
                array.array_path, index, await self._stored(array, value.to_bytes())
            )

    async def _set_node(self, path: str, value: Buffer) -> None:
        """Keep metadata as zarr writes them, which was shown neither declarations nor copies."""
        node = parse_node(value.to_bytes()) or {}
        there = await self._staged_node(path)
        if is_native(node) and (there is None or there.get("node_type") != "array"):
            self._edits.created.add(path)
            self._edits.entries[path] = {}
            node = _with_entries(node, {})
        elif is_native(node):
            if is_native(there) and _is_resized(node, there or {}):
                await self._adopt(path)
                there = await self._staged_node(path)
            stored, new = ArrayMetadata("", there or {}), ArrayMetadata("", node)
            if stored.declaration:
                declare(new, _resized_declaration(path, stored, new))
        elif node.get("node_type") == "group":
            self._edits.consolidates |= not path and has_consolidated(node)
            node = without_copies(node)
            if there is not None and has_consolidated(there):
                node = with_members(node, consolidated_members(there))
        await self._stage(path, node)

    async def _staged_node(self, path: str) -> dict[str, Any] | None:
        body = await self._staged.document(path)
        return None if body is None else parse_node(body)

    async def _stage(self, path: str, node: dict[str, Any]) -> None:
        """Keep the metadata of a node for the commit."""
        body = dump_node(node)
        value = default_buffer_prototype().buffer.from_bytes(body)
        await self._staged.set(join(path, "zarr.json"), value)
        self._nodes.written(path, body)

    async def _chunk(self, key: str) -> tuple[ChunkManifestTransformer, Index]:
        """Return the array and the index of a chunk that is written.

        Raises
        ------
        ReadOnlyError
            It is no chunk of an array.
        """
        owner = await self._nodes.owner(key)
        if owner is None:
            await self._adopt(likely_owner(key))
            owner = await self._nodes.owner(key)
        if owner is None:
            raise ReadOnlyError(
                "this is neither a node nor a chunk of an array, and cannot be edited",
                location=key,
                remedy="Write it without editing the hierarchy.",
            )
        return owner.array, owner.index

    async def _adopt(self, path: str) -> None:
        """Let a native array have a manifest, which refers to its own chunks."""
        staged = await self._staged_node(path)
        first = await self._staged.first(path)
        node = None if first is None else parse_node(first)
        if node is None or staged is None or not (is_native(staged) and is_native(node)):
            return
        grid = ChunkGrid.from_metadata(node)
        if grid is None:
            raise ReadOnlyError(
                "an array with this chunk grid cannot be edited",
                array=path,
                remedy="Write it without editing the hierarchy.",
            )
        found = await self._hierarchy.native_chunks(Node(path, metadata=node, is_own=True), grid)
        below = len(path) + 1 if path else 0
        entries = {
            format_canonical(index): {"path": f"./{quote(key[below:])}"}
            for index, key in sorted(found.items())
        }
        self._edits.adopted[path] = _with_entries(node, entries)
        self._edits.entries.setdefault(path, {})
        await self._stage(path, _with_entries(staged, entries))

    async def _remember(self, path: str) -> None:
        """Remember the metadata of an array whose chunks are edited, to notice other writers."""
        body = await self._staged.first(path)
        if path not in self._edits.entries and body is not None:
            for coordinate in coordinates_of(path, parse_node(body) or {}):
                await self._staged.first(coordinate)

    async def _stored(self, array: ChunkManifestTransformer, body: bytes) -> Edited:
        """Store a chunk, and return what its entry will be."""
        checksum = compute_checksum("sha256", body)
        if len(body) <= SMALL_CHUNK:
            return {"data": base64.b64encode(body).decode(), "checksum": checksum}
        name = chunk_name(checksum)
        place = self._chunks_in
        key = join(array.array_path, f"chunks/{name}") if place is None else name
        # Also if it is there: so it is young, and not cleaned away before the commit.
        store = self._own if place is None else place.store
        await asyncio.to_thread(store.put, key, body)
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
        """Remove a value at the commit; a chunk of an array becomes explicitly empty."""
        self._require_open()
        path = node_of_metadata(key)
        if path is not None:
            await self._readable.delete(key)
            self._nodes.deleted(path)
        elif key.rpartition("/")[2] not in METADATA_NAMES and await self.exists(key):
            array, index = await self._chunk(key)
            await self.set_entry(array.array_path, index, {})

    def delete_sync(self, key: str) -> None:
        """Refuse: values are kept in the event loop."""
        raise NotImplementedError

    async def delete_dir(self, prefix: str) -> None:
        """Remove nodes at the commit."""
        self._require_open()
        path = prefix.rstrip("/")
        await self._staged.remove_below(path)
        self._nodes.deleted_below(path)


def _with_entries(node: dict[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of an array with a manifest of these entries."""
    declared = ArrayMetadata("", dict(node))
    configuration = {"manifest": entries}
    declare(declared, declaration_of([{"name": TRANSFORMER_NAME, "configuration": configuration}]))
    return declared.metadata


def _is_resized(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return any(one.get(name) != other.get(name) for name in ("shape", "chunk_grid"))


def _resized_declaration(path: str, stored: ArrayMetadata, new: ArrayMetadata) -> dict[str, Any]:
    """Return the members that declare the manifest in new metadata of an array.

    That all partitions have a document is not true of a larger grid. In a smaller one, documents
    outside are kept, to be read again if the array grows back: so the names of all take the
    place of ``"all"``.
    """
    declared = stored.declaration
    if all(stored.metadata.get(name) == new.metadata.get(name) for name in ("shape", "chunk_grid")):
        return declared
    configuration, problems = collect(interpret_declaration(stored.metadata))
    if configuration is None or problems or configuration.partitions != "all":
        return declared
    shape = configuration.partition_shape or ()
    before, after = _partitions(stored, shape), _partitions(new, shape)
    if before is None or after is None or before.counts == after.counts:
        return declared
    if before.total > MOST_NAMES:
        raise ReadOnlyError(
            f"the array cannot be resized: its manifest has {counted(before.total, 'partition')}, "
            f"which would have to be named one by one; the limit is {MOST_NAMES:,}",
            array=path,
            remedy=Advice("Write the manifest with a larger ", Setting("partition_shape"), "."),
        )
    names = [format_canonical(index) for index in before]
    return stored.declaration_with({"partitions": names})


def _partitions(array: ArrayMetadata, shape: tuple[int, ...]) -> Partitions | None:
    grid = ChunkGrid.from_metadata(array.metadata)
    if grid is None or len(shape) != len(grid.counts):
        return None  # the array cannot be read
    return Partitions(grid.counts, shape)
