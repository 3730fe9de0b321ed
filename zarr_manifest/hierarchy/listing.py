"""What a ManifestStore lists: keys, and what manifests refer to.

A chunk of a manifest array exists if the manifest names it: whatever the underlying store
holds under its key is never read, and so not listed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from zarr.abc.store import Store

from zarr_manifest.format import owner_candidates
from zarr_manifest.hierarchy.arrays import ChunkManifestTransformer, KnownArrays
from zarr_manifest.hierarchy.keys import node_of_metadata
from zarr_manifest.hierarchy.walking import list_nodes, open_for_reading
from zarr_manifest.locations import Location
from zarr_manifest.sources import run_async

__all__ = [
    "list_chunks_below",
    "list_dir",
    "list_locations",
    "list_prefix",
]


async def list_prefix(store: Store, arrays: KnownArrays, prefix: str) -> AsyncIterator[str]:
    """Yield all keys below a prefix."""
    found: dict[str, ChunkManifestTransformer] = {}
    inside = await run_async(arrays.array_at(prefix.rstrip("/")))
    if inside is not None:
        found[inside.array_path] = inside
    undecided: list[str] = []
    async for key in store.list_prefix(prefix):
        path = node_of_metadata(key)
        if path is not None:
            yield key
            array = await run_async(arrays.array_at(path))
            if array is not None:
                found[array.array_path] = array
        elif arrays.known_native(key):
            yield key
        else:
            # The zarr.json of its array may come later.
            undecided.append(key)
    for key in undecided:
        if not _is_chunk(key, found):
            yield key
    for array in found.values():
        async for key in list_chunk_keys(array, prefix):
            yield key


def _is_chunk(key: str, found: dict[str, ChunkManifestTransformer]) -> bool:
    """Whether a key is a chunk key of one of these manifest arrays."""
    return any(
        path in found and found[path].index_of(key[len(path) :].lstrip("/")) is not None
        for path in owner_candidates(key)
    )


async def list_chunk_keys(array: ChunkManifestTransformer, prefix: str) -> AsyncIterator[str]:
    """Yield the chunk keys of a manifest array below a prefix."""
    start = f"{array.array_path}/" if array.array_path else ""
    async for key in array.chunk_keys():
        if (start + key).startswith(prefix):
            yield start + key


async def list_chunks_below(
    store: Store, arrays: KnownArrays, prefix: str
) -> tuple[list[str], list[ChunkManifestTransformer]]:
    """Return what lies below a prefix: some chunks of one manifest array, or whole arrays."""
    directory = prefix.rstrip("/")
    inside = await run_async(arrays.array_at(directory))
    if inside is not None and inside.array_path != directory:
        return [key async for key in list_chunk_keys(inside, directory)], []
    return [], [array async for array in list_manifest_arrays(store, arrays, directory)]


async def list_dir(store: Store, arrays: KnownArrays, prefix: str) -> AsyncIterator[str]:
    """Yield the names of keys and directories directly below a prefix."""
    directory = prefix.rstrip("/")
    if await run_async(arrays.array_at(directory)) is None:
        async for name in store.list_dir(prefix):
            yield name
        return
    below = f"{directory}/" if directory else ""
    names: dict[str, None] = {}
    async for key in list_prefix(store, arrays, below):
        names[key[len(below) :].partition("/")[0]] = None
    for name in names:
        yield name


async def list_manifest_arrays(
    store: Store, arrays: KnownArrays, directory: str
) -> AsyncIterator[ChunkManifestTransformer]:
    """Yield the manifest arrays at and below a path."""
    below = f"{directory}/" if directory else ""
    async for key in store.list_prefix(below):
        path = node_of_metadata(key)
        if path is not None:
            array = await run_async(arrays.array_at(path))
            if array is not None and array.array_path == path:
                yield array


async def list_locations(
    store: Store, arrays: KnownArrays, directories: tuple[str, ...]
) -> list[tuple[Location, int, int]]:
    """Return the locations that all manifests refer to, with references and known bytes.

    Raises
    ------
    ManifestError
        There is no hierarchy, it cannot be listed, or a manifest cannot be loaded.
    """
    found: list[tuple[Location, int, int]] = []
    for node in await list_nodes(await open_for_reading(store), directories=directories):
        if node.problem is not None:
            raise node.problem
        if node.array is None:
            continue
        array = arrays.manifest_array(node.path, node.array, is_own=node.is_own)
        if array is not None:
            found += [item async for item in array.statistics()]
    return found
