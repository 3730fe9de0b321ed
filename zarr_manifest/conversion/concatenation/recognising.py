"""Which inputs of an append are in the hierarchy already: by coordinates, or by references."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from zarr_manifest.conversion.concatenation.concatenating import begin_reading
from zarr_manifest.conversion.concatenation.cutting import cut, is_aligned
from zarr_manifest.conversion.files import documents_along
from zarr_manifest.conversion.joining import (
    AlignedArray,
    Input,
    align_one,
    are_same,
    axis_of,
    chunk_shape,
    chunks_of,
    fit,
    is_coordinate,
    is_held,
)
from zarr_manifest.conversion.nodes import ArrayNode, StreamedManifest, parts_of, whole
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import grid_indices
from zarr_manifest.manifest import References, references_of
from zarr_manifest.showing import counted


def places_of(existing: Input, inputs: Sequence[Input], dim: str) -> list[range | None]:
    """Return for inputs which values along a dimension are theirs; None for one that is all new.

    Parameters
    ----------
    existing : Input
        The hierarchy.
    inputs : sequence of Input
        What is appended, in order.
    dim : str
        The dimension.

    Returns
    -------
    list of (range or None)
        A range may end beyond the present values, if only the first of the new ones are there.

    Raises
    ------
    NotConvertibleError
        Coordinates of several groups say otherwise, or do not mean the same; or inputs begin before
        the hierarchy does.
    """
    coordinates = dict.fromkeys(
        path
        for each in inputs
        for path, node, axis in each.along(dim)
        if is_coordinate(node) and axis == 0 and path in existing.arrays
    )
    if not coordinates:
        return _by_references(existing, inputs, dim)
    found: list[list[range | None]] = [[] for _ in inputs]
    for path in coordinates:
        numbers = [number for number, each in enumerate(inputs) if path in each.arrays]
        having = [inputs[number] for number in numbers]
        places = _by_coordinate(existing, having, path, dim)
        for number, place in zip(numbers, places, strict=True):
            found[number].append(place)
    return [_only(each, places) for each, places in zip(inputs, found, strict=True)]


def _only(new: Input, places: Sequence[range | None]) -> range | None:
    if any(place != places[0] for place in places):
        raise NotConvertibleError(
            f"some of its groups are there already, and others are not: {new.name}"
        )
    return places[0] if places else None


# By coordinates ---------------------------------------------------------------------------


def _by_coordinate(
    existing: Input, inputs: Sequence[Input], path: str, dim: str
) -> list[range | None]:
    """Return where the values of a coordinate are that all of some inputs have."""
    array = align_one(path, [existing, *inputs], dim)
    ours, *others = (variable.values for variable in array.variables)
    _require_none_before(array, ours, others)
    position: dict[Any, int] = {value: at for at, value in enumerate(ours.tolist())}
    found: list[range | None] = []
    for new, theirs in zip(inputs, others, strict=True):
        at = [position.get(value) for value in theirs.tolist()]
        first = next((place for place in at if place is not None), None)
        if first is None:
            found.append(None)
            continue
        place = range(first, first + len(theirs))
        if at != [n if n < len(ours) else None for n in place]:
            raise NotConvertibleError(
                f"its values overlap those of {existing.name}, but not one after the other, such "
                f"as {array.shown(ours[first])}",
                array=path,
                remedy=f"Leave out {new.name}, or those of its values that are there.",
            )
        found.append(place)
    return found


def _require_none_before(array: AlignedArray, ours: Any, others: Sequence[Any]) -> None:
    """Refuse inputs that begin before the hierarchy does: a trim may have removed them."""
    existing, *inputs = array.inputs
    known = ours if len(ours) > 1 else np.concatenate([ours[:0], *others])
    if not len(ours) or len(known) < 2:
        return
    rises = known[-1] > known[0]
    early = [
        len(theirs) > 0 and bool(theirs[0] < ours[0] if rises else theirs[0] > ours[0])
        for theirs in others
    ]
    if not any(early):
        return
    names = [new.name for new, is_early in zip(inputs, early, strict=True) if is_early]
    later = [new.name for new, is_early in zip(inputs, early, strict=True) if not is_early]
    raise NotConvertibleError(
        f"{len(names):,} of {counted(len(inputs), 'source')} would come before the beginning of "
        f"{existing.name}, {array.shown(ours[0])}, such as {names[-1]}",
        array=array.path,
        remedy=f"Name only those from {later[0]} on, if the others were trimmed."
        if later
        else f"Only what comes after {array.shown(ours[-1])} can be appended.",
    )


# By references ----------------------------------------------------------------------------


def _by_references(existing: Input, inputs: Sequence[Input], dim: str) -> list[range | None]:
    """Return the places of inputs without coordinates: at the end, or where their bytes are."""
    found = _last(existing, inputs, dim)
    unknown = [number for number, place in enumerate(found) if place is None]
    elsewhere = _elsewhere(existing, [inputs[number] for number in unknown], dim)
    for number, place in zip(unknown, elsewhere, strict=True):
        found[number] = place
    _require_given_order(existing, inputs, found)
    return found


def _require_given_order(
    existing: Input, inputs: Sequence[Input], places: Sequence[range | None]
) -> None:
    """Refuse inputs that come before others which are there: a trim may have removed them."""
    last = max((number for number, place in enumerate(places) if place is not None), default=0)
    early = [number for number in range(last) if places[number] is None]
    if early:
        following = inputs[early[-1] + 1].name
        raise NotConvertibleError(
            f"{len(early):,} of {counted(len(inputs), 'source')} would come after {following}, "
            f"which is in {existing.name} and follows them in the order given, such as "
            f"{inputs[early[-1]].name}",
            remedy=f"Name only those from {following} on, if the others were trimmed.",
        )


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


type _Chunk = tuple[str, int]
"""The object and the offset of a chunk."""

type _Sought = dict[_Chunk, list[tuple[int, list[int], int]]]
"""By chunk: the number of each input that has it, its grid index there, and its length."""


def _elsewhere(existing: Input, inputs: Sequence[Input], dim: str) -> list[range | None]:
    """Return the places of inputs by the objects and offsets of their chunks, wherever they are.

    All documents are read of one array, that with the fewest chunks. Of another one, only if an
    input has no such chunk there, or several places, because others share its chunks.

    Returns
    -------
    list of (range or None)
        A range begins before 0 if the first values of an input were removed.
    """
    starts: list[set[int] | None] = [None] * len(inputs)
    arrays = sorted(existing.along(dim), key=lambda each: _number_of_chunks(each[1]))
    for path, node, axis in arrays:
        found: dict[int, set[int]] = {}
        sought: _Sought = {}
        for number, each in enumerate(inputs):
            theirs, known = each.arrays.get(path), starts[number]
            is_found = known is not None and len(known) < 2
            if is_found or theirs is None or axis_of(theirs, dim) != axis:
                continue
            # The first chunk alone may have been removed.
            if _seek(sought, number, theirs, axis, is_ends=True):
                found[number] = set()
        for part in _documents(node, axis) if sought else ():
            for number, start in _starts(part, sought, axis, chunk_shape(node)[axis]):
                found[number].add(start)
        for number, places in found.items():
            known = starts[number]
            starts[number] = places if known is None else known & places
    return [
        _place(existing, each, dim, max(known)) if known else None
        for each, known in zip(inputs, starts, strict=True)
    ]


def _place(existing: Input, new: Input, dim: str, start: int) -> range | None:
    """Return the place of an input that begins at a value, unless it only shares chunks with it.

    Such as those of a mask that is stored once: of another array, there is none of its chunks.
    """
    place = range(start, start + (_length(new, dim) or 0))
    for path, theirs, axis in new.along(dim):
        there, sought = existing.arrays.get(path), dict[_Chunk, Any]()
        if there is None or not _seek(sought, 0, theirs, axis):
            continue
        values = range(max(start, 0), min(place.stop, there.metadata["shape"][axis]))
        documents = documents_along(there, axis, chunks_of(there, axis, values))
        parts = map(references_of, documents or parts_of(there.manifest))
        length = chunk_shape(there)[axis]
        found = (at for part in parts for _, at in _starts(part, sought, axis, length))
        if start not in found:
            return None
    return place


def _seek(
    sought: _Sought, number: int, node: ArrayNode, axis: int, *, is_ends: bool = False
) -> bool:
    """Add the chunks that are in objects; only the first and the last along an axis, if so asked.

    Return whether there are any.
    """
    references = whole(node)
    rows = np.flatnonzero(references.columns().path_numbers >= 0)
    if is_ends and len(rows):
        numbers = references.columns(rows).numbers
        along = grid_indices(references.grid_shape, numbers)[:, axis]
        rows = rows[np.unique([along.argmin(), along.argmax()])]
    for chunk, index in _chunks_at(references, rows):
        sought.setdefault(chunk, []).append((number, index, chunk_shape(node)[axis]))
    return len(rows) > 0


def _starts(
    references: References, sought: _Sought, axis: int, length: int
) -> Iterator[tuple[int, int]]:
    """Yield where inputs begin, in values, that have chunks of an array; with their numbers."""
    objects, offsets = {url for url, _ in sought}, [offset for _, offset in sought]
    wanted = [number for number, url in enumerate(references.paths) if url in objects]
    columns = references.columns()
    is_wanted = np.isin(columns.path_numbers, wanted) & np.isin(columns.offsets, offsets)
    for chunk, index in _chunks_at(references, np.flatnonzero(is_wanted)):
        for number, own, own_length in sought.get(chunk, ()):
            if [*own[:axis], *own[axis + 1 :]] == [*index[:axis], *index[axis + 1 :]]:
                yield number, index[axis] * length - own[axis] * own_length


def _chunks_at(references: References, rows: Any) -> Iterator[tuple[_Chunk, list[int]]]:
    """Yield the chunks of some rows, and their grid indices."""
    columns = references.columns(rows)
    indices = grid_indices(references.grid_shape, columns.numbers).tolist()
    found = zip(columns.path_numbers.tolist(), columns.offsets.tolist(), indices, strict=True)
    for number, offset, index in found:
        yield (references.paths[number], offset), index


def _number_of_chunks(node: ArrayNode) -> int:
    return math.prod(len(chunks_of(node, axis)) for axis in range(len(chunk_shape(node))))


def _documents(node: ArrayNode, axis: int) -> Iterator[References]:
    """Yield all references of an array: the last documents, which are held, are not read again."""
    last, manifest = documents_along(node, axis), node.manifest
    if last is None or not isinstance(manifest, StreamedManifest):
        return map(references_of, parts_of(manifest))
    length = manifest.partition_shape[axis]
    stop = (len(chunks_of(node, axis)) - 1) // length * length
    others = documents_along(node, axis, range(stop)) if stop else ()
    return map(references_of, itertools.chain(others or (), last))


def _length(given: Input, dim: str) -> int | None:
    """Return the number of values along a dimension; None if arrays say otherwise."""
    lengths = {node.metadata["shape"][axis] for _, node, axis in given.along(dim)}
    return lengths.pop() if len(lengths) == 1 else None


def is_there(existing: Input, new: Input, dim: str, place: range) -> bool:
    """Whether all arrays of a new input have the same references at a place, or the same values.

    Only the documents of the partitions there are read.
    """
    begin_reading(existing, dim, place)
    is_like = any(path in existing.arrays for path, _, _ in new.along(dim))
    return is_like and all(_are_there(existing, new, dim, place))


def _are_there(existing: Input, new: Input, dim: str, place: range) -> Iterator[bool]:
    unreadable = {node.path for node in existing.refused}
    for path, node, axis in new.along(dim):
        there = existing.arrays.get(path)
        if there is None and path not in unreadable:
            continue  # it is left out
        if there is None or axis_of(there, dim) != axis:
            yield False
            return
        if place.stop > there.metadata["shape"][axis]:
            yield False
        elif is_coordinate(node) and axis == 0:
            continue  # its values say where it is
        elif is_held(there):
            yield _are_equal(existing, new, path, dim, place)
        else:
            yield _same(existing, there, node, axis, place)


def _are_equal(existing: Input, new: Input, path: str, dim: str, place: range) -> bool:
    """Whether an array has the values of a new input at a place, whatever their units are."""
    name = path.rpartition("/")[2]
    loaded = [dataclasses.replace(each, loadable=[name]) for each in (existing, new)]
    try:
        ours, theirs = align_one(path, loaded, dim).variables
    except NotConvertibleError:
        return False
    values = ours.isel({dim: slice(place.start, place.stop)}).values
    is_float = values.dtype.kind in "fc"
    return bool(np.array_equal(values, theirs.values, equal_nan=is_float))


def _same(existing: Input, there: ArrayNode, node: ArrayNode, axis: int, place: range) -> bool:
    if not is_aligned(there, axis, place.start, place.stop):
        return False
    part = cut(there, axis, place.start, place.stop, lambda: existing.variable(there.path))
    if chunk_shape(there) == chunk_shape(node):
        return are_same(whole(part), whole(node))
    try:
        # What is there may be pieces of the chunks that are appended.
        joint = fit([part, node], axis, [existing.name, existing.name])
    except NotConvertibleError:
        return False
    return are_same(*joint.each_alone())
