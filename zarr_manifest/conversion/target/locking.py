"""The lock on arrays that were written without one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zarr.abc.store import Store

from zarr_manifest.conversion.target.journal import JOURNAL, Change, Journal
from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format import (
    ArrayMetadata,
    arrays_in,
    declaration_of,
    declare,
    dump_node,
    join,
    parse_node,
    unfinished_error,
)
from zarr_manifest.hierarchy import InspectedHierarchy, Node, no_hierarchy, store_underneath
from zarr_manifest.sources import Allow
from zarr_manifest.stores import open_hierarchy, store_name
from zarr_manifest.writing import GuardedStore, Stored, guarded_store
from zarr_manifest.zarr_internals import sync

if TYPE_CHECKING:
    from obstore.store import ObjectStore


def lock(
    location: str | Path | ObjectStore | Store,
    arrays: Iterable[str] | None = None,
    *,
    sole_writer: bool = False,
    allow: Allow = None,
) -> list[str]:
    """Lock out readers that do not know manifests, where older writers did not.

    Adds the lock to the metadata of manifest arrays, and to their copies in consolidated
    metadata, as one change: after an interruption, :func:`recover` finishes or undoes it.
    The arrays can be read meanwhile.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    arrays : iterable of str, optional
        Paths of the arrays to lock; all manifest arrays by default.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`.

    Returns
    -------
    list of str
        Paths of the arrays that lacked the lock, in their own metadata or in copies.

    Raises
    ------
    SourceNotFoundError
        There is no hierarchy, or one of `arrays` does not exist.
    InvalidConfigurationError
        One of `arrays` declares no manifest.
    WriteConflictError
        There is another writer.
    ManifestError
        The metadata of a node cannot be read. Nothing is then written.

    Examples
    --------
    >>> import tempfile, zarr_manifest
    >>> root = tempfile.mkdtemp()
    >>> options = {"shape": 4, "chunks": 4, "dtype": "u1", "lock": False}
    >>> zarr_manifest.create_array(root, "a", {}, **options)
    >>> lock(root), lock(root)
    (['a'], [])
    """
    hierarchy = InspectedHierarchy.open(location, allow=allow)
    own = store_underneath(open_hierarchy(location, hierarchy.allow))
    store = guarded_store(own, sole_writer=sole_writer)
    with store.held(JOURNAL):
        if Journal.read(store) is not None:
            raise unfinished_error(store_name(own))
        nodes = sync(hierarchy.nodes())
        wanted = None if arrays is None else _declaring(own, arrays, nodes)
        before, changes, locked = _changes(store, nodes, wanted)
        if changes:
            journal = Journal(uuid.uuid4().hex, changes)
            journal.write(store)
            journal.carry_out(store, before)
    return sorted(locked)


def _declaring(own: Store, arrays: Iterable[str], nodes: Sequence[Node]) -> set[str]:
    """Return the paths of manifest arrays, without slashes at their ends."""
    known = {node.path: node for node in nodes}
    wanted = {path.strip("/") for path in arrays}
    for path in sorted(wanted):
        node = known.get(path)
        if node is None:
            raise no_hierarchy(
                own,
                what=f"array {path!r}",
                remedy="Name arrays by their paths in the hierarchy.",
            )
        if node.problem is None and (node.array is None or not node.array.declaration):
            raise InvalidConfigurationError("there is no manifest to lock", array=path)
    return wanted


def _changes(
    store: GuardedStore, nodes: Sequence[Node], wanted: set[str] | None
) -> tuple[dict[str, Stored], dict[str, Change], set[str]]:
    """Return what is there now and what changes, by path of the node, and which arrays do."""
    before: dict[str, Stored] = {}
    changes: dict[str, Change] = {}
    locked: set[str] = set()
    for node in nodes:
        if node.problem is not None and (wanted is None or node.path in wanted):
            raise node.problem.in_context(array=node.path) from node.problem.__cause__
        stored = store.read(join(node.path, "zarr.json"))
        metadata = None if stored.body is None else parse_node(stored.body)
        found = [
            array
            for array in arrays_in(metadata or {})
            if array.is_unlocked and (wanted is None or join(node.path, array.path) in wanted)
        ]
        if found:
            before[node.path] = stored
            changes[node.path] = Change(stored.body, _locked(metadata or {}, found))
            locked.update(join(node.path, array.path) for array in found)
    return before, changes, locked


def _locked(node: dict[str, object], arrays: Iterable[ArrayMetadata]) -> bytes:
    """Return a node's ``zarr.json`` with a lock on arrays that it describes."""
    for array in arrays:
        declare(array, declaration_of(array.transformers))
    return dump_node(node)
