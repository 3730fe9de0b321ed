"""Editing: many writes to a hierarchy that become one change, or none.

Arrays are written as zarr writes any other: the store keeps what is written
(:mod:`zarr_manifest.writing.edited_store`), and at the end new manifests refer to the new chunks,
by one commit (:mod:`zarr_manifest.writing.edit_commit`). Who edits other chunks at the same time
succeeds, too; of the same chunk, the later one is refused.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zarr
from zarr.abc.store import Store

from zarr_manifest.errors import ManifestError
from zarr_manifest.hierarchy import InspectedHierarchy, no_hierarchy
from zarr_manifest.sources import Allow, access_by_prefix
from zarr_manifest.writing.chunk_places import chunk_place
from zarr_manifest.writing.commit import Change
from zarr_manifest.writing.conditional_put import guarded_store
from zarr_manifest.writing.edit_commit import EditCommit
from zarr_manifest.writing.edited_store import EditedStore
from zarr_manifest.writing.edits import Edits
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
        commit = EditCommit(guarded, hierarchy, edits)
        commit.carry_out()
    finally:
        edits.has_ended = True
    try:
        sync(commit.remove_chunks())
    except ManifestError as error:
        error.add_note("The change was made all the same; chunks of removed arrays were left.")
        raise
