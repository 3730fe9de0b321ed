"""The lock on arrays that were written without one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zarr.abc.store import Store

from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format import arrays_in, declaration_of, declare, join
from zarr_manifest.hierarchy import InspectedHierarchy, Node, no_hierarchy
from zarr_manifest.sources import Allow
from zarr_manifest.stores import StoreLike
from zarr_manifest.writing import Change, guarded_store
from zarr_manifest.zarr_internals import sync


def lock(
    location: StoreLike,
    arrays: Iterable[str] | None = None,
    *,
    sole_writer: bool = False,
    allow: Allow = None,
) -> list[str]:
    """Lock out readers that do not know manifests, where older writers did not.

    Adds the lock to the metadata of manifest arrays, and to their copies in consolidated
    metadata, as one change. The arrays can be read meanwhile.

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
    change = Change(guarded_store(location, hierarchy.allow, sole_writer=sole_writer))
    nodes = sync(hierarchy.nodes())
    wanted = None if arrays is None else _declaring(hierarchy.store, arrays, nodes)
    for node in nodes:
        if node.problem is not None and (wanted is None or node.path in wanted):
            raise node.problem.in_context(array=node.path) from node.problem.__cause__
    locked: set[str] = set()
    change.read_many(node.path for node in nodes)
    for node in nodes:
        metadata = change.node(node.path) or {}
        for array in arrays_in(metadata):
            path = join(node.path, array.path)
            if array.is_unlocked and (wanted is None or path in wanted):
                declare(array, declaration_of(array.transformers))
                locked.add(path)
                change.set(path, array.metadata)
    change.commit()
    return sorted(locked)


def _declaring(store: Store, arrays: Iterable[str], nodes: Sequence[Node]) -> set[str]:
    """Return the paths of manifest arrays, without slashes at their ends."""
    known = {node.path: node for node in nodes}
    wanted = {path.strip("/") for path in arrays}
    for path in sorted(wanted):
        node = known.get(path)
        if node is None:
            raise no_hierarchy(
                store,
                what=f"array {path!r}",
                remedy="Name arrays by their paths in the hierarchy.",
            )
        if node.problem is None and (node.array is None or not node.array.declaration):
            raise InvalidConfigurationError("there is no manifest to lock", array=path)
    return wanted
