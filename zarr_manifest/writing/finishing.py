"""Own metadata of nodes that are behind a group's copies: what a commit leaves to be written.

The copies say ``pending`` which own documents are to follow (specification, "Consolidated
metadata"). Any writer writes them, several at once, and then removes ``pending``. Own documents
that are not behind, and differ from a copy, contradict it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

from zarr_manifest.errors import WriteConflictError
from zarr_manifest.format import (
    PendingChange,
    ancestors,
    dump_node,
    has_consolidated,
    join,
    members_in,
    own_digest,
    parse_node,
    parse_pending,
    with_pending,
    without_copies,
)
from zarr_manifest.hierarchy import Contradiction, being_changed, find_contradiction
from zarr_manifest.writing.conditional_put import GuardedStore, Stored, repeatedly
from zarr_manifest.writing.threads import Call, in_threads


def finish(
    store: GuardedStore,
    group: str,
    stored: Stored,
    known: Mapping[str, Stored] | None = None,
) -> tuple[Stored, set[str]]:
    """Write the own documents that are behind the copies in a group.

    Return the group's, nothing of which is pending, and the paths of nodes whose own were written.

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
    key = join(group, "zarr.json")
    # What this call has left of own documents, by member.
    left: dict[str, str | None] = {}
    while True:
        if not left and _has_nothing_pending(stored.body):
            return stored, set()
        node = parsed(stored) or {}
        pending = parse_pending(node)
        late: dict[str, str | None] = {}
        if left and has_consolidated(node):
            # Others have committed since. What was written too late is behind their copies.
            copies = {member for member, _ in members_in(node)}
            late = {member: digest for member, digest in left.items() if member in copies}
        if stored.body is not None and (pending or late):
            change = PendingChange({**late, **pending}, stored.body, node)
            calls = (
                Call(0, functools.partial(_follow, store, group, member, change, known or {}))
                for member in change.pending
            )
            left |= {
                member: own_digest(own.body) for member, own in in_threads(calls) if own is not None
            }
        if not pending:
            return stored, {join(group, member) for member in left}
        try:
            stored = store.replace(key, stored, dump_node(with_pending(node, {})))
        except WriteConflictError:
            found = store.read(key)
            if found == stored:
                raise
            stored, known = found, None
        else:
            return stored, {join(group, member) for member in left}


def _has_nothing_pending(document: bytes | None) -> bool:
    """Whether metadata have no member of this name, which may be written with escapes."""
    return document is None or (b'"pending"' not in document and rb"\u" not in document)


def _follow(
    store: GuardedStore,
    group: str,
    member: str,
    change: PendingChange,
    known: Mapping[str, Stored],
) -> tuple[str, Stored | None]:
    """Write a node's own document if it is behind; return it if it was."""
    path = join(group, member)
    key = join(path, "zarr.json")
    own = known.get(path)
    if own is None:
        store.require_own(key)
        own = store.read(key)
    body = change.counting(member, own.body)
    if body == own.body:
        return member, None
    try:
        replace_own(store, key, own, body)
    except WriteConflictError:
        # Whoever wrote it meanwhile finishes this as well, or knows what came after.
        found = store.read(key).body
        if found != change.counting(member, found):
            raise
        return member, None
    return member, Stored(body)


def lasting_contradiction(
    store: GuardedStore, path: str, known: Mapping[str, Stored]
) -> Contradiction | None:
    """Return how a node's own metadata and copies contradict each other, once they stay the same.

    Others may have committed between two of the readings: both are read again until nothing has
    changed meanwhile.

    Parameters
    ----------
    store : GuardedStore
        The hierarchy's own store.
    path : str
        Path of the node.
    known : mapping of str to Stored
        What was read of it, and of the groups above it.

    Raises
    ------
    WriteConflictError
        Others go on committing.
    """
    paths = [*reversed([*ancestors(path)]), path]
    bodies = {each: known[each].body for each in paths}

    def read_again(_: int) -> Contradiction | WriteConflictError | None:
        nonlocal bodies
        before = bodies
        bodies = {each: store.read(join(each, "zarr.json")).body for each in paths}
        groups = {each: body for each, body in bodies.items() if each != path}
        found = find_contradiction(path, bodies[path], groups)
        return found if found is None or bodies == before else being_changed(path)

    return repeatedly(read_again)


def replace_own(store: GuardedStore, key: str, before: Stored, body: bytes | None) -> None:
    """Replace, create or remove an object, unless it is so."""
    if body == before.body:
        return
    if body is None:
        store.remove(key, before)
    else:
        store.replace(key, before, body)


def uncopied(node: Any) -> Any:
    """Return metadata without consolidated metadata; anything else as it is."""
    return without_copies(cast("dict[str, Any]", node)) if isinstance(node, dict) else node


def parsed(found: Stored) -> dict[str, Any] | None:
    """Return the metadata of a node; None if there are none."""
    return None if found.body is None else parse_node(found.body)
