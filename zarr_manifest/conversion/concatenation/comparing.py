"""What has to be alike in the arrays that are concatenated: how they differ, and their coordinates.

The values of coordinates are known: converted to one meaning, in order, and joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.fitting import (
    decoding,
    made_alike,
    meanings_of,
    same_value,
    shown_value,
)
from zarr_manifest.conversion.nodes import ArrayNode
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.target import encoded_chunks
from zarr_manifest.conversion.values import brief, unstable_types_accepted
from zarr_manifest.conversion.virtual import dataset_nodes
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import ChunkGrid
from zarr_manifest.manifest import Manifest

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


# Coordinates ------------------------------------------------------------------------------

# Larger coordinates keep their chunks; others are a single one.
_MOST_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Coordinate:
    """The values of a variable in each of the inputs, with one meaning.

    Parameters
    ----------
    name : str
        Its name.
    variables : sequence of Variable
        By input.
    is_decoded : bool
        Whether their values are decoded, and not as stored.
    """

    name: str
    variables: Sequence[Any]
    is_decoded: bool

    @property
    def values(self) -> list[npt.NDArray[Any]]:
        """The values by input."""
        return [np.asarray(variable.values) for variable in self.variables]

    def shown(self, value: Any) -> str:
        """Return a value as readers see it."""
        if not self.is_decoded:
            return shown_value(self.name, value, self.variables[0].attrs)
        return str(value.astype("M8[s]") if isinstance(value, np.datetime64) else value)


def coordinate_of(
    path: str,
    variables: Sequence[Any],
    meant: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> Coordinate:
    """Return a variable with numbers that mean the same in all inputs.

    Parameters
    ----------
    path : str
        Its path.
    variables : sequence of Variable
        By input, as stored.
    meant : sequence of dict
        By input, what their numbers mean.
    names : sequence of str
        Of the inputs.

    Raises
    ------
    NotConvertibleError
        That is impossible.
    """
    name = path.rpartition("/")[2]
    renamed = [variable.copy(deep=False) for variable in variables]
    alike, problems = made_alike(name, renamed, meant)
    for number, problem in enumerate(problems):
        if problem is not None:
            raise NotConvertibleError(unlike(names, number, problem), array=path)
    is_decoded = any(new is not old for new, old in zip(alike, renamed, strict=True))
    return Coordinate(name, alike, is_decoded)


def unlike(names: Sequence[str], number: int, difference: str) -> str:
    """Return the sentence that an input has a difference from the first.

    Examples
    --------
    >>> unlike(["a", "b"], 1, "other units")
    'unlike a, b has other units'
    """
    return f"unlike {names[0]}, {names[number]} has {difference}"


def require_order(path: str, found: Coordinate, names: Sequence[str]) -> None:
    """Require that a coordinate strictly increases or decreases from input to input.

    Parameters
    ----------
    path : str
        Its path.
    found : Coordinate
        Its values.
    names : sequence of str
        Of the inputs.

    Raises
    ------
    NotConvertibleError
        It does not.
    """
    values = np.concatenate(found.values)
    owners = np.repeat(np.arange(len(names)), [len(each) for each in found.values])
    wrong = first_disorder(values)
    if wrong is None:
        return
    before, after = (found.shown(values[at]) for at in (wrong, wrong + 1))
    one, other = (names[owners[at]] for at in (wrong, wrong + 1))
    place = f"in {one}" if one == other else f"of {one} is followed by {after} of {other}"
    text = f"{before} {place}" if one != other else f"{before} is followed by {after} {place}"
    raise NotConvertibleError(
        f"the values along {found.name!r} would neither increase nor decrease throughout: {text}",
        array=path,
        remedy="Leave out what overlaps, and put the inputs in order.",
    )


def first_disorder(values: npt.NDArray[Any]) -> int | None:
    """Return where values stop increasing, or decreasing if they begin so; None if nowhere.

    Examples
    --------
    >>> first_disorder(np.array([1, 2, 2])), first_disorder(np.array([3, 1, 0]))
    (1, None)
    """
    if len(values) < 2:
        return None
    rises = np.asarray(values[1:] > values[:-1], bool)
    falls = np.asarray(values[1:] < values[:-1], bool)
    steps = falls if falls[0] else rises
    return None if steps.all() else int(np.argmin(steps))


# Joined by value --------------------------------------------------------------------------


@unstable_types_accepted
def joined_values(node: ArrayNode, found: Coordinate, axis: int) -> ArrayNode:
    """Return an array with the values of all inputs, held inline.

    Parameters
    ----------
    node : ArrayNode
        The array in the first input. It keeps its metadata, unless values had to be converted.
    found : Coordinate
        The values.
    axis : int
        The dimension along which they are concatenated.

    Raises
    ------
    NotConvertibleError
        They cannot be encoded.
    """
    if found.is_decoded:
        return _encoded_anew(node, found, axis)
    values = np.concatenate(found.values, axis)
    metadata: dict[str, Any] = {**node.metadata, "shape": list(values.shape)}
    grid = ChunkGrid.from_metadata(metadata)
    assert grid is not None  # it was read
    if grid.regular is not None and values.nbytes <= _MOST_BYTES and not _has_shards(metadata):
        chunks = [
            max(1, n) if i == axis else size
            for i, (n, size) in enumerate(zip(values.shape, grid.regular, strict=True))
        ]
        metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": chunks}}
    return _inline(node, metadata, encoded_chunks(ArrayV3Metadata.from_dict(metadata), values))


def _has_shards(metadata: Mapping[str, Any]) -> bool:
    return "sharding_indexed" in str(metadata["codecs"])


def _inline(
    node: ArrayNode, metadata: dict[str, Any], chunks: Mapping[tuple[int, ...], bytes]
) -> ArrayNode:
    grid = ChunkGrid.from_metadata(metadata)
    assert grid is not None
    none = np.zeros((0, len(grid.counts)), np.int64)
    manifest = Manifest.from_columns(grid.counts, paths="", indices=none, data=chunks)
    return ArrayNode(node.path, metadata, manifest, node.notes)


def _encoded_anew(node: ArrayNode, found: Coordinate, axis: int) -> ArrayNode:
    xarray: Any = library("xarray", "converting coordinates", extra="xarray")
    first = found.variables[0]
    values = np.concatenate(found.values, axis)
    variable = xarray.Variable(first.dims, values, first.attrs, first.encoding)
    group, _, name = node.path.rpartition("/")
    dataset = xarray.Dataset({name: variable})
    for written in dataset_nodes(dataset, group):
        if isinstance(written, ArrayNode) and written.path == node.path:
            notes = (*node.notes, "its values were converted to one meaning", *written.notes)
            return ArrayNode(node.path, written.metadata, written.manifest, notes)
        if written.path == node.path:
            raise NotConvertibleError(getattr(written, "reason", "its values cannot be encoded"))
    raise AssertionError  # the dataset has it
