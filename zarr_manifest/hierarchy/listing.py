"""Listing of a ManifestStore: its keys, and the chunks in its manifests.

A chunk of a manifest array exists if the manifest names it: whatever the underlying store
holds under its key is never read, and so not listed.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator

from msgspec import Struct, field
from zarr.abc.store import Store

from zarr_manifest.format import METADATA_NAMES, join, node_of_metadata, owner_candidates
from zarr_manifest.hierarchy.known_nodes import KnownNodes, ListedOtherwise
from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer
from zarr_manifest.hierarchy.walking import list_nodes, open_for_reading
from zarr_manifest.locations import Location
from zarr_manifest.sources import in_order
from zarr_manifest.stores import store_name, unknown_members

# Number of nodes to read at the same time.
_CONCURRENT_CALLS = 16

# Number of keys that wait for the metadata of their array, which may be listed after them.
_MOST_UNDECIDED = 100_000


async def list_prefix(store: Store, known: KnownNodes, prefix: str) -> AsyncIterator[str]:
    """Yield all keys below a prefix."""
    listing = _Listing(known)
    inside = await known.array_at(prefix.rstrip("/"))
    if inside is not None:
        listing.found[inside.array_path] = inside
    otherwise = await known.listed_otherwise()
    native: set[str] = set()  # what the keys of chunks of native arrays begin with
    async for key in _keys(store, prefix, otherwise):
        above, _, name = key.rpartition("/")
        if above in native and name.isdecimal():
            yield key
            continue
        path = node_of_metadata(key)
        if path is not None:
            if not known.declares_nothing(path):
                listing.nodes.append(path)
            yield key
        elif known.is_native(key):
            if name.isdecimal() and name.isascii():
                native.add(above)
            yield key
        else:
            # The zarr.json of its array may come later.
            for decided in await listing.hold(key):
                yield decided
    for key in await listing.rest():
        yield key
    for array in listing.found.values():
        async for key in list_chunk_keys(array, prefix):
            yield key


async def _keys(store: Store, prefix: str, otherwise: ListedOtherwise) -> AsyncIterator[str]:
    """Yield the stored keys below a prefix, as if a change was written that is not yet."""
    async for key in store.list_prefix(prefix):
        if not otherwise.removed or not _is_of(key, otherwise.removed):
            yield key
    for key in sorted(join(path, "zarr.json") for path in otherwise.added):
        if key.startswith(prefix):
            yield key


def _is_of(key: str, nodes: set[str]) -> bool:
    """Whether a key is that of a node's metadata, or may be that of its chunks."""
    above, _, name = key.rpartition("/")
    if name in METADATA_NAMES:
        return above in nodes
    return not nodes.isdisjoint(owner_candidates(key))


class _Listing(Struct):
    """What has been met below a prefix: nodes to be read, manifest arrays, and other keys."""

    known: KnownNodes
    nodes: list[str] = field(default_factory=list[str])
    found: dict[str, ChunkManifestTransformer] = field(
        default_factory=dict[str, ChunkManifestTransformer]
    )
    undecided: list[str] = field(default_factory=list[str])
    most: int = _MOST_UNDECIDED

    async def read(self) -> None:
        """Read the nodes, several at a time."""
        nodes, self.nodes = self.nodes, []
        calls = (functools.partial(self.known.array_at, path) for path in nodes)
        async for array in in_order(calls, _CONCURRENT_CALLS):
            if array is not None:
                self.found[array.array_path] = array

    async def hold(self, key: str) -> list[str]:
        """Keep an undecided key; if there are too many, return the native ones."""
        self.undecided.append(key)
        if len(self.undecided) <= self.most:
            return []
        await self.read()
        native = [key for key in self.undecided if self.known.is_native(key)]
        self.undecided = [key for key in self.undecided if self.known.route(key) is None]
        self.most = _MOST_UNDECIDED + 2 * len(self.undecided)
        return native

    async def rest(self) -> list[str]:
        """Return those of the undecided keys that are no chunks of manifest arrays."""
        await self.read()
        return [key for key in self.undecided if not _is_chunk(key, self.found)]


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
    store: Store, known: KnownNodes, prefix: str
) -> tuple[list[str], list[ChunkManifestTransformer]]:
    """Return what lies below a prefix: some chunks of one manifest array, or whole arrays."""
    directory = prefix.rstrip("/")
    inside = await known.array_at(directory)
    if inside is not None and inside.array_path != directory:
        return [key async for key in list_chunk_keys(inside, directory)], []
    return [], [array async for array in list_manifest_arrays(store, known, directory)]


async def list_dir(store: Store, known: KnownNodes, prefix: str) -> AsyncGenerator[str, None]:
    """Yield the names of keys and directories directly below a prefix."""
    directory = prefix.rstrip("/")
    if known.declares_nothing(directory) or await known.array_at(directory) is None:
        # Not before it is iterated over: zarr 3.1's ObjectStore needs an event loop for it.
        names = [name async for name in store.list_dir(prefix)]
        if METADATA_NAMES.isdisjoint(names) and await _is_group(store, directory):
            raise unknown_members(store_name(store))
        if known.remembered.changes:
            names = _names(names, directory, await known.listed_otherwise())
        for name in names:
            yield name
        return
    below = f"{directory}/" if directory else ""
    first: dict[str, None] = {}
    async for key in list_prefix(store, known, below):
        first[key[len(below) :].partition("/")[0]] = None
    for name in first:
        yield name


def _names(names: list[str], directory: str, otherwise: ListedOtherwise) -> list[str]:
    """Return the names in a directory as if a change was written that is not yet."""
    if directory in otherwise.removed:
        return []
    below = f"{directory}/" if directory else ""
    added = {
        key[len(below) :].partition("/")[0]
        for path in otherwise.added
        if (key := join(path, "zarr.json")).startswith(below)
    }
    kept = [name for name in names if join(directory, name) not in otherwise.removed]
    return [*kept, *sorted(added.difference(kept))]


async def _is_group(store: Store, path: str) -> bool:
    """Whether a group has metadata: they must be listed, or else nothing can be."""
    return any([await store.exists(join(path, name)) for name in ("zarr.json", ".zgroup")])


async def list_manifest_arrays(
    store: Store, known: KnownNodes, directory: str
) -> AsyncIterator[ChunkManifestTransformer]:
    """Yield the manifest arrays at and below a path."""
    below = f"{directory}/" if directory else ""
    otherwise = await known.listed_otherwise()
    paths = [node_of_metadata(key) async for key in _keys(store, below, otherwise)]
    nodes = [path for path in paths if path is not None and not known.declares_nothing(path)]
    calls = (functools.partial(known.array_at, path) for path in nodes)
    number = 0
    async for array in in_order(calls, _CONCURRENT_CALLS):
        if array is not None and array.array_path == nodes[number]:
            yield array
        number += 1


async def list_locations(
    store: Store, known: KnownNodes, directories: tuple[str, ...]
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
        array = known.manifest_array(node.path, node.array, is_own=node.is_own)
        if array is not None:
            found += [item async for item in array.statistics()]
    return found
