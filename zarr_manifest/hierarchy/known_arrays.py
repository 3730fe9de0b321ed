"""Known arrays: which of them owns a chunk key, and what it declares.

Remembers every array that it has seen. A worker that received a pickled store has
seen none: it finds the owner of a key by reading the ``zarr.json`` files above it.

Also decides what may be listed and written. A chunk of a manifest array exists if the
manifest names it: whatever the underlying store holds under its key is never read, and
so not listed. Native values and metadata may be written; chunks of manifest arrays
may not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import (
    Advice,
    InvalidConfigurationError,
    ManifestError,
    ReadOnlyError,
    Setting,
)
from zarr_manifest.format import (
    NODE_METADATA,
    ArrayMetadata,
    Configuration,
    arrays_in,
    declare,
    dump_node,
    impossible_member,
    owner_candidates,
    parse_declaration,
    parse_node,
    without_declarations,
)
from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer
from zarr_manifest.sources import Call, Steps, run_async

__all__ = [
    "METADATA_NAMES",
    "KnownArrays",
    "Native",
    "deletable",
    "join",
    "list_chunk_keys",
    "list_dir",
    "list_manifest_arrays",
    "list_prefix",
    "node_of_metadata",
    "not_a_path",
    "writable",
]

METADATA_NAMES = NODE_METADATA | {".zattrs", ".zmetadata"}


def not_a_path(group: str, name: str) -> InvalidConfigurationError:
    """Return the error for a member of consolidated metadata that no node can have."""
    return InvalidConfigurationError(
        f"the consolidated metadata of {group or '/'!r} has a member {name!r}, which is not the "
        "path of a node",
        array=join(group, name),
        remedy="Consolidate the metadata again.",
    )


class Native:
    """An array whose chunks are in the store, under their own keys."""


_NATIVE = Native()

type _Build = Callable[[str, dict[str, Any], list[Any], Configuration], ChunkManifestTransformer]
type _Array = Native | ChunkManifestTransformer | ManifestError


def join(directory: str, name: str) -> str:
    """Join two parts of a key, either of which may be empty."""
    return f"{directory}/{name}" if directory and name else directory or name


def node_of_metadata(key: str) -> str | None:
    """Return the path of the node whose ``zarr.json`` this key names, or None."""
    if key == "zarr.json":
        return ""
    return key.removesuffix("/zarr.json") if key.endswith("/zarr.json") else None


class KnownArrays:
    """The arrays of a hierarchy that have been seen so far.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    build : callable
        Creates the transformer of an array from its path, metadata, declared
        transformers and configuration.
    """

    def __init__(self, store: Store, build: _Build) -> None:
        self._store = store
        self._build = build
        self._arrays: dict[str, _Array] = {}
        self._seen: dict[str, bytes] = {}

    def forget(self, prefix: str) -> None:
        """Forget the arrays at and below a path."""
        below = f"{prefix}/" if prefix else ""
        for path in [p for p in self._arrays if p == prefix or p.startswith(below)]:
            self._arrays.pop(path, None)
            self._seen.pop(path, None)

    def reveal(self, path: str, body: bytes) -> bytes:
        """Record a node's ``zarr.json``, and return it without its declarations, for zarr.

        Raises
        ------
        ManifestError
            If the node is an array whose declaration cannot be honoured. For arrays
            in consolidated metadata, the error is raised when their chunks are read.
        """
        try:
            node = parse_node(body)
        except ManifestError as error:
            raise error.in_context(array=path) from error.__cause__
        if node is None:
            return body
        impossible = impossible_member(node)
        if impossible is not None:
            raise not_a_path(path, impossible)
        declaring = False
        for array in arrays_in(node):
            declaring |= array.declared != []
            known = self._note(join(path, array.path), array)
            if isinstance(known, ManifestError) and array.metadata is node:
                raise known.in_context()
            if isinstance(known, ChunkManifestTransformer):
                known.opened()
        return without_declarations(node) if declaring else body

    def _note(self, path: str, array: ArrayMetadata) -> _Array:
        fingerprint = dump_node(array.metadata)
        known = self._arrays.get(path)
        if known is None or self._seen.get(path) != fingerprint:
            known = self._arrays[path] = self._interpret(path, array)
            self._seen[path] = fingerprint
        return known

    def _interpret(self, path: str, array: ArrayMetadata) -> _Array:
        try:
            configuration = parse_declaration(array.declared)
            if configuration is None:
                return _NATIVE
            metadata = {k: v for k, v in array.metadata.items() if k != "storage_transformers"}
            return self._build(path, metadata, array.declared, configuration)
        except ManifestError as error:
            return error.in_context(array=path)

    def _get(self, key: str) -> Generator[Call, Any, Buffer | None]:
        prototype = default_buffer_prototype()
        store: Any = self._store
        found: Buffer | None = yield Call(
            lambda: store.get(key, prototype), lambda: store.get_sync(key, prototype=prototype)
        )
        return found

    def _discover(self, path: str) -> Steps[_Array | None]:
        """Look for an array at a path; None if there is none."""
        known = self._arrays.get(path)
        if known is not None:
            return known
        body = yield from self._get(join(path, "zarr.json"))
        if body is None:
            if (yield from self._get(join(path, ".zarray"))) is None:
                return None
            self._arrays[path] = _NATIVE
            return _NATIVE
        node = parse_node(body.to_bytes())
        if node is None or node.get("node_type") != "array":
            return None
        return self._note(path, ArrayMetadata("", node))

    def manifest_array(self, path: str, array: ArrayMetadata) -> ChunkManifestTransformer | None:
        """Take note of an array that was found, and return it if it declares a manifest.

        Raises
        ------
        ManifestError
            Its declaration cannot be honoured.
        """
        known = self._note(path, array)
        if isinstance(known, ManifestError):
            raise known.in_context()
        return known if isinstance(known, ChunkManifestTransformer) else None

    def known_native(self, key: str) -> bool:
        """Whether a key is already known to be a chunk of a native array."""
        if key.endswith("zarr.json"):
            return False  # another writer may have given the array a manifest
        return self._arrays.get(next(owner_candidates(key), key)) is _NATIVE

    def owner(self, key: str) -> Steps[tuple[ChunkManifestTransformer, tuple[int, ...]] | None]:
        """Find the manifest array and the chunk that a key names.

        Returns
        -------
        tuple or None
            Transformer and grid index; None for keys that are served by the
            hierarchy's own store.

        Raises
        ------
        ManifestError
            If the owner's declaration cannot be honoured.
        """
        if key.rpartition("/")[2] in METADATA_NAMES:
            return None
        for path in owner_candidates(key):
            array = yield from self._discover(path)
            if array is None:
                continue
            if isinstance(array, ManifestError):
                raise array.in_context()
            if isinstance(array, Native):
                return None
            index = array.index_of(key[len(path) :].lstrip("/"))
            return None if index is None else (array, index)
        return None

    def array_at(self, path: str) -> Steps[ChunkManifestTransformer | None]:
        """Return the manifest array at or above a path, or None.

        Raises
        ------
        ManifestError
            If its declaration cannot be honoured.
        """
        ancestors = [path, *_ancestors(path)]
        for ancestor in ancestors:
            array = yield from self._discover(ancestor)
            if isinstance(array, ManifestError):
                raise array.in_context()
            if array is not None:
                return array if isinstance(array, ChunkManifestTransformer) else None
        return None

    def restore(self, path: str, body: bytes) -> Steps[bytes]:
        """Return a node's new ``zarr.json`` with the declarations that are stored.

        When zarr rewrites metadata (attributes, resizing, consolidation), it starts from
        what it was shown, without declarations.
        """
        node = parse_node(body)
        if node is None:
            return body
        restored = False
        for array in arrays_in(node):
            if not array.declared:
                declared = yield from self._declared(join(path, array.path))
                if declared:
                    declare(array, declared)
                    restored = True
        return dump_node(node) if restored else body

    def forget_metadata(self, path: str) -> None:
        """Forget what was read from a node's ``zarr.json``."""
        self._arrays.pop(path, None)
        self._seen.pop(path, None)

    def _declared(self, path: str) -> Steps[Any]:
        body = yield from self._get(join(path, "zarr.json"))
        node = None if body is None else parse_node(body.to_bytes())
        if node is None or node.get("node_type") != "array":
            return []
        return ArrayMetadata("", node).declared


def _ancestors(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


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


def writable(arrays: KnownArrays, key: str, value: Buffer) -> Steps[Buffer]:
    """Return the value to write, with declarations restored; reject chunks of manifest arrays."""
    path = node_of_metadata(key)
    if path is not None and hasattr(value, "to_bytes"):
        body = value.to_bytes()
        restored = yield from arrays.restore(path, body)
        return value if restored is body else type(value).from_bytes(restored)
    if key.rpartition("/")[2] not in METADATA_NAMES and not arrays.known_native(key):
        owner = yield from arrays.owner(key)
        if owner is not None:
            raise _read_only(*owner)
    return value


def deletable(arrays: KnownArrays, key: str) -> Steps[bool]:
    """Whether there is anything to delete; reject chunks that a manifest refers to."""
    if key.rpartition("/")[2] in METADATA_NAMES or arrays.known_native(key):
        return True
    owner = yield from arrays.owner(key)
    if owner is None:
        return True
    array, index = owner
    reference = yield Call(lambda: array.names(index), lambda: array.names_sync(index))
    if reference is not None and not reference.is_empty:
        raise _read_only(array, index)
    return False


def _read_only(array: ChunkManifestTransformer, index: tuple[int, ...]) -> ReadOnlyError:
    return ReadOnlyError(
        "chunks of a manifest array cannot be written or deleted",
        array=array.array_path,
        chunk=".".join(map(str, index)) or "0",
        remedy=Advice(
            "Copy the array to a native one, and write there. To shrink an array and keep its "
            "references, use its ",
            Setting("resize", python="async_array.resize(shape, delete_outside_chunks=False)"),
            ".",
        ),
    )
