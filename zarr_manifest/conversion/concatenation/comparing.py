"""What has to be alike in the arrays that are concatenated, and how two of them differ. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zarr_manifest.conversion.fitting import decoding
from zarr_manifest.conversion.meaning import meanings_of, same_value
from zarr_manifest.conversion.nodes import ArrayNode
from zarr_manifest.conversion.values import brief

# Attributes that name other variables, on which the meaning of the numbers depends.
_NAMING = ("bounds", "climatology", "grid_mapping")

type Meanings = dict[str, dict[str, Any]]


def dimensions(node: ArrayNode) -> list[str | None]:
    """Return the names of the dimensions of an array."""
    stated: Sequence[str | None] | None = node.metadata.get("dimension_names")
    return [None] * len(node.metadata["shape"]) if stated is None else list(stated)


def axis_of(node: ArrayNode, dim: str) -> int | None:
    """Return which dimension of an array has a name; None if none has."""
    names = dimensions(node)
    return names.index(dim) if dim in names else None


def is_coordinate(node: ArrayNode) -> bool:
    """Whether an array has the values of the one dimension whose name it has."""
    return dimensions(node) == [node.path.rpartition("/")[2]]


def meanings(arrays: Mapping[str, ArrayNode]) -> Meanings:
    """Return what determines the meaning of the numbers of arrays, by their path."""
    groups: dict[str, dict[str, Mapping[str, Any]]] = {}
    for path, node in arrays.items():
        group, _, name = path.rpartition("/")
        groups.setdefault(group, {})[name] = node.metadata.get("attributes", {})
    found: Meanings = {}
    for group, attributes in groups.items():
        for name, meaning in meanings_of(attributes).items():
            named = {each: attributes[name][each] for each in _NAMING if each in attributes[name]}
            found[f"{group}/{name}" if group else name] = meaning | named
    return found


def other_shape(ours: ArrayNode, theirs: ArrayNode, axis: int | None) -> str | None:
    """Return how the shapes of two arrays differ but along an axis, or None.

    Examples
    --------
    >>> from zarr_manifest.manifest import Manifest
    >>> nothing = Manifest.from_columns((0,), paths="")
    >>> one, other = (
    ...     ArrayNode("a", {"shape": shape, "dimension_names": ["t", "x"]}, nothing)
    ...     for shape in ([3, 4], [5, 6])
    ... )
    >>> other_shape(one, other, 0)
    "6 values along 'x'"
    """
    mine, yours = dimensions(ours), dimensions(theirs)
    if mine != yours:
        return f"dimensions {brief(yours)}"
    shapes = zip(mine, ours.metadata["shape"], theirs.metadata["shape"], strict=True)
    for number, (name, length, other) in enumerate(shapes):
        if number != axis and length != other:
            return f"{other:,} values along {name or number!r}"
    return None


def other_storage(ours: ArrayNode, theirs: ArrayNode) -> str | None:
    """Return why chunks of two arrays cannot be decoded alike, or None."""
    first, other = ours.metadata, theirs.metadata
    if first["data_type"] != other["data_type"]:
        return f"data type {brief(other['data_type'])}"
    if decoding(_named(first["codecs"])) != decoding(_named(other["codecs"])):
        return f"codecs {brief(other['codecs'])}"
    if not same_value(first["fill_value"], other["fill_value"]):
        return f"fill value {brief(other['fill_value'])}"
    return None


def _named(codecs: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"name": codec} if isinstance(codec, str) else codec for codec in codecs]
