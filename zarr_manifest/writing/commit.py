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

import contextlib
import functools
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zarr.abc.store import Store

from zarr_manifest.errors import WriteConflictError
from zarr_manifest.format import (
    PendingChange,
    ancestors,
    consolidated_members,
    digest_of,
    dump_node,
    has_consolidated,
    join,
    parse_node,
    parse_pending,
    with_members,
    with_pending,
    without_copies,
)
from zarr_manifest.hierarchy import store_underneath
from zarr_manifest.sources import Allow, access_by_prefix
from zarr_manifest.stores import open_hierarchy, store_name
from zarr_manifest.writing.conditional_put import GuardedStore, Stored, guarded_store
from zarr_manifest.writing.threads import Call, in_threads

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# Others may commit at the same time, to other nodes.
_MOST_ATTEMPTS = 20

# In seconds, about as long as a commit takes: two that met must not meet again.
_PAUSE = 0.05


class Change:
    """A change of the nodes of a hierarchy.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.

    Examples
    --------
    >>> from zarr.storage import MemoryStore
    >>> store = guarded_store(MemoryStore())
    >>> change = Change(store)
    >>> change.set("", {"zarr_format": 3, "node_type": "group"})
    >>> change.set("a", {"zarr_format": 3, "node_type": "group"})
    >>> change.commit(), change.commit()
    (['', 'a'], [])
    """

    def __init__(self, store: GuardedStore) -> None:
        self.store = store
        self._before: dict[str, Stored] = {}
        self._after: dict[str, bytes | None] = {}
        self._is_whole = False

    # What is there ------------------------------------------------------------------

    def read(self, path: str) -> Stored:
        """Return the ``zarr.json`` of a node as it was when first read.

        Own documents that are behind are written first.

        Raises
        ------
        LocationNotAllowedError
            It lies behind a symbolic link.
        """
        if path not in self._before:
            self.read_many([path])
        return self._before[path]

    def read_many(self, paths: Iterable[str]) -> None:
        """Read the ``zarr.json`` of nodes, and of the groups above them, at the same time."""
        wanted = {each for path in paths for each in (path, *ancestors(path))}
        levels: dict[int, list[str]] = {}
        for path in wanted - self._before.keys():
            levels.setdefault(path.count("/") + 1 if path else 0, []).append(path)
        # Groups first: what they say is pending is written before it is read.
        for _, level in sorted(levels.items()):
            calls = (Call(0, functools.partial(self._found, path)) for path in level)
            self._before |= dict(zip(level, in_threads(calls), strict=True))

    def _found(self, path: str) -> Stored:
        self.store.require_own(join(path, "zarr.json"))
        if path and self._is_empty:
            return Stored(None)
        return finish(self.store, path, self.store.read(join(path, "zarr.json")))

    @functools.cached_property
    def _is_empty(self) -> bool:
        """Whether there was nothing in the store; who creates a node meanwhile is met later."""
        return self._before[""].body is None and self.store.is_empty()

    def node(self, path: str) -> dict[str, Any] | None:
        """Return the metadata of a node as they were when first read; None if there are none."""
        return _parsed(self.read(path))

    def nodes(self) -> dict[str, Stored]:
        """Return all nodes that can be reached from the root through groups, by path."""
        found: dict[str, Stored] = {}
        level = [""]
        while level:
            self.read_many(level)
            found |= {path: self._before[path] for path in level if self._before[path].body}
            level = [
                join(path, name)
                for path in level
                if (_parsed(self._before[path]) or {}).get("node_type") == "group"
                for name in self.store.names_in(path)
            ]
        self._is_whole = True
        return found

    def has_copies(self, path: str) -> bool:
        """Whether a node is a group with consolidated metadata."""
        return has_consolidated(self.node(path) or {})

    # What it will be ----------------------------------------------------------------

    def set(self, path: str, metadata: dict[str, Any]) -> None:
        """Let a node have these metadata afterwards; copies in a group's are made anew."""
        self._after[path] = dump_node(without_copies(metadata))

    def remove(self, path: str) -> None:
        """Let there be no node afterwards."""
        self._after[path] = None

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
            Paths of the nodes that were created, replaced or removed.

        Raises
        ------
        WriteConflictError
            Another writer has changed one of them meanwhile; nothing is changed then.
        """
        for attempt in range(_MOST_ATTEMPTS):
            self.read_many(self._after)
            changed = {path: body for path, body in self._after.items() if self._differs(path)}
            place = self._place(changed, consolidate)
            try:
                self._put(place, changed, is_complete=consolidate)
            except WriteConflictError as error:
                if attempt == _MOST_ATTEMPTS - 1:
                    raise
                self._read_again({*changed, *(() if place is None else (place,))}, error)
                time.sleep(random.uniform(0, _PAUSE * 2 ** min(attempt, 5)))
                continue
            return sorted(changed)
        raise AssertionError  # the last attempt has returned or raised

    def _differs(self, path: str) -> bool:
        before, after = self.read(path).body, self._after[path]
        if before is None or after is None or before == after:
            return before != after
        node = parse_node(before)
        return node is None or without_copies(node) != parse_node(after)

    def _place(self, changed: Mapping[str, bytes | None], consolidate: bool) -> str | None:
        """Return the path of the group that is put as the commit.

        None if it is the only node that changes, of which nobody has a copy.
        """
        above = _groups_above_all(changed)
        for group in above:
            if self._will_be_group(group) and self.has_copies(group):
                return group
        if self._will_be_group("") and (consolidate or len(changed) > 1):
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
        body = self._after[path] if path in self._after else self.read(path).body
        node = None if body is None else parse_node(body)
        return (node or {}).get("node_type") == "group"

    def _put(
        self, place: str | None, changed: Mapping[str, bytes | None], *, is_complete: bool
    ) -> None:
        if place is None:
            # An array at the root first: nothing below it can be reached from then on.
            for path, body in sorted(changed.items()):
                _replace(self.store, join(path, "zarr.json"), self.read(path), body)
            return
        before = self.read(place)
        members = self._members(place, is_complete=is_complete)
        for path in changed.keys() - {place}:
            body = changed[path]
            if body is None:
                members.pop(_member(place, path), None)
            else:
                members[_member(place, path)] = parse_node(body)
        # Groups between have copies, too, that have to follow.
        between = {
            group
            for path in changed
            for group in ancestors(path)
            if group.startswith(_below(place)) and group != place and self.has_copies(group)
        }
        behind = sorted({*changed, *between} - {place})
        pending = {_member(place, path): _digest(self.read(path)) for path in behind}
        node = parse_node(changed.get(place) or before.body or b"") or {}
        document = dump_node(with_pending(with_members(node, members), pending))
        if document == before.body:
            return
        stored = self.store.replace(join(place, "zarr.json"), before, document)
        try:
            finish(self.store, place, stored, self._before)
        except Exception as error:
            error.add_note(
                "The change was made all the same. Own metadata of some nodes are behind: the "
                "next writer writes them, or run: zarr-manifest recover LOCATION"
            )
            raise

    def _members(self, group: str, *, is_complete: bool) -> dict[str, Any]:
        """Return the copies in a group; or, to complete them, those that it should have."""
        if self.has_copies(group) and not is_complete:
            return consolidated_members(self.node(group) or {})
        nodes = self._before if self._is_whole else self.nodes()
        parsed = {path: _parsed(stored) for path, stored in list(nodes.items())}
        return {
            _member(group, path): without_copies(node)
            for path, node in parsed.items()
            if node is not None and path != group and path.startswith(_below(group))
        }

    def _read_again(self, paths: Iterable[str], error: WriteConflictError) -> None:
        """Read nodes again; raise if others than copies have changed since."""
        before = {path: self._before[path] for path in paths}
        self._before.clear()
        self._is_whole = False
        self.__dict__.pop("_is_empty", None)
        for path in paths:
            old, new = _parsed(before[path]), self.node(path)
            is_changed = (old and without_copies(old)) != (new and without_copies(new))
            if is_changed and (path in self._after or new is None):
                raise error.in_context(array=path) from error.__cause__


def finish(
    store: GuardedStore,
    group: str,
    stored: Stored,
    known: Mapping[str, Stored] | None = None,
) -> Stored:
    """Write the own documents that are behind the copies in a group, and return the group's.

    May be repeated, and be done by several writers at once.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    group : str
        Path of the group.
    stored : Stored
        Its ``zarr.json``.
    known : mapping of str to Stored, optional
        Own documents that need not be read again.
    """
    node = _parsed(stored) or {}
    pending = parse_pending(node)
    if not pending or stored.body is None:
        return stored
    change = PendingChange(pending, stored.body)

    def write(member: str) -> None:
        path = join(group, member)
        key = join(path, "zarr.json")
        store.require_own(key)
        own = (known or {}).get(path) or store.read(key)
        # Whoever wrote it meanwhile finishes this as well, or knows what came after.
        with contextlib.suppress(WriteConflictError):
            _replace(store, key, own, change.counting(member, own.body))

    for _ in in_threads(Call(0, functools.partial(write, member)) for member in pending):
        pass
    key = join(group, "zarr.json")
    try:
        return store.replace(key, stored, dump_node(with_pending(node, {})))
    except WriteConflictError:
        return finish(store, group, store.read(key))


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
    own = store_underneath(open_hierarchy(location, access_by_prefix(allow)))
    store = guarded_store(own, sole_writer=sole_writer)
    behind: list[str] = []
    below = [""]
    while below:
        path = below.pop()
        stored = store.read(join(path, "zarr.json"))
        node = _parsed(stored) or {}
        pending = parse_pending(node)
        change = PendingChange(pending, stored.body or b"")
        for member in pending:
            found = store.read(join(join(path, member), "zarr.json")).body
            behind += [] if change.standing(member, found) == "own" else [join(path, member)]
        finish(store, path, stored)
        if node.get("node_type") == "group":
            below += [join(path, name) for name in store.names_in(path)]
    return sorted(behind)


def _replace(store: GuardedStore, key: str, before: Stored, body: bytes | None) -> None:
    if body == before.body:
        return
    if body is None:
        store.remove(key, before)
    else:
        store.replace(key, before, body)


def _digest(found: Stored) -> str | None:
    return None if found.body is None else digest_of(found.body)


def _parsed(found: Stored) -> dict[str, Any] | None:
    return None if found.body is None else parse_node(found.body)


def _groups_above_all(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths of the groups that are above some nodes or among them, the root first."""
    chains = [[*reversed([*ancestors(path)]), path] for path in paths]
    for groups in zip(*chains, strict=False):
        if len(set(groups)) > 1:
            return
        yield groups[0]


def _below(group: str) -> str:
    return f"{group}/" if group else ""


def _member(group: str, path: str) -> str:
    return path[len(group) :].lstrip("/")
