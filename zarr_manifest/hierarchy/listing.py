"""Listing of a ManifestStore: its keys, and the chunks in its manifests.

A chunk of a manifest array exists if the manifest names it: whatever the hierarchy's own store
holds under its key is never read, and so not listed. zarr asks for keys: nodes are those among
them, without a walk.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field
from zarr.abc.store import Store

from zarr_manifest.errors import LocationNotAllowedError
from zarr_manifest.format import METADATA_NAMES, ancestors, join, node_of_metadata, owner_candidates
from zarr_manifest.hierarchy.known_nodes import CONCURRENT_CALLS, KnownNodes
from zarr_manifest.sources import in_order
from zarr_manifest.stores import store_name, unknown_members

if TYPE_CHECKING:
    from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer


class UnlistedChanges(Struct, frozen=True):
    """Changes that a store's list does not show: while they are being written, or made in an edit.

    Parameters
    ----------
    added : set of str
        Paths of nodes whose own metadata may not be written yet.
    removed : set of str
        Paths that are no longer nodes, but may still have metadata.
    """

    added: set[str] = field(default_factory=set[str])
    removed: set[str] = field(default_factory=set[str])

    async def keys(self, listed: AsyncIterator[str], prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix, given those that the store lists."""
        added = {join(path, "zarr.json") for path in self.added}
        async for key in listed:
            if key not in added and not (self.removed and self._is_removed(key)):
                yield key
        for key in sorted(added):
            if key.startswith(prefix):
                yield key

    def _is_removed(self, key: str) -> bool:
        """Whether a key is that of a removed node's metadata, or may be that of its chunks."""
        above, _, name = key.rpartition("/")
        if name in METADATA_NAMES:
            return above in self.removed
        return not self.removed.isdisjoint(owner_candidates(key))

    def names(self, listed: list[str], directory: str) -> list[str]:
        """Return the names in a directory, given those that the store lists."""
        below = f"{directory}/" if directory else ""
        added = {
            key[len(below) :].partition("/")[0]
            for path in self.added
            if (key := join(path, "zarr.json")).startswith(below)
        }
        if directory in self.removed:
            listed = []
        kept = [name for name in listed if join(directory, name) not in self.removed]
        return [*kept, *sorted(added.difference(kept))]


async def _unlisted_changes(known: KnownNodes) -> UnlistedChanges:
    """Find out which nodes' own metadata are there, or not, unlike the nodes."""
    found, changes = UnlistedChanges(), known.remembered.changes

    async def look(path: str) -> None:
        with contextlib.suppress(LocationNotAllowedError):  # behind a link that leads out
            own = await known.stored(path)
            standing = changes.standing(path, own)
            if standing == "absent":
                found.removed.add(path)
            elif standing == "copy" and own is None:
                found.added.add(path)

    calls = (functools.partial(look, path) for path in list(changes.in_doubt()))
    async for _ in in_order(calls, CONCURRENT_CALLS):
        pass
    return found


async def list_prefix(store: Store, known: KnownNodes, prefix: str) -> AsyncIterator[str]:
    """Yield all keys below a prefix."""
    found: dict[str, ChunkManifestTransformer] = {}
    inside = await known.array_at(prefix.rstrip("/"))
    if inside is not None:
        found[inside.array_path] = inside
    # The zarr.json of an array may come after its chunks.
    keys = await _keys(store, known, prefix)
    found |= await _manifest_arrays(known, keys)

    @functools.cache
    def is_inside(above: str) -> bool:
        return not found.keys().isdisjoint([above, *ancestors(above)])

    for key in keys:
        if (
            not is_inside(key.rpartition("/")[0])
            or node_of_metadata(key) is not None
            or not _is_chunk(key, found)
        ):
            yield key
    for array in found.values():
        async for key in list_chunk_keys(array, prefix):
            yield key


async def _manifest_arrays(
    known: KnownNodes, keys: Iterable[str]
) -> dict[str, ChunkManifestTransformer]:
    """Return the manifest arrays of which metadata are among some keys, by path."""
    paths = map(node_of_metadata, keys)
    nodes = [path for path in paths if path is not None and not known.declares_nothing(path)]
    calls = (functools.partial(known.array_at, path) for path in nodes)
    arrays = [array async for array in in_order(calls, CONCURRENT_CALLS)]
    return {array.array_path: array for array in arrays if array is not None}


async def _keys(store: Store, known: KnownNodes, prefix: str) -> list[str]:
    """Return the stored keys below a prefix, as if a change was written that is not yet."""
    unlisted = await _unlisted_changes(known)
    return [key async for key in unlisted.keys(store.list_prefix(prefix), prefix)]


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
    below = f"{directory}/" if directory else ""
    arrays = await _manifest_arrays(known, await _keys(store, known, below))
    return [], [*arrays.values()]


async def list_dir(store: Store, known: KnownNodes, prefix: str) -> AsyncGenerator[str, None]:
    """Yield the names of keys and directories directly below a prefix."""
    directory = prefix.rstrip("/")
    if known.declares_nothing(directory) or await known.array_at(directory) is None:
        # Not before it is iterated over: zarr 3.1's ObjectStore needs an event loop for it.
        names = [name async for name in store.list_dir(prefix)]
        if METADATA_NAMES.isdisjoint(names) and await _is_group(store, directory):
            raise unknown_members(store_name(store))
        if known.remembered.changes:
            names = (await _unlisted_changes(known)).names(names, directory)
        for name in names:
            yield name
        return
    below = f"{directory}/" if directory else ""
    first: dict[str, None] = {}
    async for key in list_prefix(store, known, below):
        first[key[len(below) :].partition("/")[0]] = None
    for name in first:
        yield name


async def _is_group(store: Store, path: str) -> bool:
    """Whether a group has metadata: they must be listed, or else nothing can be."""
    return any([await store.exists(join(path, name)) for name in ("zarr.json", ".zgroup")])
