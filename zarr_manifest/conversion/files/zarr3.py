"""Zarr v3 hierarchies of native arrays as nodes: every chunk refers to its own object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from zarr_manifest.conversion.files.sources import READ_ERRORS, FileSources, Listed
from zarr_manifest.conversion.nodes import ArrayNode, GroupNode, Node, refused
from zarr_manifest.conversion.virtual import checked_metadata
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.format import ArrayMetadata, ChunkGrid, interpret_chunk_grid, strict
from zarr_manifest.hierarchy import ChunkKeyEncoding, no_hierarchy, open_for_reading
from zarr_manifest.manifest import Manifest
from zarr_manifest.stores import can_list, not_listable, open_hierarchy, store_failure
from zarr_manifest.zarr_internals import sync

_METADATA = "zarr.json"


def list_objects(url: str, sources: FileSources) -> list[Listed]:
    """Return the objects of a hierarchy.

    Raises
    ------
    SourceNotFoundError
        There is no such directory.
    SourceError, SourceAccessDeniedError
        They cannot be listed.
    """
    store = sync(open_for_reading(open_hierarchy(url, sources.allow, read_only=True)))
    if not can_list(store):
        raise not_listable(store, "so it is unknown which chunks exist")
    try:
        return list(sources.list(url))
    except READ_ERRORS as error:
        failure = store_failure(error)
    raise failure


def read_zarr3(url: str, sources: FileSources, *, record_conditions: bool = True) -> Iterator[Node]:
    """Yield the nodes of a Zarr v3 hierarchy. Its metadata stays as it is.

    Parameters
    ----------
    url : str
        The root of the hierarchy.
    sources : FileSources
        Reads it, and must be able to list.
    record_conditions : bool
        Whether to record the entity tag and modification time of chunks.

    Raises
    ------
    SourceNotFoundError
        There is no Zarr v3 hierarchy.
    SourceError, SourceAccessDeniedError
        Its objects cannot be listed.
    """
    objects = {found.name: found for found in list_objects(url, sources)}
    paths = [
        name.removesuffix(_METADATA).rstrip("/")
        for name in objects
        if name == _METADATA or name.endswith(f"/{_METADATA}")
    ]
    if not paths:
        store = open_hierarchy(url, sources.allow, read_only=True)
        raise no_hierarchy(store, what="Zarr v3 hierarchy")
    below = _by_array(paths, objects)
    for path in sorted(paths, key=lambda path: path.split("/") if path else []):
        try:
            yield _node(url, path, sources, below[path], record_conditions)
        except ManifestError as error:
            yield refused(path, error)


def _by_array(paths: list[str], objects: Mapping[str, Listed]) -> dict[str, dict[str, Listed]]:
    """Return each node's objects by relative name; an object belongs to the deepest node above."""
    nodes = set(paths)
    below: dict[str, dict[str, Listed]] = {path: {} for path in paths}
    for name, found in objects.items():
        above = name
        while above:
            above = above.rpartition("/")[0]
            if above in nodes:
                below[above][name[len(above) + 1 :] if above else name] = found
                break
    return below


def _node(
    url: str,
    path: str,
    sources: FileSources,
    objects: Mapping[str, Listed],
    record_conditions: bool,
) -> Node:
    at = f"{url}/{path}" if path else url
    size = objects[_METADATA].size
    try:
        stated: Any = json.loads(bytes(sources.read(f"{at}/{_METADATA}", 0, size)))
        kind = stated["node_type"]
        attributes = dict(stated.get("attributes", {}))
    except (ValueError, KeyError, TypeError) as error:
        raise NotConvertibleError(f"its zarr.json is not Zarr v3 metadata: {error}") from error
    if kind == "group":
        return GroupNode(path, attributes)
    if ArrayMetadata("", stated).declaration:
        raise NotConvertibleError(
            "it declares storage transformers, such as a chunk manifest",
            remedy="Copy the hierarchy with its manifests.",
        )
    metadata = checked_metadata(stated)
    grid = strict(interpret_chunk_grid(metadata))
    if grid is None:
        raise NotConvertibleError("its chunk grid is of an unknown kind")
    encoding = ChunkKeyEncoding(metadata, len(grid.shape))
    encoding.learn(grid)
    chunks: list[tuple[int, ...]] = []
    found: list[Listed] = []
    for name, listed in objects.items():
        index = encoding.decode(name)
        if index is not None and grid.contains(index) and name != _METADATA:
            chunks.append(index)
            found.append(listed)
    return ArrayNode(path, metadata, _manifest(grid, chunks, found, record_conditions))


def _manifest(
    grid: ChunkGrid, chunks: list[tuple[int, ...]], found: list[Listed], record_conditions: bool
) -> Manifest:
    stated = {listed.url: listed.conditions for listed in found if listed.conditions}
    return Manifest.from_columns(
        grid.counts,
        paths=np.array([listed.url for listed in found], np.dtypes.StringDType()),
        offsets=np.zeros(len(found), np.int64),
        lengths=np.array([listed.size for listed in found], np.int64),
        indices=np.array(chunks, np.int64).reshape(len(chunks), len(grid.counts)),
        conditions=stated if record_conditions else None,
    )
