"""Consolidated metadata above an array, kept complete and equal to the array's own.

Readers honour a declaration in consolidated metadata like the one in ``zarr.json``, so
its documents are removed only after it has been replaced there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from zarr_manifest.errors import WriteConflictError
from zarr_manifest.format import ancestors, dump_node, join, parse_node
from zarr_manifest.writing.conditional_put import GuardedStore

# Others may update the same group at the same time, for other arrays.
_MOST_ATTEMPTS = 20


def consolidated_members(node: dict[str, Any] | None) -> dict[str, Any]:
    """Return the consolidated metadata in a group's ``zarr.json``, by path."""
    consolidated = (node or {}).get("consolidated_metadata")
    members = (
        cast("dict[str, Any]", consolidated).get("metadata")
        if isinstance(consolidated, dict)
        else None
    )
    return cast("dict[str, Any]", members) if isinstance(members, dict) else {}


def has_consolidated(node: dict[str, Any] | None) -> bool:
    """Whether a group's ``zarr.json`` has consolidated metadata."""
    return isinstance((node or {}).get("consolidated_metadata"), dict)


def with_copies(
    path: str, group: dict[str, Any], nodes: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the metadata of a group with copies of the metadata of all nodes below it.

    Parameters
    ----------
    path : str
        Of the group.
    group : dict
        Its metadata.
    nodes : mapping of str to dict
        The metadata of all nodes of the hierarchy, by path.

    Examples
    --------
    >>> nodes = {"": {}, "g": {"node_type": "group"}, "g/a": {"node_type": "array"}}
    >>> with_copies("g", nodes["g"], nodes)["consolidated_metadata"]["metadata"]
    {'a': {'node_type': 'array'}}
    """
    members = {
        _member(path, below): without_copies(nodes[below])
        for below in sorted(nodes)
        if below.startswith(f"{path}/" if path else "") and below != path
    }
    copies = {"kind": "inline", "must_understand": False, "metadata": members}
    return {**group, "consolidated_metadata": copies}


def without_copies(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node's metadata without consolidated metadata."""
    return {name: node[name] for name in node if name != "consolidated_metadata"}


def update_consolidated(store: GuardedStore, path: str, metadata: dict[str, Any]) -> None:
    """Replace the metadata of an array in every group above it that has a copy.

    Raises
    ------
    WriteConflictError
        If other writers keep changing the group.
    """
    for group in ancestors(path):

        def update(members: dict[str, Any], member: str = _member(group, path)) -> None:
            if member in members:
                members[member] = metadata

        _change(store, group, path, update)


def add_to_consolidated(store: GuardedStore, path: str, metadata: dict[str, Any]) -> None:
    """Add a new array, and its parent groups, to the consolidated metadata above them.

    Otherwise readers that use consolidated metadata would not see the array.

    Raises
    ------
    WriteConflictError
        If other writers keep changing the group.
    """
    new = {path: metadata}
    for group in ancestors(path):

        def add(members: dict[str, Any], group: str = group) -> None:
            for node, document in new.items():
                members.setdefault(_member(group, node), document)

        _change(store, group, path, add)
        document = store.read(join(group, "zarr.json")).body
        new[group] = without_copies({} if document is None else parse_node(document) or {})


def lacks_parents(store: GuardedStore, path: str) -> bool:
    """Whether a group above a node is missing, or has consolidated metadata without the node."""
    for group in ancestors(path):
        body = store.read(join(group, "zarr.json")).body
        node = None if body is None else parse_node(body)
        if node is None:
            return True
        if has_consolidated(node) and _member(group, path) not in consolidated_members(node):
            return True
    return False


def _change(
    store: GuardedStore, group: str, path: str, change: Callable[[dict[str, Any]], None]
) -> None:
    """Change the consolidated metadata of a group, if it has some."""
    key = join(group, "zarr.json")
    for _ in range(_MOST_ATTEMPTS):
        before = store.read(key)
        node = None if before.body is None else parse_node(before.body)
        if node is None or not has_consolidated(node):
            return
        members = consolidated_members(node)
        unchanged = dict(members)
        change(members)
        if members == unchanged:
            return
        try:
            store.replace(key, before, dump_node(node))
        except WriteConflictError:
            continue
        return
    raise WriteConflictError(
        "the array was written, but its copy in the consolidated metadata of a group was not: "
        "others keep changing the group",
        array=path,
        location=key,
        remedy="Consolidate the metadata of the group again.",
    )


def _member(group: str, path: str) -> str:
    return path[len(group) :].lstrip("/")
