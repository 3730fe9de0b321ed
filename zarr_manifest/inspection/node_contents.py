"""What a hierarchy holds: its nodes, and what the manifest of each array refers to.

A summary for people and programs. Metadata and manifest documents are read, sources
are not; an array that is not valid is listed with what is wrong with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import InvalidConfigurationError, ManifestError
from zarr_manifest.format import (
    NODE_METADATA,
    ArrayMetadata,
    ChunkGrid,
    Limits,
    arrays_in,
    interpret_declaration,
    parse_node,
    strict,
)
from zarr_manifest.hierarchy import (
    CONCURRENCY,
    ManifestDocuments,
    base_directory,
    ensure_open,
    interpret_array,
    join,
    link_outside,
    list_inside,
    open_hierarchy,
    store_underneath,
    sync,
)
from zarr_manifest.locations import (
    Location,
    ReferencedLocation,
    StoreLocation,
    UrlLocation,
    suggest_prefixes,
    summarize,
)
from zarr_manifest.manifest import INLINE
from zarr_manifest.sources import (
    Allow,
    Sources,
    access_by_prefix,
    can_list,
    hierarchy_reader,
    in_order,
    store_name,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["Contents", "NodeContents", "contents"]

type Kind = Literal["group", "native array", "manifest array", "invalid"]


@dataclass(frozen=True, slots=True)
class NodeContents:
    """One node of a hierarchy, and what its manifest says.

    Parameters
    ----------
    path : str
        Path in the hierarchy, without a leading slash; ``""`` for the root.
    kind : {"group", "native array", "manifest array", "invalid"}
        What it is; "invalid" when it cannot be read, see `problem`.
    data_type : str or None
        Name of the data type, as the metadata has it.
    shape, chunk_shape : tuple of int or None
        In elements; no chunk shape when the grid is not regular.
    chunks : int or None
        Number of chunks of the grid.
    references : int
        Chunks that the manifest refers to in other objects.
    inline : int
        Chunks whose bytes are in the manifest.
    empty : int
        Chunks that are explicitly empty.
    nbytes : int
        Sum of the lengths that references state, in bytes.
    open_ended : int
        References that state no length.
    objects : int
        Number of distinct objects that are referred to.
    prefixes : tuple of str
        Where they are: URL prefixes; ``""`` is the hierarchy's own store.
    problem : ManifestError or None
        Why it cannot be read.
    """

    path: str
    kind: Kind
    data_type: str | None = None
    shape: tuple[int, ...] | None = None
    chunk_shape: tuple[int, ...] | None = None
    chunks: int | None = None
    references: int = 0
    inline: int = 0
    empty: int = 0
    nbytes: int = 0
    open_ended: int = 0
    objects: int = 0
    prefixes: tuple[str, ...] = ()
    problem: ManifestError | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """What a hierarchy holds.

    Parameters
    ----------
    nodes : list of NodeContents
        Sorted by path. Arrays that cannot be read are among them.
    locations : list of ReferencedLocation
        What the manifests that can be read refer to, as of :meth:`ManifestStore.locations`.
    """

    nodes: list[NodeContents]
    locations: list[ReferencedLocation]


def contents(
    location: str | Path | ObjectStore | Store,
    *,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
) -> Contents:
    """List the nodes of a hierarchy, and what the manifests of its arrays refer to.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    allow, base, limits
        As for :class:`ManifestStore`. Sources are not read and need not be allowed;
        manifest documents outside the hierarchy do.

    Returns
    -------
    Contents
        The nodes, and where the bytes of their chunks are.

    Raises
    ------
    FileNotFoundError
        There is no Zarr hierarchy.
    ValueError
        The hierarchy cannot be listed and has no consolidated metadata, or `allow`
        holds what is no URL prefix.

    Examples
    --------
    >>> import pathlib, tempfile, zarr, zarr_manifest
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = zarr.create_group(root).create_array("a", shape=8, chunks=4, dtype="u1")
    >>> zarr_manifest.write_manifest(root, "a", {"1": {"path": "s3://b/f.nc", "length": 4}})
    >>> for node in contents(root).nodes:
    ...     print(repr(node.path), node.kind, node.shape, node.references, node.prefixes)
    '' group None 0 ()
    'a' manifest array (8,) 1 ('s3://b/',)
    """
    access = access_by_prefix(allow)
    # zarr makes a directory that does not exist, unless it is told to read only.
    read_only = not isinstance(location, Store)
    store = store_underneath(open_hierarchy(location, access, read_only=read_only))
    sources = Sources(access, hierarchy_reader(store))
    reader = _Reader(store, sources, base_directory(base), Limits() if limits is None else limits)
    return sync(reader.contents(access))


@dataclass
class _Counts:
    """What the documents of one manifest refer to, added up."""

    references: int = 0
    inline: int = 0
    empty: int = 0
    nbytes: int = 0
    open_ended: int = 0
    found: list[tuple[Location, int, int]] = field(default_factory=list[tuple[Location, int, int]])

    def locations(self) -> set[Location]:
        return {location for location, _, _ in self.found}

    def prefixes(self) -> Iterator[str]:
        if any(isinstance(location, StoreLocation) for location in self.locations()):
            yield ""
        yield from suggest_prefixes(
            location for location in self.locations() if isinstance(location, UrlLocation)
        )


@dataclass(frozen=True, slots=True)
class _Reader:
    store: Store
    sources: Sources
    base: str | None
    limits: Limits

    async def contents(self, allow: Iterable[str]) -> Contents:
        await ensure_open(self.store)
        calls = [
            functools.partial(self._node, path, node) async for path, node in self._documents()
        ]
        found = [node async for node in in_order(calls, CONCURRENCY)]
        if not found:
            raise FileNotFoundError(f"there is no Zarr hierarchy in {store_name(self.store)}")
        nodes = sorted(
            (node for node, _ in found), key=lambda node: node.path.split("/") if node.path else []
        )
        statistics = [item for _, items in found for item in items]
        urls = [location for location, _, _ in statistics if isinstance(location, UrlLocation)]
        return Contents(nodes, summarize(statistics, suggest_prefixes(urls), allow))

    async def _documents(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield path and metadata document of every node, None for what is none, and errors."""
        if not can_list(self.store):
            async for found in self._consolidated():
                yield found
            return
        listed, links = await list_inside(self.store)
        keys = [key for key in listed if key.rpartition("/")[2] in NODE_METADATA]
        present = set(keys)
        for key in sorted(keys):
            path = key.rpartition("/")[0]
            # Where there are both, zarr reads the newer one.
            if key == join(path, "zarr.json") or join(path, "zarr.json") not in present:
                yield path, await self._document(key)
        for path in links:
            yield path, link_outside(path)

    async def _consolidated(self) -> AsyncIterator[tuple[str, Any]]:
        root = await self._document("zarr.json")
        if root is None:
            return
        yield "", root
        if root.get("node_type") == "array":
            return
        if not root.get("consolidated_metadata"):
            raise ValueError(
                f"{store_name(self.store)} cannot be listed, and has no consolidated metadata: "
                "whoever writes it can add that, with zarr.consolidate_metadata"
            )
        members: dict[str, Any] = root["consolidated_metadata"].get("metadata") or {}
        for path, metadata in members.items():
            yield path, metadata

    async def _document(self, key: str) -> dict[str, Any] | None:
        found = await self.store.get(key, default_buffer_prototype())
        node = None if found is None else parse_node(found.to_bytes())
        # A v2 array has no member that says what it is.
        return node if node is None or key.endswith("zarr.json") else {**node, "v2": key}

    async def _node(
        self, path: str, node: dict[str, Any] | ManifestError | None
    ) -> tuple[NodeContents, list[tuple[Location, int, int]]]:
        if isinstance(node, ManifestError):
            return NodeContents(path, "invalid", problem=node), []
        if node is not None and "v2" in node:
            return _old_node(path, node), []
        if node is not None and node.get("node_type") == "group":
            return NodeContents(path, "group"), []
        array = next(arrays_in(node or {}), None)
        if array is None:
            invalid = InvalidConfigurationError(
                "'zarr.json' is not the metadata of a node", array=path
            )
            return NodeContents(path, "invalid", problem=invalid), []
        known = _described(array)
        if array.declared == []:
            return NodeContents(path, "native array", **known), []
        try:
            counts = await self._counts(path, array)
        except ManifestError as error:
            problem = error.in_context(array=path)
            return NodeContents(path, "invalid", **known, problem=problem), []
        return NodeContents(
            path,
            "manifest array",
            **known,
            references=counts.references,
            inline=counts.inline,
            empty=counts.empty,
            nbytes=counts.nbytes,
            open_ended=counts.open_ended,
            objects=len(counts.locations()),
            prefixes=tuple(counts.prefixes()),
        ), counts.found

    async def _counts(self, path: str, document: ArrayMetadata) -> _Counts:
        configuration = strict(interpret_declaration(document.declared))
        counts = _Counts()
        if configuration is None:
            # Transformers that need not be understood, and none of ours.
            return counts
        array = strict(interpret_array(path, document.metadata, configuration, base=self.base))
        assert array is not None  # else a problem was raised
        async for loaded in ManifestDocuments(array, self.sources, self.limits).every():
            manifest = loaded.manifest
            statistics = manifest.statistics()
            references = sum(count for _, count, _ in statistics)
            inline = sum(1 for _ in manifest.with_path(INLINE))
            counts.references += references
            counts.inline += inline
            counts.empty += len(manifest) - references - inline
            counts.nbytes += sum(nbytes for _, _, nbytes in statistics)
            counts.open_ended += sum(1 for _ in manifest.open_ended())
            counts.found += [
                (location, count, nbytes)
                for location, (_, count, nbytes) in zip(loaded.locations, statistics, strict=True)
            ]
        return counts


def _described(array: ArrayMetadata) -> dict[str, Any]:
    """Return what the metadata says of an array; what is not valid is left out."""
    grid = ChunkGrid.from_metadata(array.metadata)
    data_type: Any = array.metadata.get("data_type")
    name: Any = cast("Any", data_type).get("name") if isinstance(data_type, dict) else data_type
    return {
        "data_type": name if isinstance(name, str) else None,
        "shape": None if grid is None else grid.shape,
        "chunk_shape": None if grid is None else grid.regular,
        "chunks": None if grid is None else math.prod(grid.counts),
    }


def _old_node(path: str, node: dict[str, Any]) -> NodeContents:
    if not node["v2"].endswith(".zarray"):
        return NodeContents(path, "group")
    shape: Any = node.get("shape")
    data_type: Any = node.get("dtype")
    return NodeContents(
        path,
        "native array",
        data_type=data_type if isinstance(data_type, str) else "structured",
        shape=tuple(cast("list[int]", shape)) if isinstance(shape, list) else None,
    )
