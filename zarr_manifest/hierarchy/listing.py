"""Listing: the keys of the store underneath, and those of the chunks of manifest arrays.

A chunk of a manifest array exists if the manifest names it. What the store
underneath has under its key is never read, and so not listed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from zarr.abc.store import Store

from zarr_manifest.format import owner_candidates
from zarr_manifest.hierarchy.nodes import Nodes, parent_of_document
from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer
from zarr_manifest.sources import run_async

__all__ = ["list_chunk_keys", "list_dir", "list_manifest_arrays", "list_prefix"]


async def list_prefix(store: Store, nodes: Nodes, prefix: str) -> AsyncIterator[str]:
    """Yield all keys below a prefix."""
    arrays: dict[str, ChunkManifestTransformer] = {}
    inside = await run_async(nodes.array_at(prefix.rstrip("/")))
    if inside is not None:
        arrays[inside.array_path] = inside
    undecided: list[str] = []
    async for key in store.list_prefix(prefix):
        path = parent_of_document(key)
        if path is not None:
            yield key
            array = await run_async(nodes.array_at(path))
            if array is not None:
                arrays[array.array_path] = array
        elif nodes.known_native(key):
            yield key
        else:
            # The document of the array that it may be a chunk of may come later.
            undecided.append(key)
    for key in undecided:
        if not _is_chunk(key, arrays):
            yield key
    for array in arrays.values():
        async for key in list_chunk_keys(array, prefix):
            yield key


def _is_chunk(key: str, arrays: dict[str, ChunkManifestTransformer]) -> bool:
    """Whether a key is that of a chunk of one of some manifest arrays."""
    return any(
        path in arrays and arrays[path].index_of(key[len(path) :].lstrip("/")) is not None
        for path in owner_candidates(key)
    )


async def list_chunk_keys(array: ChunkManifestTransformer, prefix: str) -> AsyncIterator[str]:
    """Yield the keys of the chunks of a manifest array below a prefix."""
    start = f"{array.array_path}/" if array.array_path else ""
    async for key in array.chunk_keys():
        if (start + key).startswith(prefix):
            yield start + key


async def list_dir(store: Store, nodes: Nodes, prefix: str) -> AsyncIterator[str]:
    """Yield the names of keys and directories right below a prefix."""
    directory = prefix.rstrip("/")
    if await run_async(nodes.array_at(directory)) is None:
        async for name in store.list_dir(prefix):
            yield name
        return
    below = f"{directory}/" if directory else ""
    names: dict[str, None] = {}
    async for key in list_prefix(store, nodes, below):
        names[key[len(below) :].partition("/")[0]] = None
    for name in names:
        yield name


async def list_manifest_arrays(
    store: Store, nodes: Nodes, directory: str
) -> AsyncIterator[ChunkManifestTransformer]:
    """Yield the manifest arrays at and below a path."""
    below = f"{directory}/" if directory else ""
    async for key in store.list_prefix(below):
        path = parent_of_document(key)
        if path is not None:
            array = await run_async(nodes.array_at(path))
            if array is not None and array.array_path == path:
                yield array
