"""Keys of a hierarchy: names of metadata documents, and paths of nodes. Pure."""

from __future__ import annotations

from zarr_manifest.format.node_metadata import NODE_METADATA

__all__ = ["METADATA_NAMES", "join", "node_of_metadata"]


METADATA_NAMES = NODE_METADATA | {".zattrs", ".zmetadata"}


def join(directory: str, name: str) -> str:
    """Join two parts of a key, either of which may be empty."""
    return f"{directory}/{name}" if directory and name else directory or name


def node_of_metadata(key: str) -> str | None:
    """Return the path of the node whose ``zarr.json`` this key names, or None."""
    if key == "zarr.json":
        return ""
    return key.removesuffix("/zarr.json") if key.endswith("/zarr.json") else None
