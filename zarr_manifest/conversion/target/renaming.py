"""New names for nodes whose own Zarr v3 does not allow, and for what refers to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from zarr_manifest.conversion.nodes import GroupNode, Node, RefusedNode
from zarr_manifest.conversion.values import as_array, as_object
from zarr_manifest.errors import InvalidPathError
from zarr_manifest.format import NODE_NAMES, impossible_name

# Names that others give to what has none.
_USUAL = {"__xarray_dataarray_variable__": "xarray_dataarray_variable"}

# Attributes by which CF conventions refer to variables of the same group.
_REFERRING = frozenset(
    [
        "ancillary_variables",
        "bounds",
        "cell_measures",
        "climatology",
        "coordinates",
        "formula_terms",
        "grid_mapping",
    ]
)


class Renaming:
    """Gives nodes their names in the hierarchy.

    Parameters
    ----------
    names : mapping of str to str
        New names of nodes, by path in the input.

    Raises
    ------
    InvalidPathError
        Zarr does not allow a new name.

    Examples
    --------
    >>> renaming = Renaming({"a/__t": "t"})
    >>> renaming.applied(GroupNode("a/__t/b", {})).path
    'a/t/b'
    >>> print(*renaming.applied(GroupNode("a/__t", {})).notes)
    it was named '__t'
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = {path.strip("/"): name for path, name in names.items()}
        for path, name in self._names.items():
            if not path or not name or "/" in name or impossible_name(name) is not None:
                problem = f"the node cannot be renamed to {name!r}"
                raise InvalidPathError(problem, array=path, remedy=NODE_NAMES)
        self._unused = dict.fromkeys(self._names)

    @property
    def unused(self) -> list[str]:
        """Paths at which there was no node so far."""
        return list(self._unused)

    def applied(self, node: Node) -> Node:
        """Return a node with its name in the hierarchy; refused ones keep theirs."""
        old = node.path.strip("/")
        self._unused.pop(old, None)
        if isinstance(node, RefusedNode):
            return node
        new = self._path(old)
        names = self._beside(old if isinstance(node, GroupNode) else old.rpartition("/")[0])
        if new == old and not names:
            return node
        notes = node.notes
        before, after = old.rpartition("/")[2], new.rpartition("/")[2]
        if before != after:
            notes = (*notes, f"it was named {before!r}")
        if isinstance(node, GroupNode):
            attributes = _referring(node.attributes, names)
            return dataclasses.replace(node, path=new, attributes=attributes, notes=notes)
        metadata = _with_names(node.metadata, names)
        return dataclasses.replace(node, path=new, metadata=metadata, notes=notes)

    def _path(self, old: str) -> str:
        parts = old.split("/") if old else []
        above = ("/".join(parts[: number + 1]) for number in range(len(parts)))
        return "/".join(
            self._names.get(path, _USUAL.get(name, name))
            for path, name in zip(above, parts, strict=True)
        )

    def _beside(self, group: str) -> dict[str, str]:
        """Return the new names of members of a group."""
        split = ((path.rpartition("/"), name) for path, name in self._names.items())
        return {old: name for (above, _, old), name in split if above == group}


def _with_names(metadata: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return metadata of an array with other names of dimensions and variables."""
    changed = dict(metadata)
    dimensions = as_array(metadata.get("dimension_names"))
    if dimensions is not None:
        changed["dimension_names"] = [names.get(str(dim), dim) for dim in dimensions]
    attributes = as_object(metadata.get("attributes"))
    if attributes is not None:
        changed["attributes"] = _referring(attributes, names)
    return changed


def _referring(attributes: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        key: " ".join(names.get(word, word) for word in value.split(" "))
        if key in _REFERRING and isinstance(value, str)
        else value
        for key, value in attributes.items()
    }
