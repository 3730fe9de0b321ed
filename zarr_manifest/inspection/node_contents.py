"""What a hierarchy holds: its nodes, and what the manifest of each array refers to.

A summary for people and programs. Metadata and manifest documents are read, sources
are not; an array that is not valid is listed with what is wrong with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from zarr.abc.store import Store

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import ArrayMetadata, ChunkGrid, Limits, strict
from zarr_manifest.hierarchy import CONCURRENCY, Node, OpenedHierarchy, sync
from zarr_manifest.locations import (
    Location,
    ReferencedLocation,
    StoreLocation,
    UrlLocation,
    suggest_prefixes,
    summarize,
)
from zarr_manifest.manifest import INLINE
from zarr_manifest.sources import Allow, in_order

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
    SourceNotFoundError
        There is no Zarr hierarchy.
    SourceError
        The hierarchy cannot be listed, and has no consolidated metadata.
    ValueError
        `allow` holds what is no URL prefix.

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
    hierarchy = OpenedHierarchy.open(location, allow=allow, base=base, limits=limits)
    return sync(_contents(hierarchy))


async def _contents(hierarchy: OpenedHierarchy) -> Contents:
    calls = [functools.partial(_described, hierarchy, node) for node in await hierarchy.nodes()]
    found = [node async for node in in_order(calls, CONCURRENCY)]
    statistics = [item for _, items in found for item in items]
    urls = [location for location, _, _ in statistics if isinstance(location, UrlLocation)]
    locations = summarize(statistics, suggest_prefixes(urls), hierarchy.allow)
    return Contents([node for node, _ in found], locations)


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


async def _described(
    hierarchy: OpenedHierarchy, node: Node
) -> tuple[NodeContents, list[tuple[Location, int, int]]]:
    if node.problem is not None:
        return NodeContents(node.path, "invalid", problem=node.problem), []
    if node.kind == "group":
        return NodeContents(node.path, "group"), []
    if node.array is None:
        return _old_array(node), []
    known = _members(node.array)
    if node.array.declared == []:
        return NodeContents(node.path, "native array", **known), []
    try:
        counts = await _counts(hierarchy, node)
    except ManifestError as error:
        problem = error.in_context(array=node.path)
        return NodeContents(node.path, "invalid", **known, problem=problem), []
    return NodeContents(
        node.path,
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


async def _counts(hierarchy: OpenedHierarchy, node: Node) -> _Counts:
    counts = _Counts()
    array = strict(hierarchy.declaration(node))
    if array is None:
        # Transformers that need not be understood, and none of ours.
        return counts
    async for loaded in hierarchy.documents(array).every():
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


def _members(array: ArrayMetadata) -> dict[str, Any]:
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


def _old_array(node: Node) -> NodeContents:
    shape: Any = node.metadata.get("shape")
    data_type: Any = node.metadata.get("dtype")
    return NodeContents(
        node.path,
        "native array",
        data_type=data_type if isinstance(data_type, str) else "structured",
        shape=tuple(cast("list[int]", shape)) if isinstance(shape, list) else None,
    )
