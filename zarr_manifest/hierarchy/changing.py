"""Writes and deletions through a ManifestStore: which are allowed, and their order.

Native values and metadata may be written; chunks of manifest arrays may not. When zarr rewrites
metadata, it has not seen the declarations: they are put back. Deleted nodes are first closed to
readers; objects that manifests refer to are kept.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import (
    Advice,
    ManifestError,
    ManifestNotFoundError,
    ReadOnlyError,
    Setting,
    SourceNotFoundError,
)
from zarr_manifest.format import (
    METADATA_NAMES,
    MOST_NAMES,
    NODE_METADATA,
    TRANSFORMERS,
    ArrayMetadata,
    ChunkGrid,
    Partitions,
    ancestors,
    arrays_in,
    collect,
    declare,
    dump_node,
    format_canonical,
    interpret_declaration,
    is_declaration,
    join,
    node_of_metadata,
    parse_node,
)
from zarr_manifest.hierarchy.contradictions import being_changed, vanished
from zarr_manifest.hierarchy.known_nodes import KnownNodes
from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer
from zarr_manifest.hierarchy.walking import Node, list_nodes, open_for_reading
from zarr_manifest.locations import Location
from zarr_manifest.showing import counted
from zarr_manifest.sources import in_order
from zarr_manifest.stores import OwnKeys, list_own

# Number of objects deleted at the same time.
_CONCURRENT_CALLS = 16

# A node opens if it has one of these; attributes of Zarr v2 alone are no node.
_OPENING = NODE_METADATA | {".zmetadata"}


# Writing --------------------------------------------------------------------------------


async def writable(known: KnownNodes, key: str, value: Buffer, *, may_grow: bool) -> Buffer:
    """Return the value to write, with declarations restored.

    Raises
    ------
    ReadOnlyError
        It is a chunk of a manifest array, or grows one though it may not.
    WriteConflictError
        The node is being changed by another writer, since zarr opened it.
    ManifestError
        A declaration that is to be restored is no longer there.
    """
    path = node_of_metadata(key)
    if path is not None and hasattr(value, "to_bytes"):
        body = value.to_bytes()
        restored = await _restored(known, path, body, may_grow)
        return value if restored is body else type(value).from_bytes(restored)
    if key.rpartition("/")[2] not in METADATA_NAMES and not known.is_native(key):
        owner = await known.owner(key)
        if owner is not None:
            raise _read_only(owner.array, owner.index)
    return value


async def _restored(known: KnownNodes, path: str, body: bytes, may_grow: bool) -> bytes:
    """Return a node's new ``zarr.json`` with the declarations that are stored."""
    parsed = parse_node(body)
    if parsed is None:
        return body
    node = await _with_committed(known, path, parsed)
    restored = node is not parsed
    for array in arrays_in(node):
        if array.transformers:
            continue
        place = join(path, array.path)
        is_own = array.metadata is node
        may_have_grown = is_own and not may_grow and _may_have_grown(known, place, array)
        if not may_have_grown and known.was_just_seen(place, None if is_own else path):
            continue
        stored = await known.own(place)
        if stored is None and array.path:
            stored = await known.consolidated(path, place)
        if stored is not None and is_own and not may_grow:
            await _require_no_growth(known, place, stored, array)
        if stored is not None and stored.declaration:
            declare(array, resized_declaration(place, stored, array))
            restored = True
        elif place in known.declared:
            raise vanished(place, None if stored is None else dump_node(stored.metadata))
    return _unlike_replaced(known, path, dump_node(node) if restored else body)


async def _with_committed(known: KnownNodes, path: str, node: dict[str, Any]) -> dict[str, Any]:
    """Return a node's new metadata, in which a change that is being written stays committed."""
    await _require_current(known, path)
    changes = known.remembered.changes
    if node.get("node_type") == "array":
        return node
    if path in changes or not known.was_just_seen(path):
        await known.see_group(path)
    change = changes.get(path)
    if change is None:
        return node
    found = known.stored_of([join(path, member) for member in change.pending])
    below = len(path) + 1 if path else 0
    return change.kept_in(node, {each[below:]: own async for each, own in found})


async def _require_current(known: KnownNodes, path: str) -> None:
    """Refuse to replace metadata that a change has replaced since zarr was shown them.

    The groups above are read for that, unless it takes a request for a node without a manifest.
    """
    changes = known.remembered.changes
    shown = [(change.pending[member], member) for change, member in changes.of(path)]
    if known.always_reads or path in known.declared:
        for group in ancestors(path):
            await known.see_group(group)
    if not any(changes.of(path)):
        return
    own = await known.stored(path)
    standing = changes.standing(path, own)
    was_shown = shown == [(change.pending[member], member) for change, member in changes.of(path)]
    if (standing == "copy" and not was_shown) or (standing == "absent" and own is not None):
        raise being_changed(path)


def _unlike_replaced(known: KnownNodes, path: str, body: bytes) -> bytes:
    """Return new metadata of a node as other bytes than those that a change has replaced.

    zarr was shown the copy that counts, so what it writes is newer, also if it is what was there
    before.
    """
    if known.remembered.changes.standing(path, body) != "own":
        return body + b"\n"
    return body


def _may_have_grown(known: KnownNodes, path: str, new: ArrayMetadata) -> bool:
    """Whether a native array may have become larger than a manifest array beside it can."""
    if not any(name is not None for name, _ in _extents(new.metadata)):
        return False
    group = path.rpartition("/")[0]
    alone = known.has_just_seen_members(group) and not any(
        other.rpartition("/")[0] == group for other in list(known.declared)
    )
    return not alone and known.may_have_grown(path, _list(new.metadata, "shape"))


async def _require_no_growth(
    known: KnownNodes, path: str, stored: ArrayMetadata, new: ArrayMetadata
) -> None:
    """Reject a larger shape, for which a manifest has no references.

    Also of a native array, along a dimension that it shares with a manifest array of the
    same group: the group would no longer open as a dataset, and zarr's users grow one
    array after the other.
    """
    before, after = _extents(stored.metadata), _extents(new.metadata)
    if len(before) != len(after):
        return
    grown = [number for number, size in enumerate(before) if after[number][1] > size[1]]
    if grown and stored.declaration:
        raise ReadOnlyError(
            f"the array cannot grow from {_shape(before)} to {_shape(after)}: its manifest has no "
            "references for new chunks, which would read as fill values",
            array=path,
            remedy=_GROW,
        )
    shared = {before[number] for number in grown if before[number][0] is not None}
    group = path.rpartition("/")[0]
    if shared:
        await known.see_members(group)
    for other in sorted(known.declared) if shared else ():
        if other == path or other.rpartition("/")[0] != group:
            continue
        try:
            neighbour = await known.array_at(other)
        except ManifestError:
            continue  # it cannot be opened anyway
        if neighbour is None:
            continue
        for name, size in shared.intersection(_extents(neighbour.metadata)):
            raise ReadOnlyError(
                f"the array cannot grow along {name!r}, now {size:,}: {other!r} has the same "
                "dimension, and cannot grow with it, because it is a manifest array",
                array=path,
                remedy=_GROW,
            )


_GROW = Advice(
    "Grow arrays, and write their new chunks or entries, as one change: ",
    Setting("edit", python="with zarr_manifest.edit(location) as root: ..."),
    ".",
)


def _extents(metadata: dict[str, Any]) -> list[tuple[str | None, int]]:
    """Return the name and the size of each dimension; nothing if the shape is invalid."""
    shape, names = _list(metadata, "shape"), _list(metadata, "dimension_names")
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) != len(shape):
        return []
    known = names if len(names) == len(sizes) else [None] * len(sizes)
    named = zip(known, sizes, strict=True)
    return [(name if isinstance(name, str) else None, size) for name, size in named]


def _list(metadata: dict[str, Any], member: str) -> list[object]:
    value = metadata.get(member)
    return cast("list[object]", value) if isinstance(value, list) else []


def _shape(extents: Sequence[tuple[str | None, int]]) -> tuple[int, ...]:
    return tuple(size for _, size in extents)


async def withdraw(store: Store, known: KnownNodes, directory: str) -> None:
    """Remove the copies of new nodes at and below a path, which are about to be deleted.

    As long as a change that adds them is being written, the copies alone make them exist.
    """
    changes = known.remembered.changes
    for group, added in changes.added_below(directory):
        body = dump_node(changes[group].without(added))
        value = default_buffer_prototype().buffer.from_bytes(body)
        await store.set(join(group, "zarr.json"), value)
        known.written(group, body)


def note_change(known: KnownNodes, key: str, value: Buffer | None) -> None:
    """Take note of a value that was just written, or, without one, deleted."""
    known.kept.discard(key)
    directory, _, name = key.rpartition("/")
    if name == "zarr.json" and value is not None:
        known.written(directory, value.to_bytes())
    elif name == "zarr.json":
        known.deleted(directory)
    elif name in METADATA_NAMES:
        known.note_absence(directory)


# Deleting -------------------------------------------------------------------------------


async def deletable(known: KnownNodes, key: str) -> bool:
    """Whether there is anything to delete; reject chunks that a manifest refers to."""
    if key.rpartition("/")[2] in METADATA_NAMES or known.is_native(key):
        return True
    owner = await known.owner(key)
    if owner is None:
        return True
    array, index = owner.array, owner.index
    reference = await array.row_of(index)
    if reference is not None and not reference.is_empty:
        raise _read_only(array, index)
    return False


def _read_only(array: ChunkManifestTransformer, index: tuple[int, ...]) -> ReadOnlyError:
    return ReadOnlyError(
        "chunks of a manifest array cannot be written or deleted",
        array=array.array_path,
        chunk=".".join(map(str, index)) or "0",
        remedy=Advice(
            "Do it in an edit, whose new chunks become objects of their own: ",
            Setting("edit", python="with zarr_manifest.edit(location) as root: ..."),
            ".",
        ),
    )


async def delete_below(
    store: Store, inside: Store, known: KnownNodes, directory: str, allowed: tuple[str, ...]
) -> None:
    """Delete everything below a path, except what manifests of the hierarchy refer to.

    Deletes `inside` the store, behind no link. Links are followed to metadata that are read, in
    directories that are `allowed`.

    The metadata of nodes go first, those of the topmost before the others: if this is
    interrupted, no node opens of which some chunks or documents are gone.

    Raises
    ------
    ManifestError
        What is to be kept is unknown, because a manifest cannot be read; or the path lies behind
        a link. Nothing is then deleted.
    """
    for group in ancestors(directory):
        await known.see_group(group)
    await withdraw(inside, known, directory)
    below = f"{directory}/" if directory else ""
    keys = await list_own(inside, below)
    kept = await _referenced(store, known, directory, keys, allowed) if keys else set[str]()
    kept |= known.kept.intersection(keys)
    known.kept |= kept
    levels: dict[int, list[str]] = {}
    for key in keys:
        if key.rpartition("/")[2] in _OPENING:
            levels.setdefault(key.count("/"), []).append(key)
    for level in sorted(levels):
        await _delete(inside, levels[level])
    if kept:
        gone = {key for level in levels.values() for key in level}
        await _delete(inside, (key for key in keys if key not in kept and key not in gone))
    else:
        await inside.delete_dir(directory)
    known.deleted_below(directory)


async def _delete(store: Store, keys: Iterable[str]) -> None:
    calls = (functools.partial(store.delete, key) for key in keys)
    async for _ in in_order(calls, _CONCURRENT_CALLS):
        pass


async def _referenced(
    store: Store,
    known: KnownNodes,
    directory: str,
    keys: Sequence[str],
    allowed: tuple[str, ...],
) -> set[str]:
    """Return those of the keys that manifests refer to, besides the metadata of nodes.

    Manifests elsewhere in the hierarchy are read only if there is something that they may
    refer to: more than nodes and their own documents, and what is kept anyway.
    """
    own_keys = OwnKeys(store)
    candidates = {key for key in keys if key.rpartition("/")[2] not in METADATA_NAMES}
    if not candidates:
        return set()
    reader = await open_for_reading(store)
    inside = await _nodes(reader, directory, allowed)
    within = list(_manifest_arrays(known, inside))
    sources = [location for array in within for location in await _locations(array)]
    kept = candidates & await asyncio.to_thread(own_keys.of_all, sources)
    documents = [location for array in within async for location in array.documents()]
    loose = candidates - kept - await asyncio.to_thread(own_keys.of_all, documents)
    if loose and directory:
        paths = {node.path for node in inside}
        others = [node for node in await _nodes(reader, "", allowed) if node.path not in paths]
        elsewhere: list[Location] = []
        for array in _manifest_arrays(known, others):
            elsewhere += await _locations(array)
            elsewhere += [location async for location in array.documents()]
        kept |= candidates & await asyncio.to_thread(own_keys.of_all, elsewhere)
    return kept


async def _nodes(store: Store, below: str, allowed: tuple[str, ...]) -> list[Node]:
    try:
        return await list_nodes(store, below, directories=allowed)
    except SourceNotFoundError:
        return []  # there is no node at all


def _manifest_arrays(
    known: KnownNodes, nodes: Iterable[Node]
) -> Iterator[ChunkManifestTransformer]:
    for node in nodes:
        if node.array is not None:
            array = known.manifest_array(node.path, node.array, is_own=node.is_own)
            if array is not None:
                yield array


async def _locations(array: ChunkManifestTransformer) -> list[Location]:
    """Return what a manifest refers to; nothing for documents that do not exist."""
    found: list[Location] = []
    try:
        async for location, _, _ in array.statistics(skip_lost=True):
            found.append(location)
    except ManifestNotFoundError:
        pass  # an array that was being deleted before can be deleted again
    return found


def resized_declaration(path: str, stored: ArrayMetadata, new: ArrayMetadata) -> dict[str, Any]:
    """Return the members that declare the manifest in new metadata of an array.

    That all partitions have a document is not true of a larger grid. In a smaller one, documents
    outside are kept, to be read again if the array grows back: so the names of all take the
    place of ``"all"``.

    Parameters
    ----------
    path : str
        Path of the array in the hierarchy.
    stored : ArrayMetadata
        Its present metadata, with the declaration.
    new : ArrayMetadata
        Its new metadata, without one.

    Raises
    ------
    ReadOnlyError
        There are too many partitions to name them all.
    """
    declared = stored.declaration
    if all(stored.metadata.get(name) == new.metadata.get(name) for name in ("shape", "chunk_grid")):
        return declared
    configuration, problems = collect(interpret_declaration(stored.metadata))
    if configuration is None or problems or configuration.partitions != "all":
        return declared
    shape = configuration.partition_shape or ()
    before, after = _partitions(stored, shape), _partitions(new, shape)
    if before is None or after is None or before.counts == after.counts:
        return declared
    if before.total > MOST_NAMES:
        raise ReadOnlyError(
            f"the array cannot be resized: its manifest has {counted(before.total, 'partition')}, "
            f"which would have to be named one by one; the limit is {MOST_NAMES:,}",
            array=path,
            remedy=Advice("Write the manifest with a larger ", Setting("partition_shape"), "."),
        )
    names = [format_canonical(index) for index in before]
    transformers = [
        _with_partitions(item, names) if is_declaration(item) else item
        for item in stored.transformers
    ]
    return {**declared, TRANSFORMERS: transformers}


def _partitions(array: ArrayMetadata, shape: tuple[int, ...]) -> Partitions | None:
    grid = ChunkGrid.from_metadata(array.metadata)
    if grid is None or len(shape) != len(grid.counts):
        return None  # the array cannot be read
    return Partitions(grid.counts, shape)


def _with_partitions(declaration: dict[str, Any], names: list[str]) -> dict[str, Any]:
    configuration = {**declaration["configuration"], "partitions": names}
    return {**declaration, "configuration": configuration}
