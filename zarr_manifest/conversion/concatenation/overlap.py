"""Whether what is appended is there already, and where: by coordinates, or by references."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from zarr_manifest.conversion.concatenation.comparing import axis_of, is_coordinate, meanings
from zarr_manifest.conversion.concatenation.coordinates import coordinate_of
from zarr_manifest.conversion.concatenation.cutting import cut, is_aligned
from zarr_manifest.conversion.concatenation.inputs import Input, is_held
from zarr_manifest.conversion.concatenation.placing import chunk_shape
from zarr_manifest.conversion.nodes import ArrayNode, parts_of
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.manifest import JoinedReferences, Manifest, References, are_same, references_of


def places_of(existing: Input, inputs: Sequence[Input], dim: str) -> list[range | None]:
    """Return for inputs which values along a dimension are theirs; None for one that is all new.

    Parameters
    ----------
    existing : Input
        The hierarchy.
    inputs : sequence of Input
        What is appended, in order. Without a coordinate, those are there that come first and are
        the last references of the hierarchy.
    dim : str
        The dimension.

    Returns
    -------
    list of (range or None)
        A range may end beyond the present values, if only the first of the new ones are there.

    Raises
    ------
    NotConvertibleError
        Coordinates of several groups say otherwise, or do not mean the same.
    """
    found = [_by_coordinates(existing, each, dim) for each in inputs]
    if any(places for places in found):
        return [_only(each, places) for each, places in zip(inputs, found, strict=True)]
    return _last(existing, inputs, dim)


def _by_coordinates(existing: Input, new: Input, dim: str) -> list[range | None]:
    """Return where each of the coordinates of a new input is."""
    return [
        _place(existing, new, path)
        for path, node in new.arrays.items()
        if is_coordinate(node) and axis_of(node, dim) == 0 and path in existing.arrays
    ]


def _only(new: Input, places: Sequence[range | None]) -> range | None:
    if any(place != places[0] for place in places):
        raise NotConvertibleError(
            f"some of its groups are there already, and others are not: {new.name}"
        )
    return places[0] if places else None


def _place(existing: Input, new: Input, path: str) -> range | None:
    inputs = (existing, new)
    meant = [meanings(each.arrays)[path] for each in inputs]
    values = coordinate_of(
        path,
        [each.variable(path) for each in inputs],
        meant,
        lambda number, what: f"unlike {existing.name}, {inputs[number].name} has {what}",
    )
    ours, theirs = values.values
    if not len(ours) or not len(theirs):
        return None
    position: dict[Any, int] = {value: at for at, value in enumerate(ours.tolist())}
    at = [position.get(value) for value in theirs.tolist()]
    known = [place for place in at if place is not None]
    if not known:
        return None
    place = range(known[0], known[0] + len(theirs))
    expected = [n if n < len(ours) else None for n in place]
    if at != expected:
        raise NotConvertibleError(
            f"its values overlap those of {existing.name}, but not one after the other, such as "
            f"{values.shown(ours[known[0]])}",
            array=path,
            remedy=f"Leave out {new.name}, or those of its values that are there.",
        )
    return place


def _last(existing: Input, inputs: Sequence[Input], dim: str) -> list[range | None]:
    """Return the places of the first inputs whose references are the last of the hierarchy."""
    length = _length(existing, dim)
    lengths = [_length(each, dim) for each in inputs]
    nothing: list[range | None] = [None] * len(inputs)
    for count in range(len(inputs), 0, -1):
        known = [each for each in lengths[:count] if each]
        if length is None or len(known) < count or sum(known) > length:
            continue
        starts = np.cumsum([length - sum(known), *known]).tolist()
        places = [range(*each) for each in itertools.pairwise(starts)]
        pairs = zip(inputs[:count], places, strict=True)
        if all(is_there(existing, each, dim, place) for each, place in pairs):
            return [*places, *nothing[count:]]
    return nothing


def _length(given: Input, dim: str) -> int | None:
    """Return the number of values along a dimension; None if arrays say otherwise."""
    axes = ((node, axis_of(node, dim)) for node in given.arrays.values())
    lengths = {node.metadata["shape"][axis] for node, axis in axes if axis is not None}
    return lengths.pop() if len(lengths) == 1 else None


def is_there(existing: Input, new: Input, dim: str, place: range) -> bool:
    """Whether all arrays of a new input have the same references at a place, or the same values.

    Only the documents of the partitions there are read.
    """
    return all(_are_there(existing, new, dim, place))


def _are_there(existing: Input, new: Input, dim: str, place: range) -> Iterator[bool]:
    for path, node in new.arrays.items():
        axis = axis_of(node, dim)
        if axis is None:
            continue
        there = existing.arrays.get(path)
        if there is None or place.stop > there.metadata["shape"][axis]:
            yield False
        elif is_coordinate(node) and axis == 0:
            continue  # its values say where it is
        elif is_held(there) and is_held(node):
            ours = existing.values(path).take(place, axis)
            yield bool(np.array_equal(ours, new.values(path)))
        else:
            yield _same(existing, there, node, axis, place)


def _same(existing: Input, there: ArrayNode, node: ArrayNode, axis: int, place: range) -> bool:
    if chunk_shape(there) != chunk_shape(node):
        return False
    if not is_aligned(there, axis, place.start, place.stop):
        return False
    part = cut(there, axis, place.start, place.stop, lambda: existing.variable(there.path))
    return are_same(whole(part), whole(node))


def whole(node: ArrayNode) -> References:
    """Return all references of an array."""
    if isinstance(node.manifest, Manifest):
        return references_of(node.manifest)
    joined = JoinedReferences()
    grid_shape: tuple[int, ...] = ()
    for part in map(references_of, parts_of(node.manifest)):
        grid_shape = part.grid_shape
        joined.add_references(part)
    if not grid_shape:
        lengths = zip(node.metadata["shape"], chunk_shape(node), strict=True)
        grid_shape = tuple(-(-n // size) for n, size in lengths)
    found = joined.references(grid_shape)
    assert found is not None  # each chunk is in one part
    return found
