"""What a hierarchy contains: its nodes, and what the manifest of each array refers to.

A summary for people and programs. Reads metadata and manifest documents, but no sources;
invalid arrays are listed with their problem.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import ArrayMetadata, ChunkGrid, Limits, number_chunks, strict
from zarr_manifest.hierarchy import CONCURRENCY, InspectedHierarchy, Node
from zarr_manifest.inspection.blocks import NativeArray
from zarr_manifest.inspection.chunk_maps import ChunkMap
from zarr_manifest.inspection.node_contents import Contents, NodeContents
from zarr_manifest.locations import (
    AllowList,
    Location,
    StoreLocation,
    UrlLocation,
    suggest_prefixes,
    summarize,
)
from zarr_manifest.sources import (
    Allow,
    in_order,
)
from zarr_manifest.stores import StoreLike
from zarr_manifest.zarr_internals import sync


def contents(
    location: StoreLike,
    *,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    native_chunks: bool = False,
) -> Contents:
    """List the nodes of a hierarchy, and what the manifests of its arrays refer to.

    In a notebook, it is shown with a map of each array's chunks.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    allow, base, limits
        As for :class:`ManifestStore`. Sources are not read, and need not be allowed, but
        manifest documents outside the hierarchy must be.
    native_chunks : bool
        Whether to list the chunks of native arrays, too, for their maps.

    Returns
    -------
    Contents
        The nodes, and the locations of the bytes of their chunks.

    Raises
    ------
    SourceNotFoundError
        There is no Zarr hierarchy.
    SourceError
        The hierarchy cannot be listed, and has no consolidated metadata, or `native_chunks`.
    ValueError
        `allow` contains something that is not a URL prefix.

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
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    return sync(_contents(hierarchy, native_chunks))


async def _contents(hierarchy: InspectedHierarchy, native_chunks: bool) -> Contents:
    nodes = await hierarchy.nodes()
    calls = [functools.partial(_described, hierarchy, node, native_chunks) for node in nodes]
    found = [node async for node in in_order(calls, CONCURRENCY)]
    statistics = [item for _, items in found for item in items]
    urls = [location for location, _, _ in statistics if isinstance(location, UrlLocation)]
    prefixes = suggest_prefixes(urls)
    locations = summarize(statistics, prefixes, hierarchy.allow)
    numbers = {place.prefix: number for number, place in enumerate(locations)}
    below = AllowList(prefixes)
    for node, items in found:
        if node.map is not None:
            places = (
                numbers[below.match(location) if isinstance(location, UrlLocation) else None]
                for location, _, _ in items
            )
            node.map.name_sources(np.fromiter(places, np.int64, len(items)))
    return Contents([node for node, _ in found], locations)


@dataclass
class _Counts:
    """Totals of what the documents of one manifest refer to."""

    map: ChunkMap
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
    hierarchy: InspectedHierarchy, node: Node, native_chunks: bool
) -> tuple[NodeContents, list[tuple[Location, int, int]]]:
    if node.problem is not None:
        return NodeContents(node.path, "invalid", problem=node.problem), []
    if node.kind == "group":
        return NodeContents(node.path, "group"), []
    known = _old_members(node) if node.array is None else array_members(node.array)
    if node.array is None or not node.array.declaration:
        found = await _native(hierarchy, node) if native_chunks else None
        return NodeContents(node.path, "native array", **known, map=found), []
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
        map=counts.map,
    ), counts.found


async def _native(hierarchy: InspectedHierarchy, node: Node) -> ChunkMap | None:
    array = NativeArray.of(node)
    if array is None:
        return None
    grid = array.grid
    found = ChunkMap(grid.counts, dimension_names(node.metadata))
    chunks = np.array(list(await hierarchy.native_chunks(array.node, grid)), np.int64)
    indices = chunks.reshape(len(chunks), len(grid.counts))
    found.add(number_chunks(indices, grid.counts))
    return found


def dimension_names(metadata: Mapping[str, Any]) -> list[str | None]:
    """Return the names of an array's dimensions, if it has them."""
    stated: Any = metadata.get("dimension_names")
    return cast("list[str | None]", stated) if isinstance(stated, list) else []


async def _counts(hierarchy: InspectedHierarchy, node: Node) -> _Counts:
    array = strict(hierarchy.declaration(node))
    if array is None:
        # Only transformers that readers need not understand, and no manifest.
        return _Counts(ChunkMap(()))
    counts = _Counts(ChunkMap(array.chunk_grid.counts, dimension_names(node.metadata)))
    async for loaded in hierarchy.documents(array).every():
        manifest = loaded.manifest
        statistics = loaded.statistics()
        references, inline, empty = manifest.counts()
        columns = manifest.columns()
        counts.map.add(columns.numbers, columns.path_numbers, len(counts.found))
        counts.references += references
        counts.inline += inline
        counts.empty += empty
        counts.nbytes += sum(nbytes for _, _, nbytes in statistics)
        counts.open_ended += sum(1 for _ in manifest.open_ended())
        counts.found += statistics
    return counts


def array_members(array: ArrayMetadata) -> dict[str, Any]:
    """Return what metadata state of an array, for a :class:`NodeContents`; nothing invalid."""
    grid = ChunkGrid.from_metadata(array.metadata)
    data_type: Any = array.metadata.get("data_type")
    name: Any = cast("Any", data_type).get("name") if isinstance(data_type, dict) else data_type
    return {
        "data_type": name if isinstance(name, str) else None,
        "shape": None if grid is None else grid.shape,
        "chunk_shape": None if grid is None else grid.regular,
        "chunks": None if grid is None else math.prod(grid.counts),
    }


def _old_members(node: Node) -> dict[str, Any]:
    shape: Any = node.metadata.get("shape")
    data_type: Any = node.metadata.get("dtype")
    return {
        "data_type": data_type if isinstance(data_type, str) else "structured",
        "shape": tuple(cast("list[int]", shape)) if isinstance(shape, list) else None,
    }
