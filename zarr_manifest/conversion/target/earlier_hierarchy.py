"""An earlier hierarchy at the target: nodes that the new one replaces, and those it removes.

Its nodes are those that can be reached from the root through groups. Metadata and manifest
documents are removed, but never chunks: the new hierarchy may refer to them.

While metadata is being written, the root has no metadata but a marker, which explains why.
Without either of them, whatever lies below does not belong to an earlier hierarchy, and is
left alone.
"""

from __future__ import annotations

from collections.abc import Collection

from zarr_manifest.errors import Advice, Setting, WriteConflictError
from zarr_manifest.format import parse_node
from zarr_manifest.hierarchy import join
from zarr_manifest.writing import GuardedStore, Stored, earlier_array, remove_documents

__all__ = ["EarlierHierarchy"]

_MARK = "zarr.json.unfinished"
_MARK_TEXT = (
    b"This hierarchy is being written, or writing was interrupted. Write it again (overwrite).\n"
)


class EarlierHierarchy:
    """The nodes that already exist at the target.

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
        if may_replace:
            self._look()
            self._first_read |= self._nodes

    def _look(self) -> None:
        """Find all nodes."""
        below = [""]
        while below:
            path = below.pop()
            found = self._store.read(join(path, "zarr.json"))
            if found.body is not None:
                self._nodes[path] = found
            unfinished = not path and found.body is None and self._store.exists(_MARK)
            if unfinished or _is_group(found):
                below += [join(path, name) for name in self._store.names_in(path)]

    def read(self, path: str) -> Stored:
        """Return the ``zarr.json`` of a node as it was when first read.

        Raises
        ------
        WriteConflictError
            It exists, but may not be replaced.
        """
        if path in self._first_read:
            return self._first_read[path]
        key = join(path, "zarr.json")
        found = self._store.read(key)
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

    def differs(self, path: str, body: bytes) -> bool:
        """Whether the ``zarr.json`` of a node differs from this one."""
        return self.read(path).body != body

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

    def close(self, changed: Collection[str], kept: Collection[str]) -> None:
        """Remove the metadata of a group at the root if several nodes will change.

        Until it is back, nobody can open the root and find a mixture of old and new nodes.
        The parameters are those of `require_unchanged`.
        """
        root = self.read("")
        # It copies all metadata, so it changes with any of it.
        has_copy = root.body is not None and b'"consolidated_metadata"' in root.body
        if len(self._concerned(changed, kept)) < 2 and not has_copy:
            return
        self._store.put({_MARK: _MARK_TEXT})
        if _is_group(root):
            self._store.delete("zarr.json")
            self._first_read[""] = Stored(None)

    def finish(self) -> None:
        """Remove the marker, once the metadata of the root is written."""
        if self._store.exists(_MARK):
            self._store.delete(_MARK)

    def replace(self, path: str, body: bytes) -> None:
        """Write the ``zarr.json`` of a group."""
        before = self.read(path)
        if before.body != body:
            self._store.replace(join(path, "zarr.json"), before, body)

    def remove_documents(self, path: str) -> None:
        """Remove the documents of an array that a group has replaced."""
        self._remove_documents(path, self.read(path))

    def _concerned(self, changed: Collection[str], kept: Collection[str]) -> set[str]:
        return {*changed, *(self._nodes.keys() - set(kept))}

    def remove_except(self, kept: Collection[str]) -> list[str]:
        """Remove all nodes but those in `kept`, and return their paths.

        Raises
        ------
        WriteConflictError
            Another writer has changed one of them.
        """
        removed = sorted(set(self._nodes) - set(kept), reverse=True)
        for path in removed:
            key = join(path, "zarr.json")
            if self._store.read(key).body not in (None, self._nodes[path].body):
                raise WriteConflictError(
                    "the node is not in the new hierarchy, but another writer has changed it",
                    array=path,
                    location=key,
                )
            self._store.delete(key)
            self._remove_documents(path, self._nodes[path])
        return removed[::-1]

    def _remove_documents(self, path: str, before: Stored) -> None:
        array, _ = earlier_array(path, before)
        if array is not None:
            remove_documents(self._store, array)


def _is_group(found: Stored) -> bool:
    node = None if found.body is None else parse_node(found.body)
    return node is not None and node.get("node_type") == "group"
