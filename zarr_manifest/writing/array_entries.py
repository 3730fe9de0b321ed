"""The entries of an array's manifest, as a mapping."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from zarr_manifest.errors import (
    Advice,
    InvalidConfigurationError,
    ReadOnlyError,
    Setting,
    in_context,
)
from zarr_manifest.format import format_canonical, number_chunks
from zarr_manifest.hierarchy import ChunkManifestTransformer, LoadedManifest, ManifestStore
from zarr_manifest.manifest import References
from zarr_manifest.writing.edited_store import EditedStore
from zarr_manifest.writing.edits import Edited, Index, WrittenChunk
from zarr_manifest.writing.given_entries import interpret_entries
from zarr_manifest.writing.rewriting import reference_in_store
from zarr_manifest.zarr_internals import sync

type Entry = Mapping[str, Any]


class entries(MutableMapping[Index | int, Entry | None]):  # noqa: N801  # used like a function
    """The entries of a manifest array, by grid index; in an edit, they can be changed.

    An entry is a mapping with the members of an entry of a manifest document; ``{}`` is an
    explicitly empty chunk. Missing chunks are not in it. Manifest documents are read as they are
    needed, sources are not.

    Parameters
    ----------
    array : zarr.Array
        An array of a :class:`ManifestStore`, or of a hierarchy that is being edited.

    Raises
    ------
    TypeError
        It is of another store.
    InvalidConfigurationError
        It has no manifest.

    Examples
    --------
    >>> import tempfile, zarr
    >>> import zarr_manifest as zm
    >>> root = tempfile.mkdtemp()
    >>> zm.create_array(root, "a", {"0": {"data": b"1234"}}, shape=8, chunks=4, dtype="u1")
    >>> with zm.edit(root) as group:
    ...     zm.entries(group["a"])[1,] = {"data": b"5678"}
    ...     print(group["a"][:])
    [49 50 51 52 53 54 55 56]
    >>> group = zarr.open_group(zm.ManifestStore(root), mode="r")
    >>> list(zm.entries(group["a"])), zm.entries(group["a"])[1,]
    ([(0,), (1,)], {'data': 'NTY3OA=='})
    """

    def __init__(self, array: Any) -> None:
        store = getattr(array, "store", None)
        if not isinstance(store, ManifestStore):
            raise TypeError("entries are those of an array of a ManifestStore, or of an edit")
        self._store, self._path = store, str(array.path)
        self._found = self._find()

    def __repr__(self) -> str:
        return f"<entries of {self._path!r}>"

    def _find(self) -> ChunkManifestTransformer:
        found = sync(self._store.manifest_array(self._path))
        if found is None:
            raise InvalidConfigurationError(
                "the array has no manifest",
                array=self._path,
                remedy="Write its values; or create it with create_array.",
            )
        return found

    @property
    def _array(self) -> ChunkManifestTransformer:
        # In an edit, it may have been resized.
        return self._find() if isinstance(self._store, EditedStore) else self._found

    # Reading ------------------------------------------------------------------------

    @property
    def _edited(self) -> Mapping[Index, Edited]:
        return self._store.edited(self._path) if isinstance(self._store, EditedStore) else {}

    def __getitem__(self, index: Index | int) -> Entry:
        """Return the entry of a chunk.

        Raises
        ------
        KeyError
            The chunk is missing.
        """
        chunk, edited = _chunk(index), self._edited
        entry = edited[chunk] if chunk in edited else self._stored(chunk)
        if entry is None:
            raise KeyError(index)
        if not isinstance(entry, WrittenChunk):
            return dict(entry)
        array = self._array.declared
        path = reference_in_store(array.base, entry.key)
        # The base is given up if it is elsewhere.
        return entry.entry(path or reference_in_store(array.own, entry.key) or entry.key)

    def _stored(self, chunk: Index) -> Entry | None:
        array = self._array
        grid = array.declared.chunk_grid
        if len(chunk) != len(grid.counts) or not grid.contains(chunk):
            return None
        return _entry(sync(array.manifest.owner(chunk)).manifest, chunk)

    def __iter__(self) -> Iterator[Index]:
        """Yield the grid indices of chunks that have an entry; those that were edited last."""
        edited = dict(self._edited)
        for loaded in self._documents():
            yield from (index for index in loaded.manifest.indices() if index not in edited)
        yield from (index for index, entry in edited.items() if entry is not None)

    def __len__(self) -> int:
        edited = self._edited
        if edited:
            return sum(1 for _ in self)
        return sum(len(loaded.manifest) for loaded in self._documents())

    def _documents(self) -> Iterator[LoadedManifest]:
        documents = self._array.manifest
        for partition in sync(documents.partitions()):
            yield sync(documents.partition(partition))
        sync(documents.check_missing())

    # Editing ------------------------------------------------------------------------

    def __setitem__(self, index: Index | int, entry: Entry | None) -> None:
        """Let a chunk have another entry: ``{}`` is explicitly empty, and None is missing."""
        if not isinstance(self._store, EditedStore):
            raise ReadOnlyError(
                "entries can only be changed in an edit",
                array=self._path,
                remedy=Advice(
                    "Edit the hierarchy: ",
                    Setting("edit", python="with zarr_manifest.edit(location) as root: ..."),
                    ".",
                ),
            )
        chunk = _chunk(index)
        given = {} if entry is None else {chunk: entry}
        array = self._array.declared
        with in_context(array=self._path):
            found = interpret_entries(array, given)
        if not array.chunk_grid.contains(chunk):
            raise IndexError(f"there is no chunk {format_canonical(chunk)} in the array")
        stated = None if entry is None else _entry(found, chunk)
        sync(self._store.set_entry(self._path, chunk, stated))

    def __delitem__(self, index: Index | int) -> None:
        """Let a chunk be missing.

        Raises
        ------
        KeyError
            It is missing already.
        """
        self[index]
        self[index] = None


def _chunk(index: Index | int) -> Index:
    return tuple(map(operator.index, index if isinstance(index, tuple) else (index,)))


def _entry(references: References, chunk: Index) -> Entry | None:
    """Return an entry as it is in a document; None if there is none."""
    (number,) = number_chunks(np.array([chunk], np.int64), references.grid_shape).tolist()
    found: dict[str, Any] = json.loads(references.between(number, number + 1).dumps())
    return found.get(format_canonical(chunk))
