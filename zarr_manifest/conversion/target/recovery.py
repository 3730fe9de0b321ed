"""Recovery of a hierarchy after a writer was interrupted: the change is finished, or undone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zarr.abc.store import Store

from zarr_manifest.conversion.target.journal import JOURNAL, Journal, Side
from zarr_manifest.errors import Advice, Setting, WriteConflictError
from zarr_manifest.format import is_placeholder
from zarr_manifest.hierarchy import open_for_reading, store_underneath
from zarr_manifest.sources import (
    Allow,
    access_by_prefix,
)
from zarr_manifest.stores import open_hierarchy, store_name
from zarr_manifest.writing import GuardedStore, guarded_store
from zarr_manifest.zarr_internals import sync

if TYPE_CHECKING:
    from obstore.store import ObjectStore


def recover(
    location: str | Path | ObjectStore | Store,
    how: Literal["finish", "undo"],
    *,
    sole_writer: bool = False,
    allow: Allow = None,
) -> list[str] | None:
    """Finish what an interrupted writer of a hierarchy began, or undo it.

    While :func:`write_hierarchy` replaces the nodes of a hierarchy, it cannot be opened, and
    neither can it if the writer was interrupted then. Everything that is needed to finish,
    or to undo, is in an object beside the root's metadata. If this function is interrupted,
    it can be called again, with either value of `how`.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    how : {"finish", "undo"}
        Whether to bring the hierarchy to what was being written, or to what it was before.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`. Without it, that
        the writer is gone is known in directories only: make sure of it elsewhere.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`.

    Returns
    -------
    list of str or None
        Paths of the nodes that the change creates, replaces or removes; None if there was
        nothing to recover.

    Raises
    ------
    WriteConflictError
        The writer is at work, another one has changed a node since, or it is too late.
    SourceNotFoundError
        There is no such directory.
    ValueError
        `how` has another value.

    Examples
    --------
    >>> import tempfile
    >>> from zarr_manifest.conversion import write_hierarchy
    >>> root = tempfile.mkdtemp()
    >>> _ = write_hierarchy(root, [])
    >>> print(recover(root, "finish"))
    None
    """
    if how not in ("finish", "undo"):
        raise ValueError(f"how must be 'finish' or 'undo', not {how!r}")
    own = store_underneath(open_hierarchy(location, access_by_prefix(allow)))
    sync(open_for_reading(own))
    store = guarded_store(own, sole_writer=sole_writer)
    with store.held(JOURNAL):
        journal = Journal.read(store)
        if journal is None:
            _require_journal(store)
            return None
        side: Side = "new" if how == "finish" else "old"
        if journal.reached is None:
            journal.taken_over(store).bring(store, side)
        elif journal.reached == side:
            journal.clean(store)
        else:
            finish, undo = (
                Setting("finish", python="how='finish'"),
                Setting("undo", python="how='undo'"),
            )
            raise WriteConflictError(
                f"it is too late to {how} this: all nodes are as they are to be, and what is left "
                "to do is to remove documents that are no longer used",
                location=store_name(own),
                remedy=Advice("Do that: ", finish if how == "undo" else undo, "."),
            )
        return journal.changed


def clear_the_way(store: GuardedStore, *, overwrite: bool) -> None:
    """Undo what an interrupted writer began, so that the hierarchy can be written again.

    Raises
    ------
    WriteConflictError
        It was replacing another hierarchy, and `overwrite` is not set.
    """
    with store.held(JOURNAL):
        journal = Journal.read(store)
        if journal is None:
            return
        if not overwrite and not journal.is_first:
            raise WriteConflictError(
                "there is already a hierarchy, and replacing it was interrupted",
                location=store_name(store.store),
                remedy=Advice("Pass ", Setting("overwrite", True), " to write it again."),
            )
        if journal.reached is None:
            journal.taken_over(store).bring(store, "old")
        else:
            journal.clean(store)


def _require_journal(store: GuardedStore) -> None:
    """Refuse a root that was closed by a writer whose journal is gone."""
    if is_placeholder(store.read("zarr.json").body):
        raise WriteConflictError(
            f"writing the hierarchy was interrupted, but {JOURNAL!r}, which is needed to "
            "recover it, is missing",
            location=store_name(store.store),
            remedy=Advice(
                "Write it again, with ",
                Setting("overwrite", True),
                "; or, if it is the copy of another hierarchy, copy that again.",
            ),
        )
