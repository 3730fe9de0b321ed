"""Walk over a hierarchy: its nodes, in order.

A node has its own metadata document, or is in the consolidated metadata of a group; if a store
cannot be listed, only the latter can be found. Symbolic links that lead out of a hierarchy are
not followed: the hierarchy may be untrusted.

All nodes are found by this walk, also those outside of groups. Two others go through groups:
that of :mod:`zarr_manifest.hierarchy.changing` ends at the first declaration, and ``Change.nodes``
reads what a conditional put needs. What zarr lists are keys
(:mod:`zarr_manifest.hierarchy.listing`).
"""

from __future__ import annotations

import asyncio
import errno
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace
from zarr.abc.store import Store
from zarr.storage import LocalStore

from zarr_manifest.errors import (
    Advice,
    InvalidConfigurationError,
    LimitExceededError,
    LocationNotAllowedError,
    ManifestError,
    NotConvertibleError,
    SourceNotFoundError,
)
from zarr_manifest.format import (
    ArrayMetadata,
    PendingChanges,
    ancestors,
    dump_node,
    is_possible_path,
    join,
    members_in,
    parse_node,
    parse_pending,
)
from zarr_manifest.hierarchy.contradictions import not_a_path
from zarr_manifest.hierarchy.known_nodes import CONCURRENT_CALLS
from zarr_manifest.sources import in_order
from zarr_manifest.stores import (
    CONSOLIDATE,
    Listing,
    can_list,
    inside_store,
    link_outside,
    list_inside,
    list_members,
    list_names,
    listed_directory,
    not_listable,
    store_name,
    value_of,
)
from zarr_manifest.zarr_internals import ensure_open

_V3 = "zarr.json"
_ANY = "Zarr hierarchy"

# If a node has several, zarr reads the first of these.
_NAMES = (_V3, ".zarray", ".zgroup")


class Node(Struct, frozen=True):
    """A group, an array, or a node that cannot be read.

    Parameters
    ----------
    path : str
        Path in the hierarchy, without slashes at the ends; ``""`` for the root.
    name : {"zarr.json", ".zarray", ".zgroup"}
        Name of its metadata document, which depends on the version of the format.
    metadata : dict
        Content of the document; empty if there is a problem.
    is_own : bool
        Whether the document was read; otherwise, it is a member of consolidated metadata.
    body : bytes or None
        The document as stored, if it was read and is to be kept.
    problem : ManifestError or None
        Why it cannot be read.
    is_behind : bool
        Whether it has been changed, but its own document is still the former one, or none.
    """

    path: str
    name: str = _V3
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    is_own: bool = False
    body: bytes | None = None
    problem: ManifestError | None = None
    is_behind: bool = False

    @property
    def kind(self) -> Literal["group", "array", "invalid"]:
        """The kind of node."""
        if self.problem is not None:
            return "invalid"
        is_array = self.name == ".zarray" or self.metadata.get("node_type") == "array"
        return "array" if is_array else "group"

    @property
    def is_v2(self) -> bool:
        """Whether it is a Zarr v2 node."""
        return self.name != _V3

    @property
    def array(self) -> ArrayMetadata | None:
        """The metadata of a Zarr v3 array, which may declare a manifest."""
        is_v3_array = self.kind == "array" and not self.is_v2
        return ArrayMetadata("", self.metadata) if is_v3_array else None

    def require_v3(self) -> None:
        """Reject a node that is not Zarr v3, or cannot be read.

        Raises
        ------
        ManifestError
            Its problem; ``not_convertible`` for a node of Zarr v2.
        """
        if self.problem is not None:
            raise self.problem.in_context()
        if self.is_v2:
            raise NotConvertibleError(f"the node is Zarr v2, and has no {_V3!r}")


async def open_for_reading(store: Store, *, what: str = _ANY, remedy: str | None = None) -> Store:
    """Return a store, opened for reading, without creating anything.

    Parameters
    ----------
    store : Store
        Not a ManifestStore.
    what, remedy
        As for :func:`no_hierarchy`, if there is no such directory.

    Raises
    ------
    SourceNotFoundError
        There is no such directory.
    """
    if type(store) is LocalStore:
        # Otherwise zarr creates a directory that does not exist.
        store = store.with_read_only(True)
    try:
        await ensure_open(store)
    except FileNotFoundError as error:
        raise no_hierarchy(store, what=what, remedy=remedy) from error
    return store


def no_hierarchy(
    store: Store, *, what: str = _ANY, remedy: str | None = None
) -> SourceNotFoundError:
    """Return the error for a store that lacks a hierarchy, or `what`."""
    return SourceNotFoundError(
        f"there is no {what}",
        location=store_name(store),
        remedy=remedy or f"Name the directory or URL that contains the {_V3!r} of its root.",
    )


async def list_nodes(
    store: Store,
    below: str = "",
    *,
    deep: bool = True,
    instead: str = "",
    directories: tuple[str, ...] = (),
    listing: Listing | None = None,
    as_stored: bool = False,
) -> list[Node]:
    """Return the nodes of a hierarchy, sorted by path, so that parents come first.

    While a change is being written, these are the nodes after it: where own documents are behind,
    the copies count.

    Parameters
    ----------
    store : Store
        From :func:`open_for_reading`, not a ManifestStore.
    below : str
        Path of the node to start from.
    deep : bool
        Whether to return more than that node and its members.
    instead : str
        Another remedy if the store cannot be listed, besides consolidating.
    directories : tuple of str
        Where links may lead besides: what the reader authorised.
    listing : Listing, optional
        The metadata documents of all nodes, if the caller has listed the store.
    as_stored : bool
        Whether own documents count that are behind.

    Raises
    ------
    SourceNotFoundError
        There is no Zarr hierarchy.
    SourceError
        The store failed, or cannot be listed and has no consolidated metadata.
    SourceAccessDeniedError
        There is no permission to list a directory.
    """
    inside = inside_store(store, directories)
    links: list[str] = []
    if can_list(store):
        if listing is None:
            listing = await _listing(store, below, deep, directories)
        if listing is None:
            nodes = await _members(store, inside, below)
        else:
            nodes = await _listed(inside, listing, below, deep)
            links = await asyncio.to_thread(_directories, store, listing.links)
        # Whose consolidated metadata may have nodes below.
        above = [await _read_any(inside, path) for path in reversed([*ancestors(below)])]
        nodes = [*(node for node in above if node is not None), *nodes]
        if not as_stored:
            nodes = await _counting(inside, nodes)
    else:
        nodes = await _root(inside, instead)
    found = _with_members(nodes)
    if not found and not below:
        raise no_hierarchy(store)
    arrays = {path for path, node in found.items() if node.kind == "array"}
    for path in links:
        if arrays.isdisjoint([path, *ancestors(path)]):
            # There may be nodes behind it, of a group that has no metadata.
            found[path] = Node(path, problem=link_outside(path))
    return _in_order(node for path, node in found.items() if _is_within(path, below, deep))


def nodes_of(documents: Mapping[str, bytes]) -> list[Node]:
    """Return the nodes with some ``zarr.json``, and those in their consolidated metadata.

    Parameters
    ----------
    documents : mapping of str to bytes
        Own documents as stored, by path, none of which is behind.

    Returns
    -------
    list of Node
        As of :func:`list_nodes`, for callers that have read the documents.

    Examples
    --------
    >>> [node.path for node in nodes_of({"b": b'{"node_type": "group"}', "": b"{}"})]
    ['', 'b']
    """
    nodes = [_node_with(path, _V3, body) for path, body in documents.items()]
    return _in_order(_with_members(nodes).values())


def _in_order(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: node.path.split("/") if node.path else [])


async def read_nodes(
    store: Store,
    paths: Iterable[str],
    directories: tuple[str, ...] = (),
    *,
    as_stored: bool = False,
) -> dict[str, Node]:
    """Return the nodes at some paths that exist, by path, with their documents as stored.

    What counts is read, as by :func:`list_nodes`, and the groups above for that; unless own
    documents are wanted `as_stored`.

    Raises
    ------
    SourceError, SourceAccessDeniedError
        The store failed.
    """
    wanted = dict.fromkeys(paths)
    above = () if as_stored else (group for path in wanted for group in ancestors(path))
    every = wanted | dict.fromkeys(above)
    inside = inside_store(store, directories)
    calls = (functools.partial(_read_any, inside, path) for path in every)
    found = [node async for node in in_order(calls, CONCURRENT_CALLS) if node is not None]
    if not as_stored:
        found = await _counting(inside, found)
    return {node.path: node for node in found if node.path in wanted}


async def _counting(inside: Store, nodes: list[Node]) -> list[Node]:
    """Return the nodes that count, given those that have documents of their own.

    Documents that may be behind are read again, after those of the groups that say so.
    """
    found = {node.path: node for node in nodes}
    changes = PendingChanges()
    for path in sorted(found):
        node = found[path]
        if node.kind == "group" and not any(changes.of(path)):
            try:
                if parse_pending(node.metadata):
                    changes.note(path, node.body or dump_node(node.metadata), node.metadata)
            except ManifestError as error:
                found[path] = replace(node, problem=error.in_context(array=path))
    named = [join(group, member) for group, change in changes.items() for member in change.pending]
    calls = (functools.partial(_read, inside, path, _V3) for path in named)
    read = [own async for own in in_order(calls, CONCURRENT_CALLS)]
    for path, own in zip(named, read, strict=True):
        if own is not None and own.body is None:
            continue  # a link that leads out
        body = None if own is None else own.body
        standing = changes.standing(path, body)
        if standing == "own":
            if own is not None:
                found[path] = own
            continue
        found.pop(path, None)
        copy = changes.counting(path, body)
        if copy is not None:
            node = _interpreted(path, _V3, parse_node(copy), None)
            found[path] = replace(node, is_behind=True)
    return list(found.values())


def _is_within(path: str, below: str, deep: bool) -> bool:
    inside = path.removeprefix(below).lstrip("/") if below else path
    is_below = not below or path == below or path.startswith(f"{below}/")
    return is_below and (deep or "/" not in inside)


# Finding nodes --------------------------------------------------------------------------


async def _listing(
    store: Store, below: str, deep: bool, directories: tuple[str, ...]
) -> Listing | None:
    """Return the documents at and below a path; None for members of what is not a directory."""
    if deep:
        return await list_inside(store, f"{below}/" if below else "", directories)
    root = listed_directory(store)
    return None if root is None else await list_members(root, below, directories)


async def _listed(inside: Store, listing: Listing, below: str, deep: bool) -> list[Node]:
    found: dict[str, str] = {}
    for key in listing.keys:
        path, _, name = key.rpartition("/")
        if name in _NAMES and _is_within(path, below, deep):
            found[path] = min(name, found.get(path, name), key=_NAMES.index)
    links = dict.fromkeys(listing.nodes)
    calls = (
        functools.partial(_read_listed, inside, path, name)
        for path, name in found.items()
        if path not in links
    )
    nodes = [node async for node in in_order(calls, CONCURRENT_CALLS)]
    return [*nodes, *(Node(path, problem=link_outside(path)) for path in links)]


async def _members(store: Store, inside: Store, below: str) -> list[Node]:
    """Return a node of a store that is not a directory, and its members."""
    node = await _read_any(inside, below)
    if node is not None and node.kind == "array":
        return [node]
    names = [name for name in await list_names(store, below) if name not in _NAMES]
    calls = (functools.partial(_read_any, inside, join(below, name)) for name in names)
    nodes = [node, *[member async for member in in_order(calls, CONCURRENT_CALLS)]]
    return [node for node in nodes if node is not None]


async def _read_listed(inside: Store, path: str, name: str) -> Node:
    node = await _read(inside, path, name) or await _read_any(inside, path)
    if node is not None:
        return node
    error = SourceNotFoundError(
        f"{name!r} is listed, but cannot be read",
        array=path,
        location=f"{store_name(inside)}/{join(path, name)}",
        remedy="If it is a symbolic link, make it lead to a file; otherwise, remove the node.",
    )
    return Node(path, name, problem=error)


def _directories(store: Store, links: list[str]) -> list[str]:
    """Return the links that lead to directories."""
    root = listed_directory(store)
    return [] if root is None else [key for key in links if Path(root, key).is_dir()]


async def _root(inside: Store, instead: str) -> list[Node]:
    """Return the root, whose consolidated metadata has the other nodes."""
    root = await _read_any(inside, "")
    if root is None:
        return []
    if root.kind == "group" and not root.metadata.get("consolidated_metadata"):
        raise not_listable(
            inside,
            "and the hierarchy has no consolidated metadata",
            remedy=Advice(
                CONSOLIDATE,
                *(("; or ", instead) if instead else ()),
                ".",
            ),
        )
    return [root]


async def _read_any(inside: Store, path: str) -> Node | None:
    """Return the node at a path, whatever its version; None if there is none."""
    for name in _NAMES:
        node = await _read(inside, path, name)
        if node is not None:
            return node
    return None


async def _read(inside: Store, path: str, name: str) -> Node | None:
    try:
        body = await value_of(inside, join(path, name))
    except LocationNotAllowedError:
        return Node(path, name, problem=link_outside(path))
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return None  # a link to itself
    return None if body is None else _node_with(path, name, body)


def _node_with(path: str, name: str, body: bytes) -> Node:
    try:
        return _interpreted(path, name, parse_node(body), body)
    except LimitExceededError as error:
        return Node(path, name, is_own=True, body=body, problem=error.in_context(array=path))


def _with_members(nodes: list[Node]) -> dict[str, Node]:
    """Return nodes, and those in their consolidated metadata, by path."""
    found = {node.path: node for node in nodes}
    for node in nodes:
        for member in copies_in(node):
            own = found.get(member.path)
            if own is None or own.is_v2:  # zarr prefers v3
                found[member.path] = member
    return found


def copies_in(node: Node) -> Iterator[Node]:
    """Yield the nodes that the consolidated metadata of a group describe."""
    for name, metadata in members_in(node.metadata):
        path = join(node.path, name)
        if not is_possible_path(name):
            yield Node(path or "/", problem=not_a_path(node.path, name))
        else:
            yield _interpreted(path, _V3, metadata, None)


def _interpreted(path: str, name: str, metadata: object, body: bytes | None) -> Node:
    if isinstance(metadata, dict):
        members = cast("dict[str, Any]", metadata)
        if name != _V3 or members.get("node_type") in ("group", "array"):
            return Node(path, name, members, is_own=body is not None, body=body)
    error = InvalidConfigurationError(
        f"{name!r} describes neither a group nor an array", array=path
    )
    return Node(path, name, is_own=body is not None, body=body, problem=error)
