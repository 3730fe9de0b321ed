"""What stands in place of a node's metadata while the nodes below it are being changed.

An array with a storage transformer of a name of its own. By the Zarr core specification, every
reader refuses an array with a transformer that it does not know: so whatever software opens the
hierarchy meanwhile gets an error, and does not create an empty group in its place. Pure.
"""

from __future__ import annotations

import json
from typing import Any, cast

from zarr_manifest.errors import Advice, Setting, WriteConflictError
from zarr_manifest.format.node_metadata import ArrayMetadata, dump_node

_NAME = "zarr-manifest-unfinished"

_EXPLANATION = (
    "This hierarchy is being written, or writing was interrupted. If no process is writing it, "
    "run: zarr-manifest recover LOCATION --finish (or --undo)"
)


def placeholder(writer: str) -> bytes:
    """Return the metadata that nobody can open, as bytes.

    Parameters
    ----------
    writer : str
        Tells one writer from another.

    Examples
    --------
    >>> is_placeholder(placeholder("1f2e")), is_placeholder(b'{"node_type": "group"}')
    (True, False)
    """
    return dump_node(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [],
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}},
            "chunk_key_encoding": {"name": "default"},
            "fill_value": 0,
            "codecs": [{"name": "bytes"}],
            "storage_transformers": [
                {
                    "name": _NAME,
                    "configuration": {"explanation": _EXPLANATION, "writer": writer},
                }
            ],
        }
    )


def is_placeholder(metadata: bytes | dict[str, Any] | None) -> bool:
    """Whether this metadata is a placeholder, of whatever writer."""
    if isinstance(metadata, bytes):
        if _NAME.encode() not in metadata:
            return False
        try:
            metadata = json.loads(metadata)
        except ValueError:
            return False
    if not isinstance(metadata, dict) or metadata.get("node_type") != "array":
        return False
    declared = ArrayMetadata("", metadata).transformers
    return isinstance(declared, list) and any(
        isinstance(item, dict) and cast("dict[str, Any]", item).get("name") == _NAME
        for item in cast("list[object]", declared)
    )


def unfinished_error(location: str) -> WriteConflictError:
    """Return the error for a node whose metadata is a placeholder."""
    return WriteConflictError(
        "the hierarchy is being written, or writing it was interrupted",
        location=location,
        remedy=Advice(
            "If no process is writing it, finish or undo that: ",
            Setting("recover", python="zarr_manifest.conversion.recover(location, 'finish')"),
            ", or ",
            Setting("undo", python="'undo'"),
            ".",
        ),
    )
