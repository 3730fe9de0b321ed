"""The manifest of an array, written again with other entries for some chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from zarr_manifest.format import join, number_chunks
from zarr_manifest.hierarchy import DeclaredArray, InspectedHierarchy, LoadedManifest, Partition
from zarr_manifest.locations import Base, Location, StoreLocation, relative_reference
from zarr_manifest.manifest import References, join_references
from zarr_manifest.writing.array_writer import ArrayWriter, Form, checksums_to_keep
from zarr_manifest.writing.conditional_put import GuardedStore
from zarr_manifest.writing.edits import Edited, Index, WrittenChunk
from zarr_manifest.writing.given_entries import interpret_entries
from zarr_manifest.zarr_internals import sync


class Rewriting:
    """Writes the manifest of an array again, with other entries for some chunks.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    hierarchy : InspectedHierarchy
        The same hierarchy.
    array : DeclaredArray
        The array.
    metadata : dict
        Its metadata; modified.
    entries : mapping of Index to Edited
        Other entries.
    entries_base : Base
        What their paths resolve against.
    """

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
        self._entries_base = entries_base
        # Where chunks that were written cannot be named relative to the base, it is given up.
        self._is_moved = any(
            isinstance(entry, WrittenChunk) and reference_in_store(array.base, entry.key) is None
            for entry in self._entries.values()
        )

    def metadata(self) -> dict[str, Any]:
        """Write the documents that change, and return the metadata that declare them."""
        array, partitions = self._array, self._array.partitions
        stated = array.configuration
        base = "./" if self._is_moved else stated.base
        form = Form.as_declared(stated, self._metadata, base)
        touched: dict[Partition, dict[Index, Edited]] = {}
        for index, entry in self._entries.items():
            owner = None if partitions is None else partitions.owner(index)
            touched.setdefault(owner, {})[index] = entry
        kept = None if self._is_moved else checksums_to_keep(stated, array.ndim)
        if kept is None:
            for partition in sync(self._documents.partitions()):
                touched.setdefault(partition, {})
        else:
            kept = {index: each for index, each in kept.items() if index not in touched}
        writer = ArrayWriter(self._store, array.path, self._metadata, form, kept)
        writer.write_all(self._parts(touched, writer.array))
        return writer.metadata

    def _parts(
        self, touched: Mapping[Partition, Mapping[Index, Edited]], array: DeclaredArray
    ) -> Iterator[References]:
        for partition, edited in sorted(touched.items(), key=lambda each: each[0] or ()):
            yield self._edited(sync(self._documents.partition(partition)), edited, array)

    def _edited(
        self, loaded: LoadedManifest, edited: Mapping[Index, Edited], array: DeclaredArray
    ) -> References:
        """Return the references of a document with other entries for some chunks."""
        grid_shape = array.chunk_grid.counts
        old = loaded.manifest
        if self._is_moved:
            old = old.with_paths([path_of(array.base, place) for place in loaded.locations])
        indices = np.array(list(edited), np.int64).reshape(len(edited), array.ndim)
        kept = old.without_chunks(number_chunks(indices, grid_shape))
        given = {
            index: self._entry(entry, array.base)
            for index, entry in edited.items()
            if entry is not None
        }
        return join_references([kept, interpret_entries(array, given)], grid_shape)

    def _entry(self, entry: Mapping[str, Any] | WrittenChunk, base: Base) -> Mapping[str, Any]:
        if isinstance(entry, WrittenChunk):
            return entry.entry(path_of(base, StoreLocation(entry.key)))
        if "path" not in entry or base == self._entries_base:
            return entry
        return {**entry, "path": path_of(base, self._entries_base.resolve(entry["path"]))}


def path_of(base: Base, location: Location) -> str:
    """Return the path of a location; the base must not be elsewhere if that is in the store."""
    if not isinstance(location, StoreLocation):
        return location.url
    path = reference_in_store(base, location.key)
    assert path is not None  # otherwise the base was given up
    return path


def reference_in_store(base: Base, key: str) -> str | None:
    """Return the reference to an object in the hierarchy's store; None if none is relative."""
    directory = base.path.rpartition("/")[0]
    if base.scheme and base.root is None:
        return None
    start = key if base.root is None or not base.scheme else join(base.root.path, key)
    return relative_reference(start, directory)
