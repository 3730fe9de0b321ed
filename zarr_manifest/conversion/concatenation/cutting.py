"""A part of an array along a dimension, in whole chunks: what stays, and what is replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zarr_manifest.conversion.concatenation.coordinates import Coordinate, joined_values
from zarr_manifest.conversion.concatenation.inputs import is_held
from zarr_manifest.conversion.concatenation.placing import Joint, Placement, chunk_shape
from zarr_manifest.conversion.files import StoredParts
from zarr_manifest.conversion.nodes import ArrayNode, StreamedManifest
from zarr_manifest.errors import NotConvertibleError


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
    if start == stop:
        return _without_values(node, axis)
    if not is_aligned(node, axis, start, stop):
        if not is_held(node):
            raise NotConvertibleError(
                f"the values from {start:,} to {stop:,} are not whole chunks of {chunk:,}"
            )
        whole = variable()
        part = whole.isel({whole.dims[axis]: slice(start, stop)})
        return joined_values(node, Coordinate(node.path, [part], is_decoded=False), axis)
    shape = list(node.metadata["shape"])
    shape[axis] = stop - start
    chunks = range(start // chunk, -(-stop // chunk))
    manifest = node.manifest
    if isinstance(manifest, StreamedManifest) and isinstance(manifest.parts, StoredParts):
        parts = manifest.parts.along(axis, chunks)
        manifest = StreamedManifest(manifest.partition_shape, parts, is_in_order=True)
    placement = Placement(
        ArrayNode(node.path, node.metadata, manifest), -chunks.start, chunks.stop, chunks=chunks
    )
    joint = Joint({**node.metadata, "shape": shape}, axis, [placement])
    return ArrayNode(node.path, joint.metadata, joint.manifest(), node.notes)


def _without_values(node: ArrayNode, axis: int) -> ArrayNode:
    shape = list(node.metadata["shape"])
    shape[axis] = 0
    joint = Joint({**node.metadata, "shape": shape}, axis, [])
    return ArrayNode(node.path, joint.metadata, joint.manifest(), node.notes)
