"""What has to be alike in the arrays that are joined, and values of one meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from zarr_manifest.conversion.fitting import decoding, made_alike, same_value
from zarr_manifest.conversion.nodes import ArrayNode, grid_of, inline_manifest
from zarr_manifest.conversion.target import encoded_chunks
from zarr_manifest.conversion.values import brief, unstable_types_accepted
from zarr_manifest.conversion.virtual import loaded_node
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.showing import counted

# Attributes that name other variables, on which the meaning of the numbers depends.
_NAMING = ("bounds", "climatology", "grid_mapping")

_FILL_VALUE = "_FillValue"


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


def require_one_length(arrays: Iterable[tuple[str, ArrayNode, int]], dim: str, name: str) -> None:
    """Refuse arrays that have other lengths along a dimension.

    Parameters
    ----------
    arrays : iterable of (str, ArrayNode, int)
        Path, node, and which of its axes the dimension is.
    dim : str
        The dimension.
    name : str
        Name of the hierarchy in messages.

    Raises
    ------
    NotConvertibleError
    """
    lengths = {path: node.metadata["shape"][axis] for path, node, axis in arrays}
    if len(set(lengths.values())) > 1:
        one, other = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise NotConvertibleError(
            f"it has {counted(lengths[other], 'value')} along {dim!r}, and {one!r} has "
            f"{lengths[one]:,} (in {name})",
            array=other,
            remedy="Make them equally long: in an edit, arrays can be resized.",
        )


def names_of_others(node: ArrayNode) -> dict[str, Any]:
    """Return the attributes of an array that name others, on which its meaning depends."""
    attributes = node.metadata.get("attributes", {})
    return {name: attributes[name] for name in _NAMING if name in attributes}


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


# Coordinates ------------------------------------------------------------------------------

# Larger coordinates keep their chunks; others are a single one.
_MOST_BYTES = 4 * 2**20


def made_comparable(
    name: str,
    variables: Sequence[Any],
    meant: Sequence[Mapping[str, Any]],
    inputs: Sequence[str],
) -> tuple[Sequence[Any], bool]:
    """Return the values of an array in each input, with numbers that mean the same.

    Parameters
    ----------
    name : str
        Its name.
    variables : sequence of Variable
        By input, as stored.
    meant : sequence of dict
        By input, what their numbers mean.
    inputs : sequence of str
        The names of the inputs.

    Returns
    -------
    variables : sequence of Variable
        By input.
    is_decoded : bool
        Whether they are decoded, and not as stored.

    Raises
    ------
    NotConvertibleError
        That is impossible.
    """
    # Attributes of JSON have it in base64.
    stated = [
        {**meaning, _FILL_VALUE: variable.attrs[_FILL_VALUE]}
        if _FILL_VALUE in meaning and _FILL_VALUE in variable.attrs
        else meaning
        for variable, meaning in zip(variables, meant, strict=True)
    ]
    alike, problems = made_alike(name, variables, stated)
    for number, problem in enumerate(problems):
        if problem is not None:
            raise NotConvertibleError(unlike(inputs, number, problem))
    return alike, any(new is not old for new, old in zip(alike, variables, strict=True))


def unlike(names: Sequence[str], number: int, difference: str, first: int = 0) -> str:
    """Return the sentence that an input has a difference from the first, or from another one.

    Examples
    --------
    >>> unlike(["a", "b"], 1, "other units")
    'unlike a, b has other units'
    """
    return f"unlike {names[first]}, {names[number]} has {difference}"


# Joined by value --------------------------------------------------------------------------


@unstable_types_accepted
def joined_values(
    node: ArrayNode, variables: Sequence[Any], axis: int, *, is_decoded: bool = False
) -> ArrayNode:
    """Return an array with the values of all inputs, held inline.

    Parameters
    ----------
    node : ArrayNode
        The array in the first input. It keeps its metadata, unless values had to be converted.
    variables : sequence of Variable
        By input, values with numbers of one meaning.
    axis : int
        The dimension along which they are concatenated.
    is_decoded : bool
        Whether they are decoded, and not as stored.

    Raises
    ------
    NotConvertibleError
        They cannot be encoded.
    """
    joined = joined_variable(variables, axis)
    if is_decoded:
        notes = (*node.notes, "its values were converted to one meaning")
        return loaded_node(node.path, joined, notes)
    values = joined.values
    metadata: dict[str, Any] = {**node.metadata, "shape": list(values.shape)}
    grid = grid_of(metadata)
    if grid.regular is not None and values.nbytes <= _MOST_BYTES and not _has_shards(metadata):
        chunks = [
            max(1, n) if i == axis else size
            for i, (n, size) in enumerate(zip(values.shape, grid.regular, strict=True))
        ]
        metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": chunks}}
    found = encoded_chunks(metadata, values)
    manifest = inline_manifest(grid_of(metadata).counts, found)
    return ArrayNode(node.path, metadata, manifest, node.notes)


def _has_shards(metadata: Mapping[str, Any]) -> bool:
    return "sharding_indexed" in str(metadata["codecs"])


def joined_variable(variables: Sequence[Any], axis: int, new_dim: str | None = None) -> Any:
    """Return one variable with the values of several, in the encoding of the first.

    Along one of their dimensions, or along a new one, which is the first.
    """
    first, every = variables[0], [variable.values for variable in variables]
    if new_dim is None:
        dims, values = first.dims, np.concatenate(every, axis)
    else:
        dims, values = (new_dim, *first.dims), np.stack(every)
    return type(first)(dims, values, first.attrs, first.encoding)
