"""What a commit refuses: copies that nobody could open, and nodes that nobody could reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import zarr
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from zarr_manifest.errors import InvalidConfigurationError, WriteConflictError
from zarr_manifest.format import ancestors, join, member_of
from zarr_manifest.hierarchy import ManifestStore

# Its annotations name types of packages that may not be installed.
_untyped_zarr: Any = zarr


def require_opening(document: bytes) -> None:
    """Refuse to add copies to a group that could not be opened with them any more.

    Raises
    ------
    InvalidConfigurationError
    """
    memory = MemoryStore({"zarr.json": default_buffer_prototype().buffer.from_bytes(document)})
    try:
        _untyped_zarr.open_group(ManifestStore(memory, read_only=True), mode="r")
    except Exception as error:  # whatever zarr's parsers raise is the reason
        raise InvalidConfigurationError(
            "several nodes are to change at once, which takes consolidated metadata, but with "
            f"these the hierarchy could not be opened: {error}",
            remedy="Repair or remove the node that is meant, or change one node at a time.",
        ) from error


def require_groups(
    place: str, members: Mapping[str, Any], changed: Mapping[str, bytes | None]
) -> None:
    """Refuse a change that would leave nodes below what is no group any more.

    Raises
    ------
    WriteConflictError
        Another writer has created nodes there, or has put an array above those that change.
    """
    groups = {member for member, node in members.items() if is_group(node)}
    closed = {member_of(place, path) for path in changed if path != place} - groups
    for member in members:
        for above in ancestors(member):
            is_ours = join(place, member) in changed
            if above and (above in closed or (is_ours and above in members.keys() - groups)):
                raise WriteConflictError(
                    f"there would be no group above it: {join(place, above)!r} is to be removed or "
                    "is an array",
                    array=join(place, member),
                    remedy="Check what is there now, and write again if it is what you want.",
                )


def is_group(node: Any) -> bool:
    """Whether metadata are those of a group."""
    return isinstance(node, dict) and cast("dict[str, Any]", node).get("node_type") == "group"
