"""Zarr hierarchies as nodes: with manifest arrays, native arrays, and Zarr v2 among them.

Paths become URLs, so that the nodes can be written elsewhere. Each native chunk refers to its own
object. No sources are read.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from zarr.abc.store import Store

from zarr_manifest.conversion.files.sources import READ_ERRORS, FileSources, Listed
from zarr_manifest.conversion.files.stored_parts import MANY, StoredParts, read_all
from zarr_manifest.conversion.nodes import (
    ArrayNode,
    GroupNode,
    Node,
    StreamedManifest,
    grid_of,
    refused,
    whole,
)
from zarr_manifest.conversion.renewal import with_states
from zarr_manifest.conversion.virtual import checked_metadata
from zarr_manifest.conversion.zarr2 import by_owner, read_zarr2
from zarr_manifest.errors import ManifestError, SourceError
from zarr_manifest.format import (
    ArrayMetadata,
    Limits,
    collect,
    strict,
)
from zarr_manifest.hierarchy import (
    ChunkKeyEncoding,
    InspectedHierarchy,
    ManifestDocuments,
    list_nodes,
)
from zarr_manifest.hierarchy import Node as StoredNode
from zarr_manifest.locations import Base, UrlLocation, quote_path
from zarr_manifest.manifest import Manifest, conditions_of
from zarr_manifest.sources import Allow
from zarr_manifest.stores import StoreLike, can_list, not_listable, object_url, store_failure
from zarr_manifest.zarr_internals import sync

# Where links in a local hierarchy may lead if they are followed.
_EVERYWHERE = ("/",)


def _objects_below(url: str, sources: FileSources) -> list[Listed]:
    try:
        return list(sources.list(url))
    except READ_ERRORS as error:
        failure = store_failure(error)
    raise failure


def _unknown_chunks(store: Store) -> SourceError:
    return not_listable(store, "so it is unknown which chunks exist")


def read_hierarchy(
    location: StoreLike,
    *,
    url: str | None = None,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    record_conditions: bool = True,
) -> Iterator[Node]:
    """Yield the nodes of any Zarr hierarchy, to write them elsewhere.

    References of manifest arrays keep their offsets, lengths, checksums and conditions, and
    their paths become URLs. Inline data stays inline, empty chunks stay empty, and missing ones
    missing. A partitioned manifest is a `StreamedManifest` of the same partitions, read while it
    is written. Each chunk of a native array, and of a Zarr v2 array, becomes a reference to its
    own object.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy. One with native arrays must be able to list its objects.
    url : str, optional
        URL of the store's root in references. By default, that of `location`.
    allow, base, limits
        As for :class:`ManifestStore`. Sources are not read, and need not be allowed, but
        manifest documents outside the hierarchy must be.
    record_conditions : bool
        Whether to record the entity tag and modification time of native chunks.

    Yields
    ------
    Node
        Parents before their members. An array that cannot be read or expressed is a
        `RefusedNode` with the reason.

    Raises
    ------
    SourceNotFoundError
        There is no Zarr hierarchy.
    SourceError, SourceAccessDeniedError
        It cannot be read, or cannot be listed and has no consolidated metadata.
    ValueError, TypeError
        `allow` has something that is not a URL prefix, or not an access.

    Examples
    --------
    >>> import pathlib, tempfile, zarr, zarr_manifest
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> entries = {"0": {"path": "../raw.bin", "length": 4}, "1": {}}
    >>> options = {"shape": 8, "chunks": 4, "dtype": "u1"}
    >>> zarr_manifest.create_array(root, "a", entries, **options)
    >>> node, = [node for node in read_hierarchy(root) if node.path == "a"]
    >>> node.manifest.paths == ((root / "raw.bin").as_uri(),), node.manifest[1,].is_empty
    (True, True)
    """
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    return hierarchy_nodes(hierarchy, location, url=url, record_conditions=record_conditions)


def hierarchy_nodes(
    hierarchy: InspectedHierarchy,
    location: Any,
    found: Sequence[StoredNode] | None = None,
    *,
    url: str | None = None,
    record_conditions: bool = True,
) -> Iterator[Node]:
    """Yield the nodes of a hierarchy that was opened, as :func:`read_hierarchy`.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        The hierarchy.
    location : str, Path, obstore store or zarr Store
        Where it was opened.
    found : sequence of Node, optional
        Its nodes, if they have been read.
    url, record_conditions
        As there.
    """
    if found is None:
        found = sync(hierarchy.nodes())
    declares = any(node.array is not None and node.array.declaration for node in found)
    if not declares and not can_list(hierarchy.store):
        raise _unknown_chunks(hierarchy.store)
    root = hierarchy.sources.root if url is None else _root(url)
    return _HierarchyNodes(hierarchy, location, root, record_conditions).nodes(found)


def read_named(
    url: str, zarr_format: str, sources: FileSources, *, record_conditions: bool = True
) -> Iterator[Node]:
    """Yield the nodes of a hierarchy that users named as one of their files.

    Like :func:`read_hierarchy`, but links in a directory are followed, wherever they lead.
    """
    if zarr_format == "zarr2":
        return _read_named_v2(url, sources, record_conditions)
    hierarchy = InspectedHierarchy.open(url, allow=sources.allow)
    found = sync(list_nodes(hierarchy.store, directories=_EVERYWHERE))
    return hierarchy_nodes(hierarchy, url, found, record_conditions=record_conditions)


def _read_named_v2(url: str, sources: FileSources, record_conditions: bool) -> Iterator[Node]:
    nodes = read_zarr2(url, allow=sources.allow)
    objects = _objects_below(url, sources)
    return (_with_states(node, objects, record_conditions) for node in nodes)


def _root(url: str) -> UrlLocation:
    base = Base.parse(f"{url.rstrip('/')}/")
    return UrlLocation(base.scheme, base.authority, base.path.rstrip("/"))


class _HierarchyNodes:
    def __init__(
        self,
        hierarchy: InspectedHierarchy,
        location: Any,
        root: UrlLocation | None,
        record_conditions: bool,
    ) -> None:
        self._hierarchy = hierarchy
        self._location = location
        self._roots = [] if root is None else [root]
        self._record_conditions = record_conditions
        self._pace = asyncio.Semaphore(MANY)

    def nodes(self, found: Sequence[StoredNode]) -> Iterator[Node]:
        self._paths = {node.path for node in found}
        native = {node.path for node in found if node.array and not node.array.declaration}
        self._all_native = len(native) == sum(node.array is not None for node in found)
        for some in itertools.batched(found, MANY):
            self._documents = sync(self._loaded(some))
            self._listings = self._listed([node.path for node in some if node.path in native])
            for node in some:
                try:
                    if node.problem is None and node.is_v2:
                        yield from self._v2(node.path)
                        continue
                    node.require_v3()
                    if node.kind == "group":
                        yield GroupNode(node.path, dict(node.metadata.get("attributes", {})))
                    else:
                        yield self._array(node)
                except ManifestError as error:
                    yield refused(node.path, error)

    async def _loaded(self, nodes: Iterable[StoredNode]) -> dict[str, ManifestDocuments]:
        """Return the manifests of some arrays, those that are one document loaded together."""
        found: dict[str, ManifestDocuments] = {}
        for node in nodes:
            array, problems = collect(self._hierarchy.declaration(node))
            if array is not None and not problems:
                found[node.path] = self._hierarchy.documents(array)
        whole = [each for each in found.values() if each.array.partitions is None]
        await read_all(each.load for each in whole)
        return found

    # Manifest arrays -----------------------------------------------------------------

    def _array(self, node: StoredNode) -> Node:
        metadata = checked_metadata(ArrayMetadata("", node.metadata).undeclared)
        documents = self._documents.get(node.path)
        if documents is None:
            strict(self._hierarchy.declaration(node))  # raises what is wrong with it
            return self._native(node, metadata)
        parts = StoredParts(documents.array, documents, self._roots, self._pace)
        partitions = documents.array.partitions
        if partitions is None:
            return ArrayNode(node.path, metadata, parts.whole())
        streamed = StreamedManifest(partitions.shape, parts, is_in_order=True)
        return ArrayNode(node.path, metadata, streamed)

    # Native arrays -------------------------------------------------------------------

    def _native(self, node: StoredNode, metadata: dict[str, Any]) -> Node:
        """Return a native array, each chunk of which is an object."""
        grid, listed = grid_of(metadata), self._objects(node.path)
        if listed is None:
            keys = sync(self._hierarchy.native_chunks(node, grid))
            urls = {index: object_url(self._roots, key).url for index, key in keys.items()}
        else:
            names = ChunkKeyEncoding(node.metadata, len(grid.shape)).chunks_among(listed, grid)
            urls = {index: listed[name].url for index, name in names.items()}
        manifest = Manifest.from_columns(
            grid.counts,
            paths=np.array(list(urls.values()), np.dtypes.StringDType()),
            indices=np.array(list(urls), np.int64).reshape(len(urls), len(grid.counts)),
        )
        found = ArrayNode(node.path, metadata, manifest)
        return _with_states(found, (listed or {}).values(), self._record_conditions)

    def _listed(self, paths: Sequence[str]) -> dict[str, Future[list[Listed]]]:
        """List native arrays, each alone: not the documents of others, which may be many."""
        if self._all_native or not paths or not self._can_list or self._place is None:
            return {}
        url, sources = self._place
        with ThreadPoolExecutor(len(paths)) as threads:
            urls = {path: f"{url}/{quote_path(path)}" if path else url for path in paths}
            return {
                path: threads.submit(_objects_below, each, sources) for path, each in urls.items()
            }

    def _objects(self, path: str) -> dict[str, Listed] | None:
        """Return the objects of a native array by relative name; None if they have no state."""
        if not self._can_list:
            raise _unknown_chunks(self._hierarchy.store)
        if path in self._listings:
            return {each.name: each for each in self._listings[path].result()}
        if self._place is None:
            return None
        return self._all_listed.get(path, {})

    @functools.cached_property
    def _all_listed(self) -> dict[str, dict[str, Listed]]:
        assert self._place is not None  # asked before
        listed = ((each.name, each) for each in _objects_below(*self._place))
        return by_owner(listed, self._paths)[0]

    @property
    def _can_list(self) -> bool:
        return can_list(self._hierarchy.store)

    @functools.cached_property
    def _place(self) -> tuple[str, FileSources] | None:
        """Return the URL of a hierarchy that obstore can list, and what lists it."""
        location = self._location
        if isinstance(location, str | Path):
            if not isinstance(location, str) or "://" not in location:
                return Path(location).absolute().as_uri(), FileSources(self._hierarchy.allow)
            return location.rstrip("/"), FileSources(self._hierarchy.allow)
        store: Any = self._hierarchy.store
        inner = store.store if type(store).__name__ == "ObjectStore" else None
        if not self._roots or inner is None:
            return None
        url = self._roots[0].url.rstrip("/")
        return url, FileSources({**self._hierarchy.allow, f"{url}/": inner})

    # Zarr v2 among v3 ----------------------------------------------------------------

    def _v2(self, path: str) -> Iterator[Node]:
        for node in self._v2_nodes:
            if node.path == path:
                listed = self._objects(path) if isinstance(node, ArrayNode) else None
                yield _with_states(node, (listed or {}).values(), self._record_conditions)

    @functools.cached_property
    def _v2_nodes(self) -> list[Node]:
        url = self._roots[0].url if self._roots else None
        return list(read_zarr2(self._hierarchy.store, url=url, allow=self._hierarchy.allow))


def _with_states(node: Node, objects: Iterable[Listed], record_conditions: bool) -> Node:
    """Return a node whose chunks, which are objects, have the sizes and states that were listed."""
    if not isinstance(node, ArrayNode):
        return node
    references, listed = whole(node), {each.url: each for each in objects}
    there = [path for path in references.paths if path in listed]  # neither removed nor new
    states = {path: conditions_of(path, listed[path].conditions) for path in there}
    found = with_states(references, states)
    if not record_conditions:
        found = found.replaced(extras={})  # whole objects have no others
    return dataclasses.replace(node, manifest=Manifest(found))
