"""Stored nodes: own metadata as they are read, all of the state that the groups' copies describe.

A change is committed with the copies in a group, in general the root, and own metadata follow. So
whoever reads these one after the other may meet some of before and some of after a change. A reader
that has seen the copies knows what to expect: of what differs from it, the group is read again.
"""

from __future__ import annotations

from typing import Any

from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import in_context
from zarr_manifest.format import ArrayMetadata, ancestors, arrays_in, dump_briefly, join, parse_node
from zarr_manifest.hierarchy.contradictions import changed_since
from zarr_manifest.hierarchy.node_table import NodeTable

# Number of times that a member and its group are read until they belong to the same state.
_MOST_READINGS = 5


class StoredNodes(NodeTable):
    """The nodes of a hierarchy, and their metadata in its store.

    Parameters
    ----------
    store, build, remembered
        As of :class:`NodeTable`.
    """

    # One state of all members ------------------------------------------------------

    async def of_one_state(self, path: str, stored: bytes | None) -> bytes | None:
        """Return a node's own ``zarr.json`` that belongs to the copies that are known.

        If it differs from its copy, that of the group is read again. If a change was committed,
        all members are from then on as they are after it.

        Parameters
        ----------
        path : str
            Path of the node.
        stored : bytes or None
            Its own ``zarr.json`` as just read.

        Raises
        ------
        ManifestNotFoundError
            Other members have been opened that the change concerns, too.
        """
        groups = [group for group in ancestors(path) if self._known(group).described]
        for _ in range(_MOST_READINGS if groups else 0):
            with in_context(array=path):
                group = self._group_in_doubt(path, stored, groups)
            if group is None or not await self._have_moved(group, path):
                break
            stored = await self.stored(path)  # it may be from before the change
        if groups and stored is not None:
            self._state(path).is_shown = True
        return stored

    def _group_in_doubt(self, path: str, stored: bytes | None, groups: list[str]) -> str | None:
        """Return one of the groups whose copies an array's own metadata differ from, or None."""
        state = self._known(path)
        array = array_in(self.remembered.changes.counting(path, stored))
        if state.copy is None:
            return groups[-1] if array is not None and state.own is None else None
        if array is None:
            return state.copy.group
        is_known = dump_briefly(array.metadata) == state.made_of or state.copy.has(array)
        return None if is_known else state.copy.group

    async def _have_moved(self, group: str, path: str) -> bool:
        """Read the copies in a group again; return whether they are others."""
        body = await self.metadata(group)
        node = parse_node(body or b"") or {}
        copies = {join(group, array.path): array for array in arrays_in(node) if array.path}
        known = {each: self._known(each).copy for each in self._known(group).described or ()}
        moved = {
            each
            for each in known.keys() | copies.keys()
            if each not in copies or (copy := known.get(each)) is None or not copy.has(copies[each])
        }
        self.remembered.changes.note(group, body, node)
        if not moved:
            return False
        open_before = sorted(each for each in moved - {path} if self._known(each).is_shown)
        if open_before:
            raise changed_since(path, open_before[0])
        self._forget_copies(group)
        for each, array in copies.items():
            self._note(each, array, group)
        return True

    # While a change is written -----------------------------------------------------

    async def see_group(self, path: str) -> None:
        """Read which nodes' own metadata may be behind a group's copies.

        Raises
        ------
        ManifestError
            The group's ``zarr.json`` does not say it validly.
        """
        body = await self.metadata(path)
        # Not parsed without need: it may describe many nodes.
        node = parse_node(body) if body and b'"pending"' in body else None
        self.remembered.changes.note(path, body, node)

    async def _is_v2(self, path: str) -> bool:
        return await self._stored(join(path, ".zarray")) is not None

    async def metadata(self, path: str) -> bytes | None:
        """Read the ``zarr.json`` that counts for a node."""
        return self.remembered.changes.counting(path, await self.stored(path))

    async def stored(self, path: str) -> bytes | None:
        """Read a node's own ``zarr.json``."""
        return await self._stored(join(path, "zarr.json"))

    async def _stored(self, key: str) -> bytes | None:
        found = await self._store.get(key, default_buffer_prototype())
        return None if found is None else found.to_bytes()

    def _stored_sync(self, key: str) -> bytes | None:
        store: Any = self._store  # get_sync is not declared by ``Store``
        found = store.get_sync(key, prototype=default_buffer_prototype())
        return None if found is None else found.to_bytes()


def array_in(body: bytes | None) -> ArrayMetadata | None:
    """Return the metadata in the ``zarr.json`` of an array; None for anything else."""
    node = None if body is None else parse_node(body)
    is_array = node is not None and node.get("node_type") == "array"
    return ArrayMetadata("", node) if node is not None and is_array else None
