"""Recovery: the own metadata that an interrupted writer left behind, written at last."""

from __future__ import annotations

from typing import Literal

from zarr_manifest.hierarchy import InspectedHierarchy, no_hierarchy
from zarr_manifest.sources import Allow
from zarr_manifest.stores import StoreLike
from zarr_manifest.writing.commit import Change
from zarr_manifest.writing.conditional_put import guarded_store


def recover(
    location: StoreLike,
    *,
    trust: Literal["consolidated", "own"] | None = None,
    sole_writer: bool = False,
    allow: Allow = None,
) -> list[str]:
    """Write the own metadata of nodes that an interrupted writer left behind.

    Its change was made all the same: readers see it. Any other writer does this as well.

    Own metadata that are not behind may contradict the copies in consolidated metadata: a copy of
    the hierarchy was interrupted, or other software has changed one of them. Nothing tells which of
    them is right, and no writer goes on until somebody says so.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    trust : {"consolidated", "own"}, optional
        Which of both counts where they contradict each other, and replaces the other: what readers
        of consolidated metadata see, or the nodes' own. By default, a contradiction is an error.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`.

    Returns
    -------
    list of str
        Paths of the nodes whose own metadata were behind, or whose metadata contradicted each
        other.

    Raises
    ------
    SourceNotFoundError
        There is no hierarchy.
    InvalidConfigurationError
        Own metadata and copies contradict each other; or, to trust them, own metadata are damaged.
    ManifestError
        The hierarchy cannot be read or written.
    ValueError
        `trust` is something else.

    Examples
    --------
    >>> import tempfile, zarr
    >>> root = tempfile.mkdtemp()
    >>> _ = zarr.create_group(root)
    >>> recover(root)
    []
    """
    if trust not in (None, "consolidated", "own"):
        raise ValueError(f"trust must be 'consolidated' or 'own', not {trust!r}")
    hierarchy = InspectedHierarchy.open(location, allow=allow)
    guarded = guarded_store(location, hierarchy.allow, sole_writer=sole_writer)
    change = Change(guarded, replaces=trust is not None)
    if not change.nodes() and change.store.is_empty():
        raise no_hierarchy(hierarchy.store)
    for path, found in sorted(change.contradictions.items()):
        own = found.own if found.own is not None and "node_type" in found.own else None
        kept = found.copy if trust == "consolidated" else own
        if kept is None:
            raise found.error
        change.set(path, kept)
    return sorted(change.finished | {*change.commit()})
