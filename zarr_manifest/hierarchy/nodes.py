"""Nodes: which array owns a chunk key, and what that array declares.

Remembers every array that it has seen. A worker that received a pickled store
has seen none: it finds the owner of a key by reading ``zarr.json`` above it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import (
    NODE_DOCUMENTS,
    ArrayDocument,
    Configuration,
    arrays_in,
    declare,
    dump_node,
    owner_candidates,
    parse_declaration,
    parse_node,
    without_declarations,
)
from zarr_manifest.hierarchy.transformer import ChunkManifestTransformer
from zarr_manifest.sources import Call, Steps

__all__ = ["METADATA_NAMES", "Native", "Nodes", "join", "parent_of_document"]

METADATA_NAMES = NODE_DOCUMENTS | {".zattrs", ".zmetadata"}


class Native:
    """An array whose chunks lie in the store, under their own keys."""


_NATIVE = Native()

type _Build = Callable[[str, dict[str, Any], list[Any], Configuration], ChunkManifestTransformer]
type _Array = Native | ChunkManifestTransformer | ManifestError


def join(directory: str, name: str) -> str:
    """Join two parts of a key, of which either may be empty."""
    return f"{directory}/{name}" if directory and name else directory or name


def parent_of_document(key: str) -> str | None:
    """Return the path of the node whose ``zarr.json`` a key is, or None."""
    if key == "zarr.json":
        return ""
    return key.removesuffix("/zarr.json") if key.endswith("/zarr.json") else None


class Nodes:
    """The arrays of a hierarchy, as far as they have been seen.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    build : callable
        Makes the transformer of an array from its path, metadata, declared
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

    def reveal(self, path: str, document: bytes) -> bytes:
        """Take note of a node's document, and return what zarr may see of it.

        Raises
        ------
        ManifestError
            The node is an array whose declaration cannot be honoured. Arrays in
            consolidated metadata raise when their chunks are read.
        """
        node = parse_node(document)
        if node is None:
            return document
        declaring = False
        for array in arrays_in(node):
            declaring |= array.declared != []
            known = self._note(join(path, array.path), array)
            if isinstance(known, ManifestError) and array.metadata is node:
                raise known.in_context()
            if isinstance(known, ChunkManifestTransformer):
                known.opened()
        return without_declarations(node) if declaring else document

    def _note(self, path: str, array: ArrayDocument) -> _Array:
        fingerprint = dump_node(array.metadata)
        known = self._arrays.get(path)
        if known is None or self._seen.get(path) != fingerprint:
            known = self._arrays[path] = self._interpret(path, array)
            self._seen[path] = fingerprint
        return known

    def _interpret(self, path: str, array: ArrayDocument) -> _Array:
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
        """Look for an array at a path; None when there is none."""
        known = self._arrays.get(path)
        if known is not None:
            return known
        document = yield from self._get(join(path, "zarr.json"))
        if document is None:
            if (yield from self._get(join(path, ".zarray"))) is None:
                return None
            self._arrays[path] = _NATIVE
            return _NATIVE
        node = parse_node(document.to_bytes())
        if node is None or node.get("node_type") != "array":
            return None
        return self._note(path, ArrayDocument("", node))

    def known_native(self, key: str) -> bool:
        """Whether a key is known, without looking, to be a chunk of a native array."""
        if key.endswith("zarr.json"):
            return False  # somebody else may have given the array a manifest
        return self._arrays.get(next(owner_candidates(key), key)) is _NATIVE

    def owner(self, key: str) -> Steps[tuple[ChunkManifestTransformer, tuple[int, ...]] | None]:
        """Find the manifest array, and the chunk of it, that a key names.

        Returns
        -------
        tuple or None
            Transformer and grid index; None for keys that the hierarchy's own
            store answers.

        Raises
        ------
        ManifestError
            The owner's declaration cannot be honoured.
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
            Its declaration cannot be honoured.
        """
        ancestors = [path, *_ancestors(path)]
        for ancestor in ancestors:
            array = yield from self._discover(ancestor)
            if isinstance(array, ManifestError):
                raise array.in_context()
            if array is not None:
                return array if isinstance(array, ChunkManifestTransformer) else None
        return None

    def restore(self, path: str, document: bytes) -> Steps[bytes]:
        """Return a node's new document with the declarations that the stored ones have.

        zarr rewrites documents (attributes, resizing, consolidation) from what it
        was shown, which is without them.
        """
        node = parse_node(document)
        if node is None:
            return document
        restored = False
        for array in arrays_in(node):
            if not array.declared:
                declared = yield from self._declared(join(path, array.path))
                if declared:
                    declare(array, declared)
                    restored = True
        return dump_node(node) if restored else document

    def forget_document(self, path: str) -> None:
        """Forget what was read from a node's document."""
        self._arrays.pop(path, None)
        self._seen.pop(path, None)

    def _declared(self, path: str) -> Steps[Any]:
        document = yield from self._get(join(path, "zarr.json"))
        node = None if document is None else parse_node(document.to_bytes())
        if node is None or node.get("node_type") != "array":
            return []
        return ArrayDocument("", node).declared


def _ancestors(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path
