"""Whether nothing of a hierarchy's metadata is under way: own metadata and copies are alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zarr.abc.store import Store

from zarr_manifest.stores import inside_store, list_own
from zarr_manifest.writing import guarded_store
from zarr_manifest.zarr_internals import sync

__all__ = ["assert_settled", "settled_attributes", "stored"]


def stored(store: Store) -> dict[str, bytes]:
    """Return everything in a hierarchy's own store, by key."""
    guarded = guarded_store(store)
    bodies = {key: guarded.read(key).body for key in sync(list_own(inside_store(store), ""))}
    return {key: body for key, body in bodies.items() if body is not None}


def settled_attributes(contents: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the attributes of all nodes, where copies are complete and as own metadata."""
    nodes: dict[str, dict[str, Any]] = {
        key.removesuffix("zarr.json").rstrip("/"): json.loads(body)
        for key, body in contents.items()
        if key.rpartition("/")[2] == "zarr.json"
    }
    copies = {path: node.pop("consolidated_metadata", None) for path, node in nodes.items()}
    for path, found in copies.items():
        if found is None:
            continue
        assert "pending" not in found
        below = f"{path}/" if path else ""
        members = {
            name: {member: copy[member] for member in copy if member != "consolidated_metadata"}
            for name, copy in found["metadata"].items()
        }
        assert members == {
            name.removeprefix(below): node
            for name, node in nodes.items()
            if name.startswith(below) and name != path
        }
    return {path: node["attributes"] for path, node in nodes.items()}


def assert_settled(contents: Mapping[str, bytes]) -> None:
    """Require that copies are complete and as own metadata, and that nothing is pending."""
    settled_attributes(contents)
