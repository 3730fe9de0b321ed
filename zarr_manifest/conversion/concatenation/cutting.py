"""A part of each array along a dimension, in whole chunks; and the removal of the first values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from zarr_manifest.conversion.concatenation.growing import Growing, grow
from zarr_manifest.conversion.files import documents_along
from zarr_manifest.conversion.joining import (
    Input,
    JoinedArray,
    Joint,
    Placement,
    chunk_shape,
    chunks_of,
    is_held,
    joined_values,
    require_one_length,
)
from zarr_manifest.conversion.nodes import ArrayNode, StreamedManifest
from zarr_manifest.errors import NotConvertibleError, in_context
from zarr_manifest.sources import Allow, access_by_prefix
from zarr_manifest.stores import StoreLike


def is_aligned(node: ArrayNode, axis: int, start: int, stop: int) -> bool:
    """Whether values from `start` to `stop` are whole chunks."""
    chunk = chunk_shape(node)[axis]
    length: int = node.metadata["shape"][axis]
    return start % chunk == 0 and (stop % chunk == 0 or stop == length)


def cut(
    node: ArrayNode, axis: int, start: int, stop: int, variable: Callable[[], Any]
) -> ArrayNode:
    """Return an array with the values from `start` to `stop` only.

    Of a partitioned manifest, only the documents with these chunks are read.

    Parameters
    ----------
    node : ArrayNode
        The array.
    axis : int
        The dimension.
    start, stop : int
        In elements.
    variable : callable
        Returns the array as a variable of xarray, if its inline values are cut.

    Raises
    ------
    NotConvertibleError
        The part does not consist of whole chunks, and is not held inline.
    """
    length: int = node.metadata["shape"][axis]
    if (start, stop) == (0, length):
        return node
    chunk = chunk_shape(node)[axis]
    if start < stop and not is_aligned(node, axis, start, stop):
        if not is_held(node):
            raise NotConvertibleError(
                f"the values from {start:,} to {stop:,} are not whole chunks of {chunk:,}"
            )
        whole = variable()
        part = whole.isel({whole.dims[axis]: slice(start, stop)})
        return joined_values(node, [part], axis)
    joint = _part(node, axis, chunks_of(node, axis, range(start, stop)), stop - start)
    return replace(joint.node(), notes=node.notes)


def _part(
    node: ArrayNode, axis: int, chunks: range, length: int, *, as_written: bool = False
) -> Joint:
    """Return an array with some chunks along a dimension only; other documents are not read.

    With URLs as paths, or as they are written.
    """
    shape = list(node.metadata["shape"])
    shape[axis] = length
    manifest, documents = node.manifest, documents_along(node, axis, chunks)
    if documents is not None and isinstance(manifest, StreamedManifest):
        parts = documents.as_written() if as_written else documents
        manifest = StreamedManifest(manifest.partition_shape, parts, is_in_order=True)
    part = ArrayNode(node.path, node.metadata, manifest)
    placement = Placement(part, -chunks.start, chunks.stop, chunks=chunks)
    return Joint(node.path, {**node.metadata, "shape": shape}, axis, [placement] if chunks else [])


def cut_input(given: Input, dim: str, start: int, stop: int | None) -> Input:
    """Return an input with the values from `start` to `stop` along a dimension only.

    Raises
    ------
    NotConvertibleError
        They are not whole chunks of an array.
    """
    arrays = dict(given.arrays)
    for path, node, axis in given.along(dim):
        length: int = node.metadata["shape"][axis]
        end = length if stop is None else min(stop, length)
        with in_context(array=path):
            arrays[path] = cut(node, axis, min(start, end), end, partial(given.variable, path))
    return replace(given, arrays=arrays)


# Trim -------------------------------------------------------------------------------------


@dataclass(slots=True)
class TrimReport:
    """What was removed.

    Parameters
    ----------
    kept, removed : int
        Number of values along the dimension.
    arrays : int
        Number of arrays that were changed.
    """

    kept: int
    removed: int
    arrays: int = 0


def trim(
    location: StoreLike,
    *,
    dim: str,
    keep: int,
    allow: Allow = None,
    sole_writer: bool = False,
) -> TrimReport:
    """Remove the first values of a hierarchy along a dimension, in whole chunks, as one change.

    Sources stay. Inline coordinates are cut anywhere; of other arrays, whole chunks are removed,
    so that more values than asked for may stay. A native array becomes a manifest array that
    refers to its own chunks, which stay.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy.
    dim : str
        Name of the dimension.
    keep : int
        How many of the last values stay at least.
    allow, sole_writer
        As for :func:`append`.

    Raises
    ------
    NotConvertibleError
        No array has the dimension, or arrays have other lengths along it.
    WriteConflictError
        Others changed the hierarchy again and again.
    ValueError
        `keep` is not a positive number.
    """
    if keep < 1:
        raise ValueError("keep must be at least 1")
    access = access_by_prefix(allow)

    def attempt() -> TrimReport:
        growing = Growing.open(location, access, sole_writer=sole_writer)
        with growing.as_it_is():
            return _trimmed(growing, dim, keep)

    return grow(attempt)


def _trimmed(growing: Growing, dim: str, keep: int) -> TrimReport:
    given = growing.existing
    along = list(given.along(dim))
    if not along:
        raise NotConvertibleError(f"no array has the dimension {dim!r}")
    require_one_length(along, dim, given.name)
    _, first, axis = along[0]
    length: int = first.metadata["shape"][axis]
    for unreadable in given.refused:
        raise NotConvertibleError(f"it cannot be read: {unreadable.reason}", array=unreadable.path)
    whole = math.lcm(*(chunk_shape(node)[axis] for _, node, axis in along if not is_held(node)))
    removed = max(0, length - keep) // whole * whole
    report = TrimReport(length - removed, removed)
    if not removed:
        return report
    growing.set_all(_without_first(given, path, axis, removed) for path, _, axis in along)
    report.arrays = len(along)
    growing.commit()
    return report


def _without_first(given: Input, path: str, axis: int, removed: int) -> JoinedArray:
    """Return an array without its first values; its other references stay as they are written."""
    node = given.arrays[path]
    length: int = node.metadata["shape"][axis]
    values = range(removed, length)
    if documents_along(node, axis) is not None:
        chunks = chunks_of(node, axis, values)
        return _part(node, axis, chunks, len(values), as_written=True)
    variable = partial(given.variable, path)
    return cut(node, axis, removed, length, variable)
