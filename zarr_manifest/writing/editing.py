"""Editing: many writes to a hierarchy that become one change, or none.

Arrays are written as zarr writes any other: the store keeps what is written
(:mod:`zarr_manifest.writing.edited_store`), and at the end new manifests refer to the new chunks,
by one commit, which is made again if others have changed something else meanwhile.

Chunks are identified by their positions. So an edit is refused not only if another writer has
changed the same chunk, but also if chunks may have moved, as the first ones are removed.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zarr
from msgspec import structs

from zarr_manifest.errors import ManifestError, WriteConflictError, in_context
from zarr_manifest.format import (
    ArrayMetadata,
    declare,
    format_canonical,
    join,
    parse_node,
    strict,
)
from zarr_manifest.hierarchy import (
    CONCURRENCY,
    DeclaredArray,
    InspectedHierarchy,
    LoadedManifest,
    Node,
    no_hierarchy,
)
from zarr_manifest.locations import Location
from zarr_manifest.manifest import Row
from zarr_manifest.sources import Allow, access_by_prefix, in_order
from zarr_manifest.stores import OwnKeys, StoreLike, can_list, inside_store, list_own
from zarr_manifest.writing.commit import Change
from zarr_manifest.writing.conditional_put import GuardedStore, guarded_store, repeatedly
from zarr_manifest.writing.edited_store import EditedStore
from zarr_manifest.writing.edits import Edits, Index, chunk_place, coordinates_of, is_native
from zarr_manifest.writing.finishing import uncopied
from zarr_manifest.writing.rewriting import Rewriting
from zarr_manifest.zarr_internals import sync

# Its annotations name types of packages that may not be installed.
_untyped_zarr: Any = zarr

# Of a large document, so many references are looked for.
_MOST_CANDIDATES = 64


@contextmanager
def edit(
    location: StoreLike,
    *,
    allow: Allow = None,
    chunks_in: StoreLike | None = None,
    sole_writer: bool = False,
) -> Generator[Any]:
    """Edit a hierarchy: all that is written in the block becomes one change at its end.

    Arrays are read and written as zarr does; xarray writes into ``root.store``. A chunk that is
    written becomes an object that is named by its digest, or a part of the manifest if it is
    small; sources are never changed. If the block raises, nothing changes. Readers see the
    hierarchy as it was or as it is at the end.

    Consolidated metadata follow. ``zarr.consolidate_metadata(root.store)`` adds them to the root,
    or makes all of them anew.

    New arrays have a manifest. So has a native array afterwards whose chunks or shape change: it
    refers to its own chunks, which stay, because an object that readers see cannot be replaced as
    a part of one change.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    allow : mapping of str to Access, or iterable of str, optional
        URL prefixes that may be read, and how, as for :class:`ManifestStore`.
    chunks_in : str, Path, obstore store or zarr Store, optional
        Where chunks that are written are put instead of beside their array, to be shared by
        several hierarchies. It must have a URL, and readers must allow it.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.

    Yields
    ------
    zarr.Group or zarr.Array
        The root of the hierarchy.

    Raises
    ------
    SourceNotFoundError
        There is no hierarchy.
    WriteConflictError
        Another writer has changed the same chunk or the same metadata in the meantime, or has
        moved chunks by removing the first ones; nothing is changed.
    ReadOnlyError
        A node of Zarr v2 would be changed, or something that is no node.
    ManifestError
        The hierarchy cannot be read or written.

    Examples
    --------
    >>> import tempfile, zarr
    >>> import zarr_manifest as zm
    >>> root = tempfile.mkdtemp()
    >>> zm.create_array(root, "a", {"0": {"data": b"1234"}}, shape=8, chunks=4, dtype="u1")
    >>> with zm.edit(root) as group:
    ...     group["a"][2:6] = 7
    >>> zarr.open_group(zm.ManifestStore(root), mode="r")["a"][:]
    array([49, 50,  7,  7,  7,  7,  0,  0], dtype=uint8)
    """
    access = dict(access_by_prefix(allow))
    guarded = guarded_store(location, access, sole_writer=sole_writer)
    own = guarded.store
    # What an interrupted writer left behind is written first.
    if Change(guarded).read("").body is None:
        raise no_hierarchy(own)
    place = None
    if chunks_in is not None:
        place, given = chunk_place(chunks_in, access, sole_writer=sole_writer)
        access.setdefault(f"{place.url}/", given)
    edits = Edits()
    hierarchy = InspectedHierarchy.open(own, allow=access)
    store = EditedStore(own, edits, guarded, hierarchy, chunks_in=place, allow=access)
    try:
        yield _untyped_zarr.open(store, mode="r+", use_consolidated=False)
        commit = _EditCommit(guarded, hierarchy, edits)
        repeatedly(commit.attempt)
    finally:
        edits.has_ended = True
    try:
        sync(commit.remove_chunks())
    except ManifestError as error:
        error.add_note("The change was made all the same; chunks of removed arrays were left.")
        raise


class _EditCommit:
    """Turns edits into one change.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    hierarchy : InspectedHierarchy
        The same hierarchy.
    edits : Edits
        What is to change.
    """

    def __init__(self, store: GuardedStore, hierarchy: InspectedHierarchy, edits: Edits) -> None:
        self._store = store
        self._hierarchy = hierarchy
        self._edits = edits

    def attempt(self, _: int) -> WriteConflictError | None:
        """Commit; return the conflict if others have changed something meanwhile.

        Raises
        ------
        WriteConflictError
            They have changed the same.
        """
        change = Change(self._store)
        self._stage(change)
        try:
            change.commit(consolidate=self._edits.consolidates)
        except WriteConflictError as error:
            if change.is_committed:
                raise  # only own metadata are behind
            return error
        return None

    def _stage(self, change: Change) -> None:
        """Say what becomes of the nodes."""
        edits = self._edits
        paths = sorted({*edits.after, *edits.entries})
        change.read_many(paths)
        for path in paths:
            before, now = edits.first(path), change.node(path)
            if path in edits.after:
                _require_same(path, before, now)
                body = edits.after[path]
                after = None if body is None else parse_node(body)
            else:
                after = now
            if after is None and path in edits.entries:
                raise _conflict(path, "removed the array")
            if after is None:
                change.remove(path)
                continue
            if path in edits.entries:
                after = self._with_entries(change, path, before, now, after)
            elif now is not None:
                after = _with_present_manifest(path, before or {}, now, after)
            change.set(path, after)

    # Removed arrays -----------------------------------------------------------------

    async def remove_chunks(self) -> None:
        """Remove the chunks of native arrays that are gone, but what manifests refer to.

        They stay in a store that cannot be listed.

        Raises
        ------
        ManifestError
            A manifest cannot be read; nothing is removed then.
        """
        if not can_list(self._store.store):
            return
        inside = inside_store(self._store.store, self._hierarchy.directories)
        removed = {
            path: keys
            for path in self._edits.removed_natives()
            if not await inside.exists(join(path, "zarr.json"))
            and (keys := set(await list_own(inside, f"{path}/" if path else "")))
        }
        if not removed:
            return
        own_keys = OwnKeys(self._store.store)
        referenced = await asyncio.to_thread(own_keys.of_all, await self._locations())
        for path, keys in removed.items():
            if referenced.isdisjoint(keys):
                await inside.delete_dir(path)
                continue
            calls = (functools.partial(inside.delete, key) for key in keys - referenced)
            async for _ in in_order(calls, CONCURRENCY):
                pass

    async def _locations(self) -> list[Location]:
        """Return what the manifests of the hierarchy refer to, and their documents."""
        found: list[Location] = []
        for node in await self._hierarchy.nodes():
            array = self._declared(node.path, node.metadata)
            if array is not None:
                documents = self._hierarchy.documents(array)
                found += array.locations(await documents.partitions())
                async for loaded in documents.every():
                    found += loaded.locations
        return found

    # Manifests ----------------------------------------------------------------------

    def _with_entries(
        self,
        change: Change,
        path: str,
        before: dict[str, Any] | None,
        now: dict[str, Any] | None,
        after: dict[str, Any],
    ) -> dict[str, Any]:
        """Return the metadata of an array with a manifest that has the edited entries."""
        edits = self._edits
        array = first = self._declared(path, after)
        if path in edits.created:
            if uncopied(before) != uncopied(now):
                raise _conflict(path, "changed the array")
        else:
            before = edits.adopted.get(path, before) or {}
            if not (path in edits.adopted and is_native(now)):
                self._require_other_chunks(change, path, before, now or {})
                if path in edits.after:
                    after = _with_present_manifest(path, before, now or {}, after)
                    array = self._declared(path, after)
            first = self._declared(path, before)
        if array is None or first is None:
            raise _conflict(path, "replaced the array by one without a manifest")
        entries = edits.entries[path]
        return Rewriting(self._store, self._hierarchy, array, after, entries, first.base).metadata()

    def _declared(self, path: str, metadata: dict[str, Any]) -> DeclaredArray | None:
        node = Node(path, metadata=metadata, is_own=True)
        with in_context(array=path):
            return strict(self._hierarchy.declaration(node))

    def _require_other_chunks(
        self, change: Change, path: str, before: dict[str, Any], now: dict[str, Any]
    ) -> None:
        """Refuse to edit chunks that another writer has changed, or may have moved."""
        if _encoding(before) != _encoding(now):
            raise _conflict(path, "changed the metadata")
        if any(n < m for n, m in zip(now["shape"], before["shape"], strict=True)):
            raise _conflict(path, "made the array smaller")
        are_others = self._are_others(change, path, now)
        is_longer = now["shape"] != before["shape"]
        if _declaration(before) == _declaration(now) and not is_longer and not are_others:
            return
        first, second = self._declared(path, before), self._declared(path, now)
        if first is None or second is None:
            raise _conflict(path, "replaced the manifest")
        old, new = self._hierarchy.documents(first), self._hierarchy.documents(second)
        grid = first.chunk_grid
        edited = [index for index in self._edits.entries[path] if grid.contains(index)]
        documents: dict[Any, tuple[LoadedManifest, LoadedManifest]] = {}
        for index in edited:
            both = sync(old.owner(index)), sync(new.owner(index))
            if _reference(both[0], index) != _reference(both[1], index):
                raise _conflict(path, "changed the same chunk", format_canonical(index))
            partitions = first.partitions
            documents[None if partitions is None else partitions.owner(index)] = both
        found = [
            _have_stayed(*both, is_whole=first.partitions is None) for both in documents.values()
        ]
        if any(found):
            return
        is_unknown = all(each is None for each in found)
        if not is_unknown or is_longer or are_others:
            raise _conflict(path, "changed the array, so that its chunks may be others")

    def _are_others(self, change: Change, path: str, node: dict[str, Any]) -> bool:
        """Whether a coordinate along one of an array's dimensions has changed."""
        for coordinate in coordinates_of(path, node):
            before = self._edits.first(coordinate)
            if uncopied(before) != uncopied(change.node(coordinate)):
                return True
        return False


def _have_stayed(old: LoadedManifest, new: LoadedManifest, *, is_whole: bool) -> bool | None:
    """Whether a reference of a document is still that of the same chunk.

    None if no reference identifies its chunk.
    """
    manifest = old.manifest
    columns = manifest.columns()
    found: bool | None = None
    step = max(1, len(manifest) // _MOST_CANDIDATES)
    indices = list(manifest.indices())
    for number in range(0, len(manifest), step):
        row = manifest.row(number)
        if row.is_empty or not (is_whole or _is_of_one_chunk(old, row)):
            continue
        if row.data is not None:
            alike = [extra.data for extra, rows in manifest.extras() for _ in rows]
            is_unique = alike.count(row.data) == 1
        else:
            same = (columns.path_numbers == row.path_number) & (columns.offsets == row.offset)
            is_unique = np.count_nonzero(same) == 1
        if is_unique:
            found = _reference(old, indices[number]) == _reference(new, indices[number])
            if found:
                return True
    return found


def _is_of_one_chunk(loaded: LoadedManifest, row: Row) -> bool:
    """Whether no other chunk of the array is likely to refer to the same bytes."""
    if row.data is not None or row.path_number < 0:
        return False
    # Equal chunks are stored once, named by their digests.
    name = str(loaded.locations[row.path_number]).rpartition("/")[2]
    return row.checksum != f"sha256:{name}"


def _reference(loaded: LoadedManifest, index: Index) -> Any:
    """Return what a document says of a chunk, whatever its base is."""
    row = loaded.manifest.get(index)
    if row is None:
        return None
    reference = structs.replace(loaded.manifest.reference(row), path=None)
    return reference, loaded.locations[row.path_number] if row.path_number >= 0 else None


def _encoding(node: dict[str, Any]) -> dict[str, Any]:
    """Return what the meaning of chunks depends on, but the shape."""
    undeclared = ArrayMetadata("", node).undeclared
    return {name: undeclared[name] for name in undeclared.keys() - {"shape", "attributes"}}


def _with_present_manifest(
    path: str, before: dict[str, Any], now: dict[str, Any], after: dict[str, Any]
) -> dict[str, Any]:
    """Return new metadata with the manifest that another writer has declared meanwhile."""
    old, new = ArrayMetadata("", before), ArrayMetadata("", now)
    if old.declaration == new.declaration:
        return after
    if ArrayMetadata("", after).declaration != old.declaration:
        raise _conflict(path, "replaced the manifest")
    declared = ArrayMetadata("", dict(after))
    declare(declared, new.declaration)
    return declared.metadata


def _require_same(path: str, before: dict[str, Any] | None, now: dict[str, Any] | None) -> None:
    """Refuse to replace metadata that another writer has changed, other than the manifest."""
    if _undeclared(before) != _undeclared(now):
        did = "removed the node" if now is None else "changed the metadata"
        raise _conflict(path, "created a node" if before is None else did)


def _undeclared(node: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if node is None else uncopied(ArrayMetadata("", node).undeclared)


def _declaration(node: dict[str, Any]) -> dict[str, Any]:
    return ArrayMetadata("", node).declaration


def _conflict(path: str, what: str, chunk: str | None = None) -> WriteConflictError:
    return WriteConflictError(
        f"since the edit began, another writer has {what}; nothing was changed",
        array=path,
        chunk=chunk,
        remedy="Check what is there now, and edit it again.",
    )
