"""Errors for metadata that contradict other or earlier metadata. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from zarr_manifest.errors import (
    Advice,
    InvalidConfigurationError,
    ManifestNotFoundError,
    Setting,
    SourceNotFoundError,
    WriteConflictError,
)
from zarr_manifest.format import (
    ArrayMetadata,
    PendingChanges,
    contradicted_members,
    join,
    members_in,
    parse_node,
)


def vanished(path: str, body: bytes | None) -> ManifestNotFoundError:
    """Return the error for an array that declared a manifest before, and does so no longer.

    Parameters
    ----------
    path : str
        Path of the array.
    body : bytes or None
        Its present ``zarr.json``.
    """
    return ManifestNotFoundError(
        f"the array declared a manifest when this store first saw it, but now {_state(path, body)}",
        array=path,
        remedy=_REOPEN,
    )


def replaced(path: str) -> ManifestNotFoundError:
    """Return the error for an array whose metadata are not those that a store was pickled with."""
    return ManifestNotFoundError(
        "the array's shape, codecs or manifest are not those that it was opened with: they have "
        "been replaced since",
        array=path,
        remedy="Open the hierarchy again.",
    )


def changed_since(path: str, other: str) -> ManifestNotFoundError:
    """Return the error for a node that belongs to another state than one that is open."""
    return ManifestNotFoundError(
        "the hierarchy has been changed since it was opened: this array would be as it is after "
        f"the change, and {other!r} is open as it was before",
        array=path,
        remedy="Open the hierarchy again, and read all arrays from that one.",
    )


def no_longer_native(path: str, body: bytes | None) -> SourceNotFoundError:
    """Return the error for an absent chunk of an array that was native, given its ``zarr.json``."""
    return SourceNotFoundError(
        f"the array was native when this store first saw it, but now {_state(path, body)}",
        array=path,
        remedy=_REOPEN,
    )


_REOPEN = "Restore it; or, if the array was removed or replaced, open the hierarchy again."


def only_consolidated(path: str, body: bytes | None, group: str) -> InvalidConfigurationError:
    """Return the error for an array without metadata of its own, given what is in their place."""
    document = join(group, "zarr.json")
    return InvalidConfigurationError(
        f"only the consolidated metadata in {document!r} describe the array: {_state(path, body)}",
        array=path,
        remedy="Restore it; or, if the array was removed, consolidate the metadata again.",
    )


def contradiction(
    path: str, group: str, own: Mapping[str, Any] | None, copy: Mapping[str, Any]
) -> InvalidConfigurationError:
    """Return the error for own metadata that differ from a group's copy, and are not behind.

    Parameters
    ----------
    path : str
        Path of the node.
    group : str
        Path of the group.
    own : mapping or None
        None if its own ``zarr.json`` is no JSON object.
    copy : mapping
        The copy.
    """
    names = own_name, other_name = join(path, "zarr.json"), join(group, "zarr.json")
    declaring = [ArrayMetadata("", {**each}).transformers != [] for each in (own or {}, copy)]
    members = ", ".join(map(repr, contradicted_members(own, copy)))
    if own is None or own.get("node_type") not in ("array", "group"):
        how = f"{own_name!r} is empty or damaged"
    elif copy.get("node_type") == "array" and declaring[0] != declaring[1]:
        first, second = names if declaring[0] else reversed(names)
        how = f"in {first!r}, the array declares a manifest, in {second!r} it does not"
    else:
        how = f"they differ in {members}"
    return InvalidConfigurationError(
        f"{own_name!r} and the consolidated metadata in {other_name!r} contradict each other: "
        f"{how}",
        array=path,
        remedy=Advice(
            "If copying the hierarchy was interrupted, copy it again. Otherwise, say which of both "
            "is right, the consolidated metadata or its own: ",
            Setting("trust", "consolidated", python="zarr_manifest.recover(location, trust=...)"),
            ".",
        ),
    )


class Contradiction(Struct, frozen=True):
    """Own metadata of a node that a group's copy contradicts.

    Parameters
    ----------
    own : dict or None
        None if its own ``zarr.json`` is no JSON object.
    copy : dict
        The copy of the topmost group.
    error : InvalidConfigurationError
        What says so.
    """

    own: dict[str, Any] | None
    copy: dict[str, Any]
    error: InvalidConfigurationError


def find_contradiction(
    path: str, own: bytes | None, groups: Mapping[str, bytes | None]
) -> Contradiction | None:
    """Return how a node's own metadata are contradicted; None if they are not, or are behind.

    Parameters
    ----------
    path : str
        Path of the node.
    own : bytes or None
        Its own ``zarr.json``, if there is one: metadata that only groups have contradict nothing.
    groups : mapping of str to (bytes or None)
        The ``zarr.json`` of the groups above it, the root first.
    """
    changes = PendingChanges()
    copies: dict[str, Any] = {}
    for group, body in groups.items():
        counting = changes.counting(group, body)
        node = None if counting is None else parse_node(counting)
        changes.note(group, counting, node)
        for member, copy in members_in(node or {}):
            if join(group, member) == path and isinstance(copy, dict):
                copies[group] = copy
    if own is None or changes.standing(path, own) != "own":
        return None
    node = parse_node(own)
    for group, copy in copies.items():
        if contradicted_members(node, copy):
            first = next(iter(copies.values()))
            return Contradiction(node, first, contradiction(path, group, node, copy))
    return None


def not_a_path(group: str, name: str) -> InvalidConfigurationError:
    """Return the error for a member of consolidated metadata that no node can have."""
    return InvalidConfigurationError(
        f"the consolidated metadata of {group or '/'!r} has a member {name!r}, which is not the "
        "path of a node",
        array=join(group, name),
        remedy="Consolidate the metadata again.",
    )


def being_changed(path: str) -> WriteConflictError:
    """Return the error for metadata that a change has replaced, but not yet in their place."""
    return WriteConflictError(
        "another writer has changed the node, and has not written its own 'zarr.json' yet",
        array=path,
        remedy=Advice(
            "If no process writes the hierarchy, finish the change: ",
            Setting("recover", python="zarr_manifest.recover(location)"),
            "; then open the hierarchy again.",
        ),
    )


def incomplete(path: str) -> InvalidConfigurationError:
    """Return the error for a ``zarr.json`` that was written in part."""
    return InvalidConfigurationError(
        "'zarr.json' is not JSON: it may be incomplete, because writing was interrupted",
        array=path,
        remedy="Write the node again, or remove the file.",
    )


def _state(path: str, body: bytes | None) -> str:
    """Say what is in place of an array's metadata with a declaration."""
    key = join(path, "zarr.json")
    node = None if body is None else parse_node(body)
    if node is None:
        return f"there is no {key!r}" if body is None else f"{key!r} is empty or damaged"
    if node.get("storage_transformers"):
        return f"{key!r} is that of an array with a manifest and other chunks"
    return f"{key!r} is that of {_KINDS.get(str(node.get('node_type')), 'another node')}"


_KINDS = {"array": "an array without a manifest", "group": "a group"}
