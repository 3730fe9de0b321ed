"""Errors for metadata that contradict other or earlier metadata. Pure."""

from __future__ import annotations

from zarr_manifest.errors import (
    Advice,
    InvalidConfigurationError,
    ManifestNotFoundError,
    Setting,
    SourceNotFoundError,
    WriteConflictError,
)
from zarr_manifest.format import join, parse_node


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


def contradiction(path: str, group: str, own_declares: bool) -> InvalidConfigurationError:
    """Return the error for own metadata that differ from a group's in whether they declare."""
    own, other = join(path, "zarr.json"), join(group, "zarr.json")
    first, second = (own, other) if own_declares else (other, own)
    return InvalidConfigurationError(
        f"{own!r} and the consolidated metadata in {other!r} contradict each other: in {first!r}, "
        f"the array declares a manifest, in {second!r} it does not",
        array=path,
        remedy=f"If {own!r} is right, consolidate the metadata of the group again.",
    )


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
