"""A change of nodes that readers see as a whole, and its commit.

New documents and chunk objects are written before, under names that nothing reads yet. The commit
is one conditional put: of the ``zarr.json`` of the group whose consolidated metadata have copies of
all that changes; or, where there are no copies and one node changes, of that node's. With it, the
copies say ``pending`` which own documents are still to follow (specification, "Consolidated
metadata"): readers then take the copies for them. The own documents are written, and a last put
removes ``pending``.

So a writer that is killed leaves the hierarchy as it was or as it will be, and the next writer, or
:func:`recover`, writes the own documents that are behind. Replaced documents stay, for readers that
opened the hierarchy before, until they are cleaned away.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from zarr_manifest.errors import InvalidConfigurationError, WriteConflictError
from zarr_manifest.format import (
    ancestors,
    as_object,
    consolidated_members,
    contradicted_members,
    dump_node,
    has_consolidated,
    impossible_name,
    join,
    member_of,
    members_in,
    own_digest,
    parse_node,
    with_members,
    with_pending,
    without_copies,
)
from zarr_manifest.hierarchy import Contradiction
from zarr_manifest.stores import store_name
from zarr_manifest.writing.committable import (
    is_group,
    require_groups,
    require_opening,
)
from zarr_manifest.writing.conditional_put import GuardedStore, Stored, repeatedly
from zarr_manifest.writing.finishing import (
    finish,
    lasting_contradiction,
    parsed,
    replace_own,
    uncopied,
)
from zarr_manifest.writing.threads import Call, in_threads


class _SeenNode(Struct, dict=True):
    """What was read of a node. Its metadata are not handed out: callers modify what they get."""

    stored: Stored
    names: list[str] | None = None  # in its directory

    @functools.cached_property
    def node(self) -> dict[str, Any] | None:
        return parsed(self.stored)

    @functools.cached_property
    def copies(self) -> dict[str, Any]:
        """The copies in a group, by path relative to it, none within another."""
        node = self.node or {}
        copies = dict(members_in(node))
        if len(copies) > len(consolidated_members(node)):
            copies = {member: uncopied(copy) for member, copy in copies.items()}
        return copies


class _WantedNode(Struct, dict=True):
    """What a node will be: its metadata, or None; a default only where there is no node."""

    body: bytes | None
    is_default: bool = False

    @functools.cached_property
    def node(self) -> dict[str, Any] | None:
        return None if self.body is None else parse_node(self.body)


class Change:
    """A change of the nodes of a hierarchy.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    replaces : bool
        Whether nodes may be read whose own metadata and copies contradict each other, because
        they will be set or removed whatever they are.

    Attributes
    ----------
    contradictions : dict of str to Contradiction
        Such nodes, by path.
    finished : set of str
        Paths of the nodes whose own metadata an earlier writer had left behind.
    is_committed : bool
        Whether readers see the change, also if an error was raised.

    Examples
    --------
    >>> from zarr.storage import MemoryStore
    >>> from zarr_manifest.writing import guarded_store
    >>> store = guarded_store(MemoryStore())
    >>> change = Change(store)
    >>> change.set("", {"zarr_format": 3, "node_type": "group"})
    >>> change.set("a", {"zarr_format": 3, "node_type": "group"})
    >>> change.commit(), change.commit()
    (['', 'a'], [])
    """

    def __init__(self, store: GuardedStore, *, replaces: bool = False) -> None:
        self.store = store
        self.contradictions: dict[str, Contradiction] = {}
        self._replaces = replaces
        self.finished: set[str] = set()
        self.is_committed = False
        self._seen: dict[str, _SeenNode] = {}
        self._wanted: dict[str, _WantedNode] = {}

    # What is there ------------------------------------------------------------------

    def read(self, path: str) -> Stored:
        """Return the ``zarr.json`` of a node as it was when first read.

        Own documents that are behind are written first.

        Raises
        ------
        LocationNotAllowedError
            It lies behind a symbolic link.
        InvalidConfigurationError
            A copy contradicts it.
        """
        if path not in self._seen:
            self.read_many([path])
        return self._seen[path].stored

    def read_many(self, paths: Iterable[str]) -> None:
        """Read the ``zarr.json`` of nodes, and of the groups above them, at the same time."""
        wanted = {each for path in paths for each in (path, *ancestors(path))}
        levels: dict[int, list[str]] = {}
        for path in wanted - self._seen.keys():
            levels.setdefault(path.count("/") + 1 if path else 0, []).append(path)
        # Groups first: what they say is pending is written before it is read.
        for _, level in sorted(levels.items()):
            calls = (Call(0, functools.partial(self._found, path)) for path in level)
            self._seen |= dict(zip(level, map(_SeenNode, in_threads(calls)), strict=True))
            for path in level:
                self._compare(path)

    def _compare(self, path: str) -> None:
        """Refuse own metadata that copies contradict: writing one of them would lose the other."""
        groups = [*reversed([*ancestors(path)])]
        own = self._seen[path].stored.body
        is_ours = self.is_committed and self._is_set(path)  # copies may have been added since
        if own is None or is_ours:
            return
        copies = [self._seen[group].copies.get(member_of(group, path)) for group in groups]
        stated = [copy for each in copies if (copy := as_object(each)) is not None]
        if not any(contradicted_members(self._node(path), copy) for copy in stated):
            return
        contradiction = lasting_contradiction(self.store, path, self._stored)
        if contradiction is None:
            return
        if not self._replaces:
            raise contradiction.error
        self.contradictions[path] = contradiction

    def _found(self, path: str) -> Stored:
        self.store.require_own(join(path, "zarr.json"))
        if path and self._is_empty:
            return Stored(None)
        found, written = finish(self.store, path, self.store.read(join(path, "zarr.json")))
        self.finished |= written
        return found

    @functools.cached_property
    def _is_empty(self) -> bool:
        """Whether there was nothing in the store; who creates a node meanwhile is met later."""
        return self._seen[""].stored.body is None and self.store.is_empty()

    def node(self, path: str) -> dict[str, Any] | None:
        """Return the metadata of a node as they were when first read; None if there are none."""
        return parsed(self.read(path))

    def _node(self, path: str) -> dict[str, Any] | None:
        """As :meth:`node`, but not to be modified."""
        self.read(path)
        return self._seen[path].node

    @property
    def _stored(self) -> dict[str, Stored]:
        return {path: found.stored for path, found in self._seen.items()}

    def nodes(self) -> dict[str, Stored]:
        """Return all nodes that can be reached from the root through groups, by path.

        Unlike ``list_nodes``, with the versions that a conditional put asks for, and after what
        was behind has been written.
        """
        return self._reached("", lambda path: is_group(self._node(path)))

    def others(self) -> list[str]:
        """Return paths in groups, read by :meth:`nodes`, that have something else than a node."""
        absent = [path for path, stored in self._stored.items() if stored.body is None]
        return [path for path in absent if self.store.names_in(path)]

    def _reached(self, group: str, is_group: Callable[[str], bool]) -> dict[str, Stored]:
        found: dict[str, Stored] = {}
        level = [group]
        while level:
            self.read_many(level)
            found |= {path: stored for path in level if (stored := self._seen[path].stored).body}
            level = [
                join(path, name)
                for path in filter(is_group, level)
                for name in self._names_in(path)
                if impossible_name(name) is None
            ]
        return found

    def _names_in(self, path: str) -> list[str]:
        found = self._seen[path]
        if found.names is None:
            found.names = [] if self._is_empty else self.store.names_in(path)
        return found.names

    def has_copies(self, path: str) -> bool:
        """Whether a node is a group with consolidated metadata."""
        return _has_copies(self._node(path))

    def _forget(self) -> None:
        self._seen.clear()
        self.contradictions.clear()
        self.__dict__.pop("_is_empty", None)

    # What it will be ----------------------------------------------------------------

    def set(self, path: str, metadata: dict[str, Any]) -> None:
        """Let a node have these metadata afterwards; copies in a group's are made anew."""
        self._wanted[path] = _WantedNode(dump_node(without_copies(metadata)))

    def set_default(self, path: str, metadata: dict[str, Any]) -> None:
        """Let there be a node with these metadata afterwards, unless there is another."""
        if not self._is_set(path):
            self._wanted[path] = _WantedNode(dump_node(without_copies(metadata)), is_default=True)

    def remove(self, path: str) -> None:
        """Let there be no node afterwards."""
        self._wanted[path] = _WantedNode(None)

    def _is_set(self, path: str) -> bool:
        """Whether a node is to be set or removed, whatever there is."""
        wanted = self._wanted.get(path)
        return wanted is not None and not wanted.is_default

    def _new_node(self, path: str) -> dict[str, Any] | None:
        """Return the metadata of a node as they will be if it is changed; see `_node`."""
        wanted = self._wanted.get(path)
        return None if wanted is None else wanted.node

    def commit(self, *, consolidate: bool = False) -> list[str]:
        """Change all nodes at once.

        If another writer has changed other nodes meanwhile, both changes count.

        Parameters
        ----------
        consolidate : bool
            Whether the root gets consolidated metadata in any case.

        Returns
        -------
        list of str
            Paths of the nodes that were created, replaced or removed, or of which there were
            other copies.

        Raises
        ------
        WriteConflictError
            Another writer has changed one of them meanwhile; nothing is changed then.
        """
        all_changed: set[str] = set()

        def attempt(number: int) -> WriteConflictError | bool:
            """Change them; return whether there are new copies, which have to follow."""
            changed = self._changed()
            all_changed.update(changed)
            place = self._place(changed, consolidate)
            try:
                committed = self._put(place, changed, is_complete=consolidate)
            except WriteConflictError as error:
                self._read_again(changed, place, error, is_first=number == 1)
                return error
            self.is_committed = True
            self._finish(place, committed)
            self._forget()
            return self._has_new_copies(changed, place)

        while repeatedly(attempt):
            pass
        return sorted(all_changed)

    def _changed(self) -> dict[str, bytes | None]:
        self.read_many(self._wanted)
        return {
            path: wanted.body
            for path, wanted in self._wanted.items()
            if self._is_changed(path) and self._differs(path, wanted.body)
        }

    def _is_changed(self, path: str) -> bool:
        """Whether a node is to be set, or removed, given what there is."""
        wanted = self._wanted.get(path)
        if wanted is None:
            return False
        return not wanted.is_default or self.read(path).body is None

    def _differs(self, path: str, after: bytes | None) -> bool:
        """Whether a node, or a copy of it, is not what it is to be."""
        node = self._new_node(path)
        return self._own_differs(path, after) or any(
            uncopied(self._seen[group].copies.get(member_of(group, path))) != node
            for group in ancestors(path)
            if self.has_copies(group)
        )

    def _own_differs(self, path: str, after: bytes | None) -> bool:
        before = self.read(path).body
        if before is None or after is None or before == after:
            return before != after
        node = self._node(path)
        return node is None or without_copies(node) != self._new_node(path)

    def _place(self, changed: Mapping[str, bytes | None], consolidate: bool) -> str | None:
        """Return the path of the group that is put as the commit.

        None if it is the only node that changes, of which nobody has a copy.
        """
        if consolidate and self._will_be_group(""):
            return ""
        is_single = len(changed) == 1
        for group in _groups_above_all(changed):
            # A reader of several nodes may have opened no other group than the root.
            if self.has_copies(group) and self._will_be_group(group) and (is_single or not group):
                return group
        if len(changed) > 1 and self._will_be_group(""):
            return ""
        if len(changed) > 1 and "" not in changed:
            raise WriteConflictError(
                "several nodes are to change at once, but there is no group at the root, whose "
                "consolidated metadata would say so",
                location=store_name(self.store.store),
                remedy="Create a group at the root first.",
            )
        return None

    def _will_be_group(self, path: str) -> bool:
        return is_group(self._new_node(path) if self._is_changed(path) else self._node(path))

    def _put(
        self, place: str | None, changed: Mapping[str, bytes | None], *, is_complete: bool
    ) -> Stored | None:
        """Put what makes readers see the change; return it if own metadata are to follow."""
        if place is None:
            # An array at the root first: nothing below it can be reached from then on.
            for path, body in sorted(changed.items()):
                replace_own(self.store, join(path, "zarr.json"), self.read(path), body)
            return None
        before = self.read(place)
        members = self._members(place, is_complete=is_complete)
        for path in changed.keys() - {place}:
            if changed[path] is None:
                members.pop(member_of(place, path), None)
            else:
                members[member_of(place, path)] = self._new_node(path)
        between = {
            group: member
            for path in changed
            for group in ancestors(path)
            if group not in changed and (member := member_of(place, group))
        }
        for group, member in between.items():
            # zarr finds no node whose groups have no copies.
            if member not in members and (node := self._node(group)) is not None:
                members[member] = without_copies(node)
        require_groups(place, members, changed)
        behind = [
            *(path for path in changed if path != place and self._own_differs(path, changed[path])),
            # Groups between have copies, too, that have to follow.
            *(group for group in between if self.has_copies(group)),
        ]
        pending = {
            member_of(place, path): own_digest(self.read(path).body) for path in sorted(behind)
        }
        node = (self._new_node(place) if changed.get(place) else self._node(place)) or {}
        document = dump_node(with_pending(with_members(node, members), pending))
        if document == before.body:
            return None
        if not is_complete and not self.has_copies(place):
            require_opening(document)
        return self.store.replace(join(place, "zarr.json"), before, document)

    def _members(self, group: str, *, is_complete: bool) -> dict[str, Any]:
        """Return the copies in a group; or, to complete them, those that it should have."""
        if self.has_copies(group) and not is_complete:
            return dict(self._seen[group].copies)
        nodes = self._reached(group, self._will_be_group)
        members: dict[str, Any] = {}
        for path in nodes.keys() - {group}:
            node = self._node(path)
            is_set = self._is_set(path)
            if path in self.contradictions and not is_set and not is_group(node):
                raise self.contradictions[path].error
            if node is None and is_set:
                continue  # it is replaced
            if node is None:
                raise InvalidConfigurationError("'zarr.json' is not a JSON object", array=path)
            members[member_of(group, path)] = without_copies(node)
        return members

    def _finish(self, place: str | None, committed: Stored | None) -> None:
        if place is None or committed is None:
            return
        try:
            finish(self.store, place, committed, self._stored)
        except Exception as error:
            error.add_note(
                "The change was made all the same. Own metadata of some nodes are behind: the "
                "next writer writes them, or run: zarr-manifest recover LOCATION"
            )
            raise

    def _has_new_copies(self, changed: Mapping[str, bytes | None], place: str | None) -> bool:
        """Whether a group above the place has got copies since, which have to follow."""
        return any(
            _has_copies(parsed(self.store.read(join(group, "zarr.json"))))
            for group in _groups_above_all(changed)
            if group not in changed and (place is None or len(group) < len(place))
        )

    def _read_again(
        self,
        changed: Mapping[str, bytes | None],
        place: str | None,
        error: WriteConflictError,
        *,
        is_first: bool,
    ) -> None:
        """Read nodes again; raise if others than copies have changed since."""
        paths = {each for path in changed for each in (path, *ancestors(path))}
        paths |= set() if place is None else {place}
        before = {path: self.read(path) for path in paths}
        old = {path: self._node(path) for path in paths}
        self._forget()
        self.read_many(paths)
        if not is_first and before == {path: self.read(path) for path in paths}:
            raise error  # not because of another change
        if not self._changed():
            return  # it was made already: the response was lost, or another made the same
        for path in sorted(paths):
            new = self._node(path)
            if self._is_set(path):
                is_other = uncopied(old[path]) != uncopied(new)
            else:
                is_other = not is_group(new) and (new is not None or is_group(old[path]))
            if is_other:
                raise error.in_context(array=path) from error.__cause__


def _has_copies(node: dict[str, Any] | None) -> bool:
    return is_group(node) and has_consolidated(node or {})


def _groups_above_all(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths of the groups that are above some nodes or among them, the root first."""
    chains = [[*reversed([*ancestors(path)]), path] for path in paths]
    for groups in zip(*chains, strict=False):
        if len(set(groups)) > 1:
            return
        yield groups[0]
