"""Editing: many writes to a hierarchy that become one change, or none.

Arrays are written as zarr writes any other: the store keeps what is written
(:mod:`zarr_manifest.writing.edited_store`), and at the end new manifests refer to the new chunks,
by one commit. Who edits other chunks at the same time succeeds, too; of the same chunk, the later
one is refused.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from msgspec import structs
from zarr.abc.store import Store

from zarr_manifest.errors import (
    InvalidConfigurationError,
    ManifestError,
    WriteConflictError,
)
from zarr_manifest.format import (
    ArrayMetadata,
    declare,
    format_canonical,
    join,
    number_chunks,
    parse_canonical,
    parse_node,
    strict,
    without_copies,
)
from zarr_manifest.hierarchy import (
    DeclaredArray,
    InspectedHierarchy,
    LoadedManifest,
    ManifestStore,
    Node,
    Partition,
    no_hierarchy,
    store_underneath,
)
from zarr_manifest.locations import Base, Location, StoreLocation, relative_reference
from zarr_manifest.manifest import JoinedReferences, References
from zarr_manifest.sources import Allow, access_by_prefix, anonymous
from zarr_manifest.stores import open_hierarchy, store_urls
from zarr_manifest.writing.array_writer import ArrayWriter, Form
from zarr_manifest.writing.commit import Change, give_way
from zarr_manifest.writing.conditional_put import GuardedStore, guarded_store
from zarr_manifest.writing.edited_store import (
    ChunkPlace,
    Edited,
    EditedStore,
    Edits,
    Index,
    WrittenChunk,
)
from zarr_manifest.writing.entries import interpret_entries
from zarr_manifest.zarr_internals import sync

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# Its annotations name types of packages that may not be installed.
_untyped_zarr: Any = zarr


@contextmanager
def edit(
    location: str | Path | ObjectStore | Store,
    *,
    allow: Allow = None,
    chunks_in: str | Path | ObjectStore | Store | None = None,
    sole_writer: bool = False,
) -> Generator[Any]:
    """Edit a hierarchy: all that is written in the block becomes one change at its end.

    Arrays are read and written as zarr does; xarray writes into ``root.store``. A chunk that is
    written to a manifest array becomes an object that is named by its digest, or a part of the
    manifest if it is small; sources are never changed. If the block raises, nothing changes.
    Readers see the hierarchy as it was or as it is at the end.

    Chunks of native arrays that readers see already cannot be replaced as a part of one change:
    to write them is refused. New native arrays can be written, and chunks beyond the present shape.

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
        Another writer has changed the same chunk or the same metadata in the meantime; nothing
        is changed.
    ReadOnlyError
        A native chunk that readers see would be replaced.
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
    own = store_underneath(open_hierarchy(location, access))
    guarded = guarded_store(own, sole_writer=sole_writer)
    # What an interrupted writer left behind is written first.
    if Change(guarded).read("").body is None:
        raise no_hierarchy(own)
    edits = Edits()
    place = None if chunks_in is None else _chunk_place(chunks_in, access)
    if place is not None:
        access.setdefault(f"{place.url}/", anonymous())
    store = EditedStore(own, edits, chunks_in=place, allow=access)
    try:
        yield _untyped_zarr.open(store, mode="r+", use_consolidated=False)
        _Commit(guarded, InspectedHierarchy.open(own, allow=access), edits).carry_out()
        for path in edits.removed_natives():
            sync(ManifestStore(own, allow=access).delete_dir(path))
    except BaseException:
        with contextlib.suppress(Exception):
            for key in edits.native:  # nothing refers to them, but they have the names of chunks
                guarded.delete(key)
        raise
    finally:
        edits.has_ended = True


def _chunk_place(location: Any, access: Any) -> ChunkPlace:
    store = open_hierarchy(location, access)
    urls = store_urls(store)
    if not urls:
        raise InvalidConfigurationError(
            "chunks that hierarchies share need a URL, and this store has none",
            remedy="Name a directory or a bucket.",
        )
    return ChunkPlace(store, urls[0].url.rstrip("/"))


class entries:  # noqa: N801  # used like a function
    """The entries of a manifest array, by grid index, to be read or edited.

    Parameters
    ----------
    array : zarr.Array
        An array of a hierarchy that is being edited.

    Raises
    ------
    TypeError
        It is of another store.
    InvalidConfigurationError
        It has no manifest.

    Examples
    --------
    >>> import tempfile
    >>> import zarr_manifest as zm
    >>> root = tempfile.mkdtemp()
    >>> zm.create_array(root, "a", {"0": {"data": b"1234"}}, shape=8, chunks=4, dtype="u1")
    >>> with zm.edit(root) as group:
    ...     zm.entries(group["a"])[1,] = {"data": b"5678"}
    ...     print(group["a"][:])
    [49 50 51 52 53 54 55 56]
    """

    def __init__(self, array: Any) -> None:
        store = getattr(array, "store", None)
        if not isinstance(store, EditedStore):
            raise TypeError("entries are those of an array of a hierarchy that is being edited")
        self._store, self._path = store, str(array.path)
        declared = sync(store.declared(self._path))
        if declared is None:
            raise InvalidConfigurationError(
                "the array has no manifest",
                array=self._path,
                remedy="Write its values; or create it with create_array.",
            )
        self._declared = declared

    def __setitem__(self, index: Index | int, entry: Mapping[str, Any] | None) -> None:
        """Let a chunk have another entry: ``{}`` is explicitly empty, and None is missing."""
        chunk = (index,) if isinstance(index, int) else tuple(index)
        given = {} if entry is None else {chunk: entry}
        try:
            found = interpret_entries(self._declared, given)
        except ManifestError as error:
            raise error.in_context(array=self._path) from error.__cause__
        if not self._declared.chunk_grid.contains(chunk):
            raise IndexError(f"there is no chunk {format_canonical(chunk)} in the array")
        stated = None if entry is None else _document(found)[format_canonical(chunk)]
        sync(self._store.set_entry(self._path, chunk, stated))


def _document(references: References) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(references.dumps())
    return found


class _Commit:
    """Turns edits into one change."""

    def __init__(self, store: GuardedStore, hierarchy: InspectedHierarchy, edits: Edits) -> None:
        self._store = store
        self._hierarchy = hierarchy
        self._edits = edits

    def carry_out(self) -> None:
        """Commit, again if others have changed something else meanwhile.

        Raises
        ------
        WriteConflictError
            They have changed the same.
        """
        for attempt in itertools.count(1):
            change = Change(self._store)
            consolidates = self._stage(change)
            try:
                change.commit(consolidate=consolidates)
                return
            except WriteConflictError as error:
                give_way(error, attempt)

    def _stage(self, change: Change) -> bool:
        """Say what becomes of the nodes; return whether the root gets consolidated metadata."""
        edits = self._edits
        paths = sorted({*edits.after, *edits.entries})
        change.read_many(paths)
        consolidates = False
        for path in paths:
            before, now = _parsed(edits.before.get(path)), change.node(path)
            if path in edits.after:
                _require_same(path, before, now)
                after = _parsed(edits.after[path])
            else:
                after = now
            if after is None and path in edits.entries:
                raise _conflict(path, "removed the array")
            if after is None:
                change.remove(path)
                continue
            consolidates |= not path and "consolidated_metadata" in after
            if path in edits.entries:
                after = self._with_entries(path, before or {}, now or {}, after)
            elif now is not None:
                after = _with_present_manifest(path, before or {}, now, after)
            change.set(path, after)
        return consolidates

    # Manifests ----------------------------------------------------------------------

    def _with_entries(
        self, path: str, before: dict[str, Any], now: dict[str, Any], after: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the metadata of an array with a manifest that has the edited entries."""
        entries = self._edits.entries[path]
        if now and ArrayMetadata("", before).declaration != ArrayMetadata("", now).declaration:
            self._require_other_chunks(path, before, now, entries)
            if path in self._edits.after:
                after = _with_present_manifest(path, before, now, after)
        array, first = self._declared(path, after), self._declared(path, before or after)
        if array is None or first is None:
            raise _conflict(path, "replaced the array by one without a manifest")
        rewriting = _Rewriting(self._store, self._hierarchy, array, after, entries, first.base)
        return rewriting.metadata()

    def _declared(self, path: str, metadata: dict[str, Any]) -> DeclaredArray | None:
        node = Node(path, metadata=metadata, is_own=True)
        try:
            return strict(self._hierarchy.declaration(node))
        except ManifestError as error:
            raise error.in_context(array=path) from error.__cause__

    def _require_other_chunks(
        self,
        path: str,
        before: dict[str, Any],
        now: dict[str, Any],
        entries: Iterable[Index],
    ) -> None:
        """Refuse to edit chunks whose entries another writer has changed."""
        first, second = self._declared(path, before), self._declared(path, now)
        if first is None or second is None:
            raise _conflict(path, "replaced the manifest")
        old, new = self._hierarchy.documents(first), self._hierarchy.documents(second)
        for index in entries:
            if _reference(sync(old.owner(index)), index) != _reference(
                sync(new.owner(index)), index
            ):
                raise _conflict(path, "changed the same chunk", format_canonical(index))


class _Rewriting:
    """Writes the manifest of an array again, with other entries for some chunks."""

    def __init__(
        self,
        store: GuardedStore,
        hierarchy: InspectedHierarchy,
        array: DeclaredArray,
        metadata: dict[str, Any],
        entries: Mapping[Index, Edited],
        entries_base: Base,
    ) -> None:
        self._store = store
        self._documents = hierarchy.documents(array)
        self._array = array
        self._metadata = metadata
        # Of a smaller array, chunks outside are no more.
        self._entries = {
            index: entry for index, entry in entries.items() if array.chunk_grid.contains(index)
        }
        # What their paths resolve against.
        self._entries_base = entries_base
        # Where chunks that were written cannot be named relative to the base, it is given up.
        self._is_moved = any(
            isinstance(entry, WrittenChunk) and _relative(array.base, entry.key) is None
            for entry in self._entries.values()
        )

    def metadata(self) -> dict[str, Any]:
        """Write the documents that change, and return the metadata that declare them."""
        array, partitions = self._array, self._array.partitions
        stated = array.configuration
        base = "./" if self._is_moved else stated.base
        form = Form.as_declared(stated, self._metadata, base)
        if partitions is None:
            writer = ArrayWriter(self._store, array.path, self._metadata, form)
            loaded = sync(self._documents.partition(None))
            writer.write(self._edited(loaded, self._entries, writer.array))
            return writer.metadata
        touched: dict[Index, dict[Index, Edited]] = {}
        for index, entry in self._entries.items():
            touched.setdefault(partitions.owner(index), {})[index] = entry
        if not isinstance(stated.partitions, Mapping) or self._is_moved:
            for partition in sync(self._documents.partitions()):
                touched.setdefault(partition or (), {})
        kept: dict[Partition, str] = {}
        if isinstance(stated.partitions, Mapping) and not self._is_moved:
            for name, checksum in stated.partitions.items():
                partition = parse_canonical(name, array.ndim)
                if partition not in touched:
                    kept[partition] = checksum
        writer = ArrayWriter(self._store, array.path, self._metadata, form, kept)
        for _ in writer.write_parts(self._parts(touched, writer.array)):
            pass
        return writer.metadata

    def _parts(
        self, touched: Mapping[Index, Mapping[Index, Edited]], array: DeclaredArray
    ) -> Iterator[References]:
        for partition, edited in sorted(touched.items()):
            part = self._edited(sync(self._documents.partition(partition)), edited, array)
            if len(part):
                yield part

    def _edited(
        self, loaded: LoadedManifest, edited: Mapping[Index, Edited], array: DeclaredArray
    ) -> References:
        """Return the references of a document with other entries for some chunks."""
        grid_shape = array.chunk_grid.counts
        old = loaded.manifest
        if self._is_moved:
            old = old.with_paths([_path(array.base, place) for place in loaded.locations])
        indices = np.array(list(edited), np.int64).reshape(len(edited), array.ndim)
        joined = JoinedReferences()
        joined.add_references(old.without_chunks(number_chunks(indices, grid_shape)))
        given = {
            index: self._entry(entry, array.base)
            for index, entry in edited.items()
            if entry is not None
        }
        joined.add_references(interpret_entries(array, given))
        references = joined.references(grid_shape)
        assert references is not None  # those of edited chunks were taken out
        return references

    def _entry(self, entry: Mapping[str, Any] | WrittenChunk, base: Base) -> Mapping[str, Any]:
        if isinstance(entry, WrittenChunk):
            return entry.entry(_path(base, StoreLocation(entry.key)))
        if "path" not in entry or base == self._entries_base:
            return entry
        return {**entry, "path": _path(base, self._entries_base.resolve(entry["path"]))}


def _path(base: Base, location: Location) -> str:
    """Return the path of a location; the base must not be elsewhere if that is in the store."""
    if not isinstance(location, StoreLocation):
        return location.url
    path = _relative(base, location.key)
    assert path is not None  # otherwise the base was given up
    return path


def _relative(base: Base, key: str) -> str | None:
    """Return the reference to an object in the hierarchy's store; None if none is relative."""
    directory = base.path.rpartition("/")[0]
    if base.scheme and base.root is None:
        return None
    start = key if base.root is None or not base.scheme else join(base.root.path, key)
    return relative_reference(start, directory)


def _reference(loaded: LoadedManifest, index: Index) -> Any:
    """Return what a document says of a chunk, whatever its base is."""
    row = loaded.manifest.get(index)
    if row is None:
        return None
    reference = structs.replace(loaded.manifest.reference(row), path=None)
    return reference, loaded.locations[row.path_number] if row.path_number >= 0 else None


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
        raise _conflict(path, "changed the metadata" if now else "removed the node")


def _undeclared(node: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if node is None else without_copies(ArrayMetadata("", node).undeclared)


def _parsed(body: bytes | None) -> dict[str, Any] | None:
    return None if body is None else parse_node(body)


def _conflict(path: str, what: str, chunk: str | None = None) -> WriteConflictError:
    return WriteConflictError(
        f"another writer has {what} since the edit began; nothing was changed",
        array=path,
        chunk=chunk,
        remedy="Check what is there now, and edit it again.",
    )
