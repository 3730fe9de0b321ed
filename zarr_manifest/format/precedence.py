"""Consolidated metadata, and precedence: which metadata of a node count. Pure.

The commit of a change is one put of the ``zarr.json`` of a group, in general the root, whose
consolidated metadata have copies of what changes; the nodes' own ``zarr.json`` follow. Until they
have, the member ``pending`` of the consolidated metadata names, by path, the digest of the own
document that is replaced or removed, or null where there was none. As long as the own document is
that one, it is *behind*: the copy counts in its place, or, if there is no copy, the node does not
exist. Whatever else is found counts as it does without ``pending``.

An own document that is not behind, and differs from a copy, contradicts it. Either may be the older
one: readers may take what they have read, but no writer may choose.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format.declaration import TRANSFORMER_NAME, TRANSFORMERS, as_object
from zarr_manifest.format.declared_documents import document_checksum
from zarr_manifest.format.findings import Findings, strict
from zarr_manifest.format.keys import is_possible_path, join, member_of
from zarr_manifest.format.node_metadata import (
    ArrayMetadata,
    canonical_json,
    dump_node,
    members_in,
    parse_node,
)

_CONSOLIDATED = "consolidated_metadata"
_PENDING = "pending"

_DIGEST = r"sha256:[0-9a-f]{64}"

type Pending = Mapping[str, str | None]
"""By path of a node: the digest of the own ``zarr.json`` that a change replaces or removes."""

type Standing = Literal["own", "copy", "absent"]
"""What counts of a node: its own metadata, a group's copy of them, or that there is no node."""


def own_digest(own: bytes | None) -> str | None:
    """Return what ``pending`` says of an own ``zarr.json`` that is to be replaced, if there is one.

    Examples
    --------
    >>> own_digest(b"{}")
    'sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'
    """
    return None if own is None else document_checksum(own)


# Copies --------------------------------------------------------------------------------------


def consolidated_members(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the copies in a group's metadata, by path relative to the group."""
    consolidated = as_object(node.get(_CONSOLIDATED)) or {}
    return dict(as_object(consolidated.get("metadata")) or {})


def has_consolidated(node: Mapping[str, Any]) -> bool:
    """Whether a group's metadata have consolidated metadata."""
    return isinstance(node.get(_CONSOLIDATED), dict)


def with_members(node: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's metadata with copies of nodes below it.

    Examples
    --------
    >>> group = with_members({"node_type": "group"}, {"a": {"node_type": "array"}})
    >>> group["consolidated_metadata"]["metadata"]
    {'a': {'node_type': 'array'}}
    """
    copies = {
        "kind": "inline",
        "must_understand": False,
        "metadata": {member: members[member] for member in sorted(members)},
    }
    return {**node, _CONSOLIDATED: copies}


def without_copies(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's metadata without consolidated metadata."""
    return {name: node[name] for name in node if name != _CONSOLIDATED}


def contradicted_members(own: Mapping[str, Any] | None, copy: Mapping[str, Any]) -> list[str]:
    """Return the names of the members in which a copy differs from a node's own metadata.

    Copies of other nodes do not count, nor a lock that only one of them has.

    Parameters
    ----------
    own : mapping or None
        None if they are no JSON object.
    copy : mapping
        The copy in a group.

    Examples
    --------
    >>> own, copy = {"shape": [3], "attributes": {}}, {"shape": [5]}
    >>> contradicted_members(own, copy), contradicted_members(own, own)
    (['shape'], [])
    """
    ours, theirs = _stated(own or {}), _stated(copy)
    return sorted(
        name
        for name in ours.keys() | theirs.keys()
        if ours.get(name) != theirs.get(name)
        and canonical_json(ours.get(name)) != canonical_json(theirs.get(name))
    )


def _stated(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that say something."""
    array = ArrayMetadata("", without_copies(node))
    transformers, lock = array.agreed
    members = {**array.undeclared, TRANSFORMERS: transformers, TRANSFORMER_NAME: lock}
    return {name: value for name, value in members.items() if value not in (None, {}, [])}


# The member ``pending`` --------------------------------------------------------------------


def interpret_pending(root: Mapping[str, Any]) -> Findings[Pending]:
    """Yield what is invalid in the member ``pending``; return what is valid of it.

    Parameters
    ----------
    root : mapping
        The decoded ``zarr.json`` of the root.

    Examples
    --------
    >>> found = interpret_pending({"consolidated_metadata": {"pending": {"a/../b": None}}})
    >>> print(next(found).problem)
    the consolidated metadata are not valid: 'pending' names 'a/../b', which is not a node's path
    """
    consolidated = as_object(root.get(_CONSOLIDATED)) or {}
    if _PENDING not in consolidated:
        return {}
    stated = as_object(consolidated[_PENDING])
    if stated is None:
        yield _invalid(f"{_PENDING!r} is not an object")
        return {}
    valid: dict[str, str | None] = {}
    for path, replaced in stated.items():
        if not is_possible_path(path):
            yield _invalid(f"{_PENDING!r} names {path!r:.80}, which is not a node's path")
        elif replaced is not None and not (
            isinstance(replaced, str) and re.fullmatch(_DIGEST, replaced)
        ):
            yield _invalid(
                f"{_PENDING!r} says {json.dumps(replaced):.80} of the node {path!r:.80}, which is "
                "neither null nor 'sha256:' and 64 lowercase hex digits"
            )
        else:
            valid[path] = replaced
    return valid


def parse_pending(root: Mapping[str, Any]) -> Pending:
    """Return the member ``pending`` of the root's consolidated metadata; empty if there is none.

    Raises
    ------
    InvalidConfigurationError
        It is malformed.

    Examples
    --------
    >>> parse_pending({"consolidated_metadata": {"metadata": {}, "pending": {"a": None}}})
    {'a': None}
    >>> parse_pending({"attributes": {}})
    {}
    """
    return strict(interpret_pending(root))


def with_pending(root: dict[str, Any], pending: Pending) -> dict[str, Any]:
    """Return the root's metadata with this member ``pending``, without one if it is empty.

    Only where the metadata are consolidated: there are no copies that could count elsewhere.

    Examples
    --------
    >>> root = with_pending({"consolidated_metadata": {"metadata": {}}}, {"a": None})
    >>> root
    {'consolidated_metadata': {'metadata': {}, 'pending': {'a': None}}}
    >>> with_pending(root, {})
    {'consolidated_metadata': {'metadata': {}}}
    """
    consolidated = as_object(root.get(_CONSOLIDATED))
    if consolidated is None:
        return root
    rest = {name: value for name, value in consolidated.items() if name != _PENDING}
    stated = {_PENDING: dict(pending)} if pending else {}
    return {**root, _CONSOLIDATED: {**rest, **stated}}


# What counts ---------------------------------------------------------------------------------


class PendingChange:
    """A change that is committed, of which some nodes' own metadata may be behind.

    Parameters
    ----------
    pending : mapping of str to (str or None)
        What the group says of the nodes, by path below it.
    group : bytes
        The ``zarr.json`` of the root, or of another group with copies, as stored. The copies are
        parsed once one of them counts.
    node : dict, optional
        The same, parsed; not modified.

    Examples
    --------
    >>> old = b'{"node_type": "array", "shape": [3]}'
    >>> new = {"node_type": "array", "shape": [5]}
    >>> pending = {"a": document_checksum(old)}
    >>> root = with_pending({"consolidated_metadata": {"metadata": {"a": new}}}, pending)
    >>> change = PendingChange(pending, dump_node(root))
    >>> parse_node(change.counting("a", old)) == new
    True
    >>> change.counting("a", None) is None, change.counting("b", old) is old
    (True, True)
    """

    def __init__(self, pending: Pending, group: bytes, node: dict[str, Any] | None = None) -> None:
        self.pending = pending
        self._group = group
        self._node = node

    @functools.cached_property
    def _copies(self) -> dict[str, dict[str, Any]]:
        """The copies of all nodes, each without copies of its own."""
        members = members_in(self._node or parse_node(self._group) or {})
        return {
            path: without_copies(copy)
            for path, member in members
            if (copy := as_object(member)) is not None
        }

    def standing(self, path: str, own: bytes | None) -> Standing:
        """Return what counts of a node, given its own ``zarr.json``."""
        if path not in self.pending or self.pending[path] != own_digest(own):
            return "own"
        return "copy" if path in self._copies else "absent"

    def counting(self, path: str, own: bytes | None) -> bytes | None:
        """Return a node's ``zarr.json`` that counts; None if the node does not exist.

        The copy of a group gets copies of the nodes below it if the group's own has some.
        """
        found = self.standing(path, own)
        if found == "own":
            return own
        if found == "absent":
            return None
        copy = self._copies[path]
        is_group = copy.get("node_type") == "group"
        if is_group and own is not None and has_consolidated(parse_node(own) or {}):
            below = f"{path}/"
            members = {p: self._copies[p] for p in self._copies if p.startswith(below)}
            copy = with_members(copy, {p.removeprefix(below): members[p] for p in members})
        return dump_node(copy)

    def in_doubt(self) -> Iterator[str]:
        """Yield the paths of nodes that may be there without own metadata, or not be there with."""
        for path, replaced in self.pending.items():
            if replaced is None or path not in self._copies:
                yield path


class PendingChanges(dict[str, PendingChange]):
    """The changes that are being written, by the path of the group whose copies count.

    Usually one, of the root; of a group below, if the root has no consolidated metadata. Mostly
    there is none.
    """

    def note(self, group: str, body: bytes | None, node: dict[str, Any] | None) -> None:
        """Record what a group's ``zarr.json`` says, given as stored and parsed.

        Raises
        ------
        InvalidConfigurationError
            It does not say it validly.
        """
        self.pop(group, None)
        if body is not None and node is not None and (pending := parse_pending(node)):
            self[group] = PendingChange(pending, body)

    def standing(self, path: str, own: bytes | None) -> Standing:
        """Return what counts of a node, given its own ``zarr.json``."""
        for change, member in self.of(path):
            if (found := change.standing(member, own)) != "own":
                return found
        return "own"

    def counting(self, path: str, own: bytes | None) -> bytes | None:
        """Return a node's ``zarr.json`` that counts; None if the node does not exist."""
        for change, member in self.of(path):
            if change.standing(member, own) != "own":
                return change.counting(member, own)
        return own

    def of(self, path: str) -> Iterator[tuple[PendingChange, str]]:
        """Yield the changes of a node, and its path in their groups, the topmost first."""
        for group, change in sorted(self.items()):
            member = member_of(group, path)
            if member in change.pending:
                yield change, member

    def in_doubt(self) -> Iterator[str]:
        """Yield the paths of nodes that may be there without own metadata, or not be there with."""
        for group, change in self.items():
            for member in change.in_doubt():
                yield join(group, member)


def _invalid(problem: str) -> InvalidConfigurationError:
    return InvalidConfigurationError(
        f"the consolidated metadata are not valid: {problem}",
        remedy="Consolidate the metadata again, without this member.",
    )
