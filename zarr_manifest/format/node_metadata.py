"""Metadata of nodes: ``zarr.json``, what it declares, and where a node may lie.

Declarations are hidden from zarr when it reads metadata, and put back when it writes:
zarr refuses an array that declares storage transformers, or ignores what it declares
and returns fill values. Names of nodes come from strangers, and become directories.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format.findings import Findings

__all__ = [
    "NODE_METADATA",
    "ArrayMetadata",
    "ancestors",
    "arrays_in",
    "declare",
    "dump_node",
    "impossible_name",
    "interpret_members",
    "parse_node",
    "without_declarations",
]

_MEMBER = "storage_transformers"

# The members that reading chunks needs, and what they are (Zarr core specification, v3).
_REQUIRED: dict[str, tuple[type | tuple[type, ...], str]] = {
    "shape": (list, "a list"),
    "data_type": ((str, dict), "a name or an object"),
    "chunk_grid": ((str, dict), "a name or an object"),
    "chunk_key_encoding": ((str, dict), "a name or an object"),
    "codecs": (list, "a list"),
    "fill_value": (object, "a value"),
}


@dataclass(frozen=True, slots=True)
class ArrayMetadata:
    """Metadata of an array, and what it declares.

    Parameters
    ----------
    path : str
        Path of the array, relative to the node whose document it was found in.
    metadata : dict
        The metadata document.
    """

    path: str
    metadata: dict[str, Any]

    @property
    def declared(self) -> Any:
        """The array's storage transformers, which may not be a list; empty for a native array."""
        declared = self.metadata.get(_MEMBER)
        return [] if declared is None else declared


def parse_node(document: bytes) -> dict[str, Any] | None:
    """Return the metadata of a node, or None for what is not a JSON object.

    Whether the metadata is valid is for zarr to say.
    """
    try:
        # Not msgspec: zarr writes and reads NaN and Infinity in attributes.
        node: Any = json.loads(document)
    except (ValueError, RecursionError):
        return None
    return _object(node)


def _object(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def arrays_in(node: dict[str, Any]) -> Iterator[ArrayMetadata]:
    """Yield the arrays that a node's document describes.

    That is the node itself, or the arrays in a group's consolidated metadata.

    Examples
    --------
    >>> node = {"node_type": "array", "storage_transformers": [{"name": "x"}]}
    >>> [array.declared for array in arrays_in(node)]
    [[{'name': 'x'}]]
    """
    if node.get("node_type") == "array":
        yield ArrayMetadata("", node)
        return
    consolidated = _object(node.get("consolidated_metadata")) or {}
    for path, member in (_object(consolidated.get("metadata")) or {}).items():
        for array in arrays_in(_object(member) or {}):
            yield ArrayMetadata(f"{path}/{array.path}".rstrip("/"), array.metadata)


def interpret_members(metadata: dict[str, Any]) -> Findings[bool]:
    """Yield what makes the metadata of an array not Zarr v3, and say whether it is usable.

    Only for arrays that declare a manifest. Older writers produced such
    documents, and zarr's own errors do not name the member.

    Examples
    --------
    >>> print(next(interpret_members({"shape": None})).problem)
    the array's metadata is not valid Zarr v3: 'shape' is null, not a list
    """
    usable = True
    for name, (kinds, description) in _REQUIRED.items():
        value = metadata.get(name)
        if name not in metadata or not isinstance(value, kinds):
            found = json.dumps(value)[:40] if name in metadata else "missing"
            yield InvalidConfigurationError(
                f"the array's metadata is not valid Zarr v3: {name!r} is {found}, not {description}"
            )
            usable = False
    return usable


def without_declarations(node: dict[str, Any]) -> bytes:
    """Return the document of a node without what its arrays declare; changes the node."""
    for array in arrays_in(node):
        array.metadata.pop(_MEMBER, None)
    return json.dumps(node).encode()


def declare(array: ArrayMetadata, declared: list[Any]) -> None:
    """Put a declaration into the metadata of an array, in place."""
    array.metadata[_MEMBER] = declared


def dump_node(node: dict[str, Any]) -> bytes:
    """Return the document of a node, as zarr formats it."""
    return json.dumps(node, indent=2).encode()


# Every node, of Zarr v3 or v2, has one of these.
NODE_METADATA = frozenset({"zarr.json", ".zarray", ".zgroup"})

# Reserved by Zarr v3 (core specification, "Node names"), or understood in different ways by
# stores and readers.
_IMPOSSIBLE = re.compile(r"\.*|__.*|zarr\.json|.*[\x00-\x1f\x7f-\x9f\ud800-\udfff\\].*", re.DOTALL)


def impossible_name(path: str) -> str | None:
    """Return the first name in the path of a node that no node can have; None if all are fine.

    Examples
    --------
    >>> impossible_name("ocean/sea surface temperature"), impossible_name("")
    (None, None)
    >>> impossible_name("a/../../etc"), impossible_name("a//b")
    ('..', '')
    """
    names = path.split("/") if path else []
    return next((name for name in names if _IMPOSSIBLE.fullmatch(name)), None)


def ancestors(path: str) -> Iterator[str]:
    """Yield the paths of the groups above a node, the nearest first and the root last.

    Examples
    --------
    >>> list(ancestors("a/b"))
    ['a', '']
    """
    while path:
        path = path.rpartition("/")[0]
        yield path
