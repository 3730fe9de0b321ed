"""A group's consolidated metadata: copies of the metadata of all nodes below it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def consolidated_members(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the copies in a group's metadata, by path relative to the group."""
    consolidated: object = node.get("consolidated_metadata")
    members: object = None
    if isinstance(consolidated, dict):
        members = cast("dict[str, object]", consolidated).get("metadata")
    return dict(cast("dict[str, Any]", members)) if isinstance(members, dict) else {}


def has_consolidated(node: Mapping[str, Any]) -> bool:
    """Whether a group's metadata have consolidated metadata."""
    return isinstance(node.get("consolidated_metadata"), dict)


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
    return {**node, "consolidated_metadata": copies}


def without_copies(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's metadata without consolidated metadata."""
    return {name: node[name] for name in node if name != "consolidated_metadata"}
