"""A change of many nodes that readers see at once: their metadata, the root's last.

Before it, the documents of arrays are written under names that nothing refers to; after it, those
that nothing refers to any more are removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from zarr_manifest.conversion.target.earlier_hierarchy import EarlierHierarchy
from zarr_manifest.conversion.target.journal import JOURNAL, Journal
from zarr_manifest.format import dump_node, parse_node
from zarr_manifest.writing import ArrayWriter, GuardedStore, with_copies

__all__ = ["WholeChange", "with_all_copies"]


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
