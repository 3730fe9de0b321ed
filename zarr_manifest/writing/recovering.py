"""Recovery: the own metadata that an interrupted writer left behind, written at last."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zarr.abc.store import Store

from zarr_manifest.hierarchy import InspectedHierarchy, no_hierarchy
from zarr_manifest.sources import Allow
from zarr_manifest.writing.commit import Change
from zarr_manifest.writing.conditional_put import guarded_store

if TYPE_CHECKING:
    from obstore.store import ObjectStore


def recover(
    location: str | Path | ObjectStore | Store,
    *,
    sole_writer: bool = False,
    allow: Allow = None,
) -> list[str]:
    """Write the own metadata of nodes that an interrupted writer left behind.

    Its change was made all the same: readers see it. Any other writer does this as well.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`.

    Returns
    -------
    list of str
        Paths of the nodes whose own metadata were behind.

    Raises
    ------
    SourceNotFoundError
        There is no hierarchy.
    ManifestError
        The hierarchy cannot be read or written.

    Examples
    --------
    >>> import tempfile, zarr
    >>> root = tempfile.mkdtemp()
    >>> _ = zarr.create_group(root)
    >>> recover(root)
    []
    """
    hierarchy = InspectedHierarchy.open(location, allow=allow)
    change = Change(guarded_store(location, hierarchy.allow, sole_writer=sole_writer))
    if not change.nodes() and change.store.is_empty():
        raise no_hierarchy(hierarchy.store)
    return sorted(change.finished)
