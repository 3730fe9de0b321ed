"""A hierarchy as what a kerchunk reference set is made of: v2 documents, and references.

Manifest arrays and native ones; the chunks of the latter are objects of the hierarchy's
own store. Documents of partitioned manifests are loaded when their block is asked for.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.conversion.kerchunk.export.blocks import Block, Exporter, url_in_store
from zarr_manifest.conversion.nodes import RefusedNode, refused
from zarr_manifest.conversion.zarr2 import (
    Zarr2Documents,
    convert_array_to_zarr2,
    convert_group_to_zarr2,
)
from zarr_manifest.errors import (
    InvalidConfigurationError,
    ManifestError,
    NotConvertibleError,
    SourceNotFoundError,
)
from zarr_manifest.format import (
    ArrayMetadata,
    ChunkGrid,
    Limits,
    Partitions,
    number_chunks,
    parse_declaration,
    parse_node,
    strict,
)
from zarr_manifest.hierarchy import (
    ChunkKeyEncoding,
    DeclaredArray,
    encode_fill_chunk,
    ensure_open,
    fetch_document,
    interpret_array,
    interpret_document_of,
    join,
    list_keys,
    open_hierarchy,
    store_underneath,
    store_urls,
    sync,
)
from zarr_manifest.sources import (
    Allow,
    Sources,
    access_by_prefix,
    can_list,
    hierarchy_reader,
    run_async,
    store_name,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["ExportedArray", "ExportedGroup", "exported_nodes"]

_DOCUMENT = "zarr.json"
_OLDER = (".zarray", ".zgroup")


@dataclass(frozen=True, slots=True)
class ExportedGroup:
    """A group.

    Parameters
    ----------
    path : str
        Without slashes at the ends; ``""`` for the root.
    zgroup, zattrs : dict
        Its v2 documents.
    """

    path: str
    zgroup: dict[str, Any]
    zattrs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExportedArray:
    """An array, and its references block by block.

    Parameters
    ----------
    path : str
        Without slashes at the ends; ``""`` for the root.
    metadata : dict
        Its v3 metadata, which v2 can express.
    partitions : Partitions
        The blocks of the chunk grid in which the references come; one for all of
        it where the manifest is not partitioned.
    load : callable
        Returns the references of the block with an index; may raise ManifestError.
    dropped : Counter
        What kerchunk has no place for, counted as blocks are loaded.
    """

    path: str
    metadata: dict[str, Any]
    partitions: Partitions
    load: Callable[[tuple[int, ...]], Block]
    dropped: Counter[str] = field(default_factory=Counter[str])

    def blocks(self) -> Iterator[Block]:
        """Yield the references of all blocks, each when it is asked for."""
        for index in self.partitions:
            yield self.load(index)

    def documents(self, references: int) -> Zarr2Documents:
        """Return the v2 documents of the array, after all blocks were loaded.

        Parameters
        ----------
        references : int
            How many of its chunks have one.
        """
        is_complete = references == math.prod(self.partitions.grid_shape)
        documents = convert_array_to_zarr2(self.metadata, path=self.path, is_complete=is_complete)
        counted = (
            f"array {self.path!r}: " + what.format(f"{count} chunk{'s' if count > 1 else ''}")
            for what, count in sorted(self.dropped.items())
        )
        return documents._replace(notes=(*documents.notes, *counted))


type Exported = ExportedGroup | ExportedArray | RefusedNode


def exported_nodes(
    location: str | Path | ObjectStore | Store,
    *,
    allow: Allow = None,
    inline_empty: bool = True,
) -> Iterator[Exported]:
    """Yield the nodes of a hierarchy, parents first.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy. It must be possible to list it.
    allow : optional
        As for :class:`ManifestStore`: needed for manifest documents outside of it.
    inline_empty : bool
        Explicitly empty chunks become encoded fill values; otherwise they are missing.

    Raises
    ------
    ManifestError
        ``source_not_found``: there is no hierarchy; ``not_convertible``: it cannot
        be listed. What is wrong with one node is a :class:`RefusedNode`.
    """
    access = access_by_prefix(allow)
    read_only = not isinstance(location, Store)
    store = store_underneath(open_hierarchy(location, access, read_only=read_only))
    hierarchy = _Hierarchy(store, Sources(access, hierarchy_reader(store)), inline_empty)
    return map(hierarchy.node, hierarchy.paths())


def _names(path: str) -> list[str]:
    return path.split("/") if path else []


@dataclass(frozen=True, slots=True)
class _Hierarchy:
    store: Store
    sources: Sources
    inline_empty: bool

    def paths(self) -> list[str]:
        """Return the paths of all nodes, parents first; those of Zarr v2 too."""
        sync(ensure_open(self.store))
        if not can_list(self.store):
            raise NotConvertibleError(
                "the hierarchy's store cannot be listed", location=store_name(self.store)
            )
        paths = {
            key.rpartition("/")[0]
            for key in self._keys("")
            if key.rpartition("/")[2] in (_DOCUMENT, *_OLDER)
        }
        if not paths:
            raise SourceNotFoundError("there is no Zarr hierarchy", location=store_name(self.store))
        return sorted(paths, key=_names)

    def _keys(self, prefix: str) -> list[str]:
        return sync(list_keys(self.store, prefix))

    def node(self, path: str) -> Exported:
        """Return a node, or why it cannot be expressed."""
        try:
            return self._node(path)
        except ManifestError as error:
            return refused(path, error)

    def _node(self, path: str) -> Exported:
        key = join(path, _DOCUMENT)
        found = sync(self.store.get(key, default_buffer_prototype()))
        if found is None:
            raise NotConvertibleError("the node is of Zarr v2, and has no 'zarr.json'")
        metadata = parse_node(found.to_bytes())
        kind = None if metadata is None else metadata.get("node_type")
        if metadata is None or kind not in ("array", "group"):
            raise InvalidConfigurationError("'zarr.json' describes neither a group nor an array")
        if kind == "group":
            documents = convert_group_to_zarr2(metadata)
            return ExportedGroup(path, documents.node, documents.attributes)
        convert_array_to_zarr2(metadata, path=path)  # or this says why not
        return ExportedArray(path, metadata, *self._references(path, metadata))

    # References ----------------------------------------------------------------

    def _references(
        self, path: str, metadata: dict[str, Any]
    ) -> tuple[Partitions, Callable[[tuple[int, ...]], Block], Counter[str]]:
        document = ArrayMetadata("", metadata)
        configuration = parse_declaration(document.declared)
        grid = ChunkGrid.from_metadata(metadata)
        assert grid is not None  # Zarr v2 can express it
        whole = Partitions(grid.counts, tuple(max(1, n) for n in grid.counts))
        if configuration is None:
            encoding = _encoding(metadata, grid)
            return whole, lambda _: self._native(path, encoding, grid), Counter[str]()
        array = strict(interpret_array(path, metadata, configuration))
        assert array is not None  # nothing is wrong with it
        fill_value = functools.partial(_encoded_fill_value, metadata, grid)
        exporter = Exporter(
            store_urls(self.store),
            functools.cache(fill_value) if self.inline_empty else None,
        )
        load = functools.partial(self._block, array, exporter)
        return array.partitions or whole, load, exporter.dropped

    def _block(self, array: DeclaredArray, exporter: Exporter, index: tuple[int, ...]) -> Block:
        partition = None if array.partitions is None else index
        try:
            body = sync(run_async(fetch_document(array, partition, self.sources)))
            if body is None:
                return _no_references()
            loaded = strict(interpret_document_of(array, partition, body, Limits()))
            assert loaded is not None  # nothing is wrong with it
            return exporter.block(loaded.manifest, loaded.locations)
        except ManifestError as error:
            raise error.in_context(array=array.path) from error.__cause__

    def _native(self, path: str, encoding: ChunkKeyEncoding, grid: ChunkGrid) -> Block:
        below = f"{path}/" if path else ""
        roots = store_urls(self.store)
        urls: dict[tuple[int, ...], str] = {}
        for key in self._keys(below):
            index = encoding.decode(key[len(below) :])
            if index is not None and all(i < n for i, n in zip(index, grid.counts, strict=True)):
                urls[index] = url_in_store(roots, key)
        indices = sorted(urls)
        shape = (len(indices), len(grid.counts))
        numbers = number_chunks(np.array(indices, np.int64).reshape(shape), grid.counts)
        zeros = np.zeros(len(indices), np.int64)
        names = [urls[index] for index in indices]
        return Block(numbers, np.arange(len(indices), dtype=np.int64), zeros, zeros, names, {})


def _encoding(metadata: dict[str, Any], grid: ChunkGrid) -> ChunkKeyEncoding:
    encoding = ChunkKeyEncoding(metadata, len(grid.counts))
    encoding.learn(grid)
    return encoding


def _encoded_fill_value(metadata: dict[str, Any], grid: ChunkGrid) -> bytes:
    """Return a chunk of fill values: any one, for in a regular grid all are the same."""
    plain = {name: value for name, value in metadata.items() if name != "storage_transformers"}
    index = (0,) * len(grid.counts)
    return encode_fill_chunk(plain, index, _encoding(plain, grid).encode(index))


def _no_references() -> Block:
    none = np.empty(0, np.int64)
    return Block(none, none, none, none, (), {})
