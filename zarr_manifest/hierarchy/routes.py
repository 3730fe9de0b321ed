"""Where the value of a key is read from: a chunk of a manifest array, metadata, or the store."""

from __future__ import annotations

from msgspec import Struct

from zarr_manifest.hierarchy.node_table import NATIVE, Native
from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer


class Chunk(Struct, frozen=True):
    """A key that names a chunk of a manifest array.

    Parameters
    ----------
    array : ChunkManifestTransformer
        The array.
    index : tuple of int
        Grid index of the chunk.
    """

    array: ChunkManifestTransformer
    index: tuple[int, ...]


class Metadata(Struct, frozen=True):
    """A key that names the ``zarr.json`` of a node.

    Parameters
    ----------
    path : str
        Path of the node.
    """

    path: str


type Route = Native | Chunk | Metadata
"""Where a value is read from: the hierarchy's own store, a manifest, or that store, but revealed.

A value that the store does not have may still be a chunk of a manifest array; see
``KnownNodes.route_of_absent``.
"""


def route_in(array: ChunkManifestTransformer, path: str, key: str) -> Route:
    """Return the route of a key below a manifest array, of which it may not be a chunk."""
    index = array.index_of(key[len(path) :].lstrip("/"))
    return NATIVE if index is None else Chunk(array, index)
