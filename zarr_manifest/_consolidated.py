"""Consolidated metadata above an array: kept equal to the array's own.

A declaration in consolidated metadata counts as that in ``zarr.json``, and the documents
that it names are removed after it was replaced there as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from zarr_manifest._conditional_put import GuardedStore
from zarr_manifest._declarations import dump_node, parse_node
from zarr_manifest._nodes import join
from zarr_manifest.errors import WriteConflictError

__all__ = ["consolidated_members", "update_consolidated"]

# Others may write the same group at the same time, about other arrays.
_MOST_ATTEMPTS = 20


def consolidated_members(node: dict[str, Any] | None) -> dict[str, Any]:
    """Return the metadata that a group's document holds of nodes below it, by path."""
    consolidated = (node or {}).get("consolidated_metadata")
    members = (
        cast("dict[str, Any]", consolidated).get("metadata")
        if isinstance(consolidated, dict)
        else None
    )
    return cast("dict[str, Any]", members) if isinstance(members, dict) else {}


def update_consolidated(store: GuardedStore, path: str, metadata: dict[str, Any]) -> None:
    """Replace the metadata of an array wherever groups above it have a copy.

    Raises
    ------
    WriteConflictError
        Others write the group all the time.
    """
    for group in _ancestors(path):
        key = join(group, "zarr.json")
        member = path[len(group) :].lstrip("/")
        for _ in range(_MOST_ATTEMPTS):
            before = store.read(key)
            node = None if before.body is None else parse_node(before.body)
            members = consolidated_members(node)
            if node is None or member not in members or members[member] == metadata:
                break
            members[member] = metadata
            try:
                store.replace(key, before, dump_node(node))
            except WriteConflictError:
                continue
            break
        else:
            raise WriteConflictError(
                "the array was written, but not its copy in the consolidated metadata of a group, "
                "which others keep writing",
                array=path,
                location=key,
                remedy="Consolidate the metadata of the group again.",
            )


def _ancestors(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path
