"""A change of many nodes that readers see together: what is there, and what replaces it.

Before it, the documents of arrays are written under names that nothing refers to. The metadata of
the nodes follow, those of the root last. Then documents that nothing refers to any more are
removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zarr_manifest.conversion.target.journal import JOURNAL, Change, Journal
from zarr_manifest.errors import Advice, Setting, WriteConflictError
from zarr_manifest.format import ancestors, dump_node, is_placeholder, join, parse_node
from zarr_manifest.writing import (
    ArrayWriter,
    GuardedStore,
    Stored,
    earlier_array,
    has_consolidated,
    unused_documents,
    with_copies,
    without_copies,
)


class EarlierHierarchy:
    """The nodes that already exist at the target, to be replaced, removed or kept.

    They are those that can be reached from the root through groups. Native arrays that the new
    hierarchy lacks stay, with the groups above them: their values are nowhere else. Manifest
    arrays and other groups are removed, but never chunks: the new hierarchy may refer to them.
    Without metadata of the root, nothing below it belongs to an earlier hierarchy.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    may_replace : bool
        Whether there may be any. If so, all are found.
    """

    def __init__(self, store: GuardedStore, *, may_replace: bool) -> None:
        self._store = store
        self._may_replace = may_replace
        self._nodes: dict[str, Stored] = {}
        self._first_read: dict[str, Stored] = {}
        # Whoever creates a node there meanwhile gets in the way of ours.
        self._is_empty = store.is_empty()
        if may_replace:
            self._look()
            self._first_read |= self._nodes

    def _look(self) -> None:
        """Find all nodes."""
        below = [""]
        while below:
            path = below.pop()
            key = join(path, "zarr.json")
            self._store.require_own(key)
            found = self._store.read(key)
            if found.body is not None:
                self._nodes[path] = found
            if _is_group(found) or is_placeholder(found.body):
                below += [join(path, name) for name in self._store.names_in(path)]

    def read(self, path: str) -> Stored:
        """Return the ``zarr.json`` of a node as it was when first read.

        Raises
        ------
        WriteConflictError
            It exists, but may not be replaced.
        LocationNotAllowedError
            It lies behind a symbolic link.
        """
        if path in self._first_read:
            return self._first_read[path]
        key = join(path, "zarr.json")
        self._store.require_own(key)
        found = Stored(None) if self._is_empty else self._store.read(key)
        if found.body is not None and not self._may_replace:
            raise WriteConflictError(
                "there is already a node, of another hierarchy or of an interrupted conversion",
                array=path,
                location=key,
                remedy=Advice(
                    "Pass ", Setting("overwrite", True), " to replace it, or choose another place."
                ),
            )
        self._first_read[path] = found
        return found

    def require_no_native_below(self, path: str) -> None:
        """Refuse to put an array above native arrays, which could not be reached any more.

        Raises
        ------
        WriteConflictError
        """
        for native in self._natives:
            if native != path and path in ancestors(native):
                raise WriteConflictError(
                    f"the new array {path or '/'!r} would hide a native array of the earlier "
                    "hierarchy, whose values are nowhere else",
                    array=native,
                    remedy="Move it or delete it first, or choose another place.",
                )

    @cached_property
    def _natives(self) -> list[str]:
        return [path for path, found in self._nodes.items() if _is_native(path, found)]

    def kept(self, new: Collection[str]) -> dict[str, bytes]:
        """Return the ``zarr.json`` of the nodes that stay as they are, by path.

        Parameters
        ----------
        new : collection of str
            Paths of the new hierarchy's nodes.
        """
        paths: set[str] = set()
        for native in self._natives:
            if native not in new:
                paths |= {native, *ancestors(native)} - set(new)
        return {path: self._nodes[path].body or b"" for path in sorted(paths)}

    def replaced_natives(self, new: Collection[str]) -> list[str]:
        """Return the paths of the native arrays in whose place the new hierarchy has a node."""
        return sorted(path for path in self._natives if path in new)

    @property
    def bodies(self) -> dict[str, bytes]:
        """The ``zarr.json`` of all nodes, by path."""
        return {path: found.body or b"" for path, found in self._nodes.items()}

    def has_copies(self, path: str) -> bool:
        """Whether a node is a group with consolidated metadata."""
        return has_consolidated(_parsed(self.read(path)))

    def require_unchanged(self, changed: Collection[str], kept: Collection[str]) -> None:
        """Refuse to replace what another writer has changed in the meantime.

        Parameters
        ----------
        changed : collection of str
            Paths of the new hierarchy's nodes whose ``zarr.json`` will be replaced.
        kept : collection of str
            Paths of all its nodes; others will be removed.
        """
        if not self._nodes:
            return  # each new node is created on condition that it does not exist
        for path in sorted(self._concerned(changed, kept)):
            key = join(path, "zarr.json")
            if self._store.read(key).body != self.read(path).body:
                raise WriteConflictError(
                    "another writer has changed the node in the meantime",
                    array=path,
                    location=key,
                    remedy="Nothing was replaced. Check what is there now, and try again.",
                )

    def removed(self, kept: Collection[str]) -> list[str]:
        """Return the paths of all nodes but those in `kept`, in order."""
        return sorted(self._nodes.keys() - set(kept))

    def unused_documents(self, path: str) -> list[str]:
        """Return the keys of an array's documents, if the new hierarchy has no array there."""
        array, _ = earlier_array(path, self.read(path), self._store.root)
        return [] if array is None else unused_documents(self._store, array)

    def changes(self, bodies: Mapping[str, bytes]) -> tuple[dict[str, Change], tuple[str, ...]]:
        """Return what changes, and the paths of the nodes to close meanwhile.

        Parameters
        ----------
        bodies : mapping of str to bytes
            The ``zarr.json`` of the new hierarchy's nodes.
        """
        changed = {path for path, body in bodies.items() if self.read(path).body != body}
        concerned = self._concerned(changed, kept=bodies)
        groups: set[str] = set()
        # Copies in consolidated metadata may follow, as when a single array is written.
        if sum(not self._same_but_copies(path, bodies.get(path)) for path in concerned) > 1:
            groups = {"", *(group for path in concerned for group in ancestors(path))}
        nodes = {p: Change(self.read(p).body, bodies.get(p)) for p in concerned | groups}
        return nodes, tuple(sorted(groups))

    def _concerned(self, changed: Collection[str], kept: Collection[str]) -> set[str]:
        return {*changed, *self.removed(kept)}

    def _same_but_copies(self, path: str, body: bytes | None) -> bool:
        """Whether nothing but the consolidated metadata of a group would change."""
        before = _parsed(self.read(path))
        after = None if before is None or body is None else parse_node(body)
        return (
            before is not None
            and after is not None
            and without_copies(before) == without_copies(after)
        )


def _parsed(found: Stored) -> dict[str, Any] | None:
    return None if found.body is None else parse_node(found.body)


def _is_group(found: Stored) -> bool:
    return (_parsed(found) or {}).get("node_type") == "group"


def _is_native(path: str, found: Stored) -> bool:
    if (_parsed(found) or {}).get("node_type") != "array" or is_placeholder(found.body):
        return False
    _, declares = earlier_array(path, found, None)
    return not declares


def with_all_copies(bodies: Mapping[str, bytes], groups: Iterable[str]) -> dict[str, bytes]:
    """Return the ``zarr.json`` of all nodes; those of some groups with consolidated metadata."""
    parsed = {path: parse_node(body) or {} for path, body in bodies.items()}
    return dict(bodies) | {
        path: dump_node(with_copies(path, parsed[path], parsed))
        for path in groups
        if parsed[path].get("node_type") == "group"
    }


@dataclass(frozen=True, slots=True)
class WholeChange:
    """Replaces the metadata of nodes.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    earlier : EarlierHierarchy
        What is there.
    writers : list of ArrayWriter
        Of the arrays that are written; their documents are there.
    """

    store: GuardedStore
    earlier: EarlierHierarchy
    writers: list[ArrayWriter]

    def carry_out(
        self,
        bodies: Mapping[str, bytes],
        *,
        kept: Collection[str] = (),
        without_arrays: Collection[str] = (),
    ) -> list[str]:
        """Bring all nodes to their new metadata, and return the paths of those removed.

        Parameters
        ----------
        bodies : mapping of str to bytes
            The ``zarr.json`` of every node that the hierarchy has afterwards.
        kept : collection of str
            Paths of nodes that stay, and must not have changed in the meantime.
        without_arrays : collection of str
            Paths at which there is no array afterwards: documents there are removed.

        Raises
        ------
        WriteConflictError
            Another writer has changed a node in the meantime.
        """
        nodes, groups = self.earlier.changes(bodies)
        changed = {path for path, change in nodes.items() if change.old != change.new}
        self.earlier.require_unchanged((changed & bodies.keys()) | set(kept), kept=bodies)
        removed = self.earlier.removed(bodies)
        journal = Journal(
            uuid.uuid4().hex,
            nodes,
            groups,
            tuple(self._unused_documents([*without_arrays, *removed])),
            tuple(key for writer in self.writers for key in writer.undeclared),
        )
        if changed:
            with self.store.held(JOURNAL):
                self._switch(journal)
        return removed

    def _unused_documents(self, without_arrays: Iterable[str]) -> Iterator[str]:
        for writer in self.writers:
            yield from writer.unused
        for path in without_arrays:
            yield from self.earlier.unused_documents(path)

    def _switch(self, journal: Journal) -> None:
        known = {path: self.earlier.read(path) for path in journal.nodes}
        journal.write(self.store)
        # From now on, the journal says which documents to remove.
        for writer in self.writers:
            writer.declared()
        journal.carry_out(self.store, known)
