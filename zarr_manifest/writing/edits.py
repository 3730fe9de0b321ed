"""What an edit is to change: metadata of nodes, and entries of chunks; and the store with it.

Chunks that are written are put under names with their digest: equal ones become one object.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format import (
    ArrayMetadata,
    consolidated_members,
    dump_node,
    has_consolidated,
    join,
    node_of_metadata,
    parse_node,
    with_members,
    without_copies,
)
from zarr_manifest.hierarchy import UnlistedChanges, list_nodes
from zarr_manifest.sources import Access, anonymous
from zarr_manifest.stores import OwnStore, slice_of, store_urls, value_of
from zarr_manifest.writing.conditional_put import GuardedStore, guarded_store

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest

type Index = tuple[int, ...]


# Chunks of at most so many bytes are written into the manifest: an object takes a request.
SMALL_CHUNK = 512


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where chunks are put that hierarchies share.

    Parameters
    ----------
    store : GuardedStore
        The place.
    url : str
        Its URL, without a slash at the end.
    """

    store: GuardedStore
    url: str


def chunk_name(checksum: str) -> str:
    """Return the name of the chunk with a checksum, in the place for chunks."""
    digest = checksum.removeprefix("sha256:")
    return f"sha256/{digest[:2]}/{digest}"


def chunk_place(
    location: Any, access: Mapping[str, Access], *, sole_writer: bool
) -> tuple[ChunkPlace, Any]:
    """Return where chunks are put, and how they are read there."""
    guarded = guarded_store(location, access, sole_writer=sole_writer)
    urls = store_urls(guarded.store)
    if not urls:
        raise InvalidConfigurationError(
            "chunks that hierarchies share need a URL, and this store has none",
            remedy="Name a directory or a bucket.",
        )
    place = ChunkPlace(guarded, urls[0].url.rstrip("/"))
    if isinstance(location, str | Path):
        return place, anonymous()
    return place, getattr(guarded.store, "store", anonymous())


class WrittenChunk(Struct, frozen=True):
    """A chunk that was written as an object in the hierarchy's store.

    Parameters
    ----------
    key : str
        Key of the object.
    length : int
        Its number of bytes.
    checksum : str
        Their checksum.
    """

    key: str
    length: int
    checksum: str

    def entry(self, path: str) -> dict[str, Any]:
        """Return the entry that refers to it by a path."""
        where = {"path": path, "offset": 0, "length": self.length}
        return {**where, "checksum": self.checksum}


# An entry as in a manifest, or what will be one; None if the chunk is missing.
type Edited = Mapping[str, Any] | WrittenChunk | None


@dataclass(slots=True)
class Edits:
    """What is to change in a hierarchy.

    Parameters
    ----------
    before : dict of str to (bytes or None)
        By path, the ``zarr.json`` of nodes as first seen; None where there was none.
    after : dict of str to (bytes or None)
        By path, their new metadata; None if the node is removed.
    entries : dict of str to dict
        By path of an array, the entries of chunks that change.
    created : set of str
        Paths of arrays that are new, or put in place of others.
    adopted : dict of str to dict
        By path of a native array, its metadata as first seen, with a manifest of its own chunks.
    consolidates : bool
        Whether the root gets consolidated metadata, of all nodes.
    has_ended : bool
        Whether nothing can be changed any more.
    """

    before: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    after: dict[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    entries: dict[str, dict[Index, Edited]] = field(default_factory=dict[str, dict[Index, Edited]])
    created: set[str] = field(default_factory=set[str])
    adopted: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    consolidates: bool = False
    has_ended: bool = False

    def remove(self, path: str) -> None:
        """Let there be no node at a path."""
        if self.before.get(path) is None:
            self.after.pop(path, None)
        else:
            self.after[path] = None
        self.entries.pop(path, None)
        self.created.discard(path)
        self.adopted.pop(path, None)

    def removed_natives(self) -> list[str]:
        """Return the paths of native arrays that are removed, whose chunks have no use then."""
        removed = [path for path, body in self.after.items() if body is None]
        return [path for path in removed if is_native(self.first(path))]

    def first(self, path: str) -> dict[str, Any] | None:
        """Return the metadata of a node as first seen."""
        body = self.before.get(path)
        return None if body is None else parse_node(body)


class StagedStore(OwnStore):
    """A hierarchy's own store, with metadata that are not written yet.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    edits : Edits
        What is to change, to be added to.
    """

    def __init__(self, store: Store, edits: Edits) -> None:
        super().__init__(store)
        self._edits = edits

    # Metadata -----------------------------------------------------------------------

    async def first(self, path: str) -> bytes | None:
        """Return the ``zarr.json`` of a node as it was before the edit, and remember it."""
        if path not in self._edits.before:
            self._edits.before.setdefault(path, await self._stored(path))
        return self._edits.before[path]

    async def _stored(self, path: str) -> bytes | None:
        return await value_of(self._store, join(path, "zarr.json"))

    async def document(self, path: str) -> bytes | None:
        """Return the ``zarr.json`` of a node as it is to be."""
        after, is_first = self._edits.after, path not in self._edits.before
        body = after[path] if path in after else await self.first(path)
        if body is None or b"consolidated_metadata" not in body:
            return body
        # Its copies are as they are now: others may commit, and own metadata follow.
        present = body if is_first else await self._stored(path)
        node, now = parse_node(body), parse_node(present or b"")
        if node is None or now is None or not has_consolidated(node):
            return body
        if not after:
            return present
        below = f"{path}/" if path else ""
        members = consolidated_members(now)
        for changed, document in after.items():
            if changed == path or not changed.startswith(below):
                continue
            member = changed.removeprefix(below)
            if document is None:
                members.pop(member, None)
            else:
                members[member] = without_copies(parse_node(document) or {})
        return dump_node(with_members(node, members))

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or part of it."""
        path = node_of_metadata(key)
        if path is None:
            return await super().get(key, prototype, byte_range)
        prototype = default_buffer_prototype() if prototype is None else prototype
        body = await self.document(path)
        if body is None:
            return None
        part = slice(None) if byte_range is None else slice_of(byte_range, len(body))
        return prototype.buffer.from_bytes(body[part])

    async def exists(self, key: str) -> bool:
        """Whether a key has a value."""
        path = node_of_metadata(key)
        if path is None:
            return await super().exists(key)
        return await self.document(path) is not None

    async def getsize(self, key: str) -> int:
        """Return the size of a value, in bytes."""
        path = node_of_metadata(key)
        if path is None:
            return await super().getsize(key)
        body = await self.document(path)
        if body is None:
            raise FileNotFoundError(key)
        return len(body)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix."""
        return self._unlisted.keys(super().list_prefix(prefix), prefix)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of keys and directories directly below a prefix."""
        names = [name async for name in super().list_dir(prefix)]
        for name in self._unlisted.names(names, prefix.rstrip("/")):
            yield name

    @property
    def _unlisted(self) -> UnlistedChanges:
        after = self._edits.after.items()
        return UnlistedChanges(
            added={path for path, body in after if body is not None},
            removed={path for path, body in after if body is None},
        )

    # Changing -----------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Keep metadata for the commit."""
        path = node_of_metadata(key)
        assert path is not None  # nothing else is written here
        await self.first(path)
        self._edits.after[path] = value.to_bytes()

    async def delete(self, key: str) -> None:
        """Remove a node at the commit."""
        path = node_of_metadata(key)
        if path is not None:
            await self.first(path)
            self._edits.remove(path)

    async def remove_below(self, path: str) -> None:
        """Remove a node, and those below it, at the commit."""
        below = f"{path}/" if path else ""
        nodes = {node.path for node in await list_nodes(self._store)} | self._edits.after.keys()
        for node in sorted(nodes):
            if node == path or node.startswith(below):
                await self.delete(join(node, "zarr.json"))


def is_native(node: dict[str, Any] | None) -> bool:
    """Whether metadata are those of an array without a manifest."""
    is_array = node is not None and node.get("node_type") == "array"
    return is_array and not ArrayMetadata("", node or {}).declaration


def coordinates_of(path: str, node: dict[str, Any]) -> Iterator[str]:
    """Yield the paths of the other arrays that are called like an array's dimensions."""
    group = path.rpartition("/")[0]
    for name in node.get("dimension_names") or ():
        if isinstance(name, str) and name and "/" not in name and join(group, name) != path:
            yield join(group, name)
