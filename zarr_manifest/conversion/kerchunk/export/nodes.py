"""A hierarchy as the parts of a kerchunk reference set: v2 metadata, and references.

Handles manifest arrays and native ones; the chunks of the latter are objects in the hierarchy's
own store. Documents of partitioned manifests are loaded when their block is requested.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from zarr_manifest.conversion.kerchunk.urls import kerchunk_url
from zarr_manifest.conversion.nodes import RefusedNode, refused
from zarr_manifest.conversion.zarr2 import (
    Zarr2Metadata,
    convert_array_to_zarr2,
    convert_group_to_zarr2,
)
from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.format import (
    ChunkGrid,
    Partitions,
    format_canonical,
    format_last_modified,
    grid_index,
    number_chunks,
    strict,
)
from zarr_manifest.hierarchy import (
    ChunkKeyEncoding,
    DeclaredArray,
    InspectedHierarchy,
    ManifestDocuments,
    Node,
    encode_fill_chunk,
)
from zarr_manifest.locations import Location, StoreLocation, UrlLocation
from zarr_manifest.manifest import (
    EMPTY,
    INLINE,
    TO_THE_END,
    Extras,
    NumberedPaths,
    References,
    references_from_columns,
)
from zarr_manifest.stores import object_url, store_urls
from zarr_manifest.zarr_internals import sync

__all__ = ["ExportedArray", "ExportedGroup", "exported_nodes"]


@dataclass(frozen=True, slots=True)
class ExportedGroup:
    """A group.

    Parameters
    ----------
    path : str
        Without slashes at the ends; ``""`` for the root.
    zgroup, zattrs : dict
        Its v2 metadata.
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
        The blocks of the chunk grid in which the references come; a single one if the
        manifest is not partitioned.
    present : iterable of tuple of int
        The indices of the blocks that may have references, in C order; can be iterated
        repeatedly.
    load : callable
        Returns the references of the block with an index; may raise ManifestError.
    dropped : Counter
        What kerchunk cannot express, counted as blocks are loaded.
    check : callable
        Called after the last block; raises ManifestError if the manifest was replaced
        while it was read.
    """

    path: str
    metadata: dict[str, Any]
    partitions: Partitions
    present: Iterable[tuple[int, ...]]
    load: Callable[[tuple[int, ...]], References]
    dropped: Counter[str]
    check: Callable[[], None]

    def blocks(self) -> Iterator[References]:
        """Yield the references of all blocks, loading each on demand."""
        for index in self.present:
            yield self.load(index)

    def zarr2_metadata(self, references: int) -> Zarr2Metadata:
        """Return the v2 metadata of the array, after all blocks have been loaded.

        Parameters
        ----------
        references : int
            Number of its chunks that have one.

        Raises
        ------
        ManifestError
            The manifest was replaced while it was read.
        """
        self.check()
        is_complete = references == math.prod(self.partitions.grid_shape)
        converted = convert_array_to_zarr2(
            self.metadata, path=self.path, is_complete=is_complete, is_tried=True
        )
        counted = (
            what.format(f"{count} chunk{'s' if count > 1 else ''}")
            for what, count in sorted(self.dropped.items())
        )
        return converted._replace(notes=(*converted.notes, *counted))


type Exported = ExportedGroup | ExportedArray | RefusedNode


def exported_nodes(
    hierarchy: InspectedHierarchy, *, inline_empty: bool = True
) -> Iterator[Exported]:
    """Yield the nodes of a hierarchy, parents first.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        Its native arrays can only be exported if it can be listed.
    inline_empty : bool
        Whether explicitly empty chunks become encoded fill values; otherwise they are
        missing.

    Raises
    ------
    ManifestError
        ``source_not_found``: there is no hierarchy; ``source_error``: its nodes cannot be
        listed. A problem with a single node yields a :class:`RefusedNode`.
    """
    exporting = _Exporting(hierarchy, inline_empty)
    return map(exporting.node, sync(hierarchy.nodes()))


@dataclass(frozen=True, slots=True)
class _Exporting:
    hierarchy: InspectedHierarchy
    inline_empty: bool

    def node(self, node: Node) -> Exported:
        """Return a node, or the reason why it cannot be expressed."""
        try:
            node.require_v3()
            if node.kind == "group":
                converted = convert_group_to_zarr2(node.metadata)
                return ExportedGroup(node.path, converted.node, converted.attributes)
            convert_array_to_zarr2(node.metadata, path=node.path)  # raises if it is impossible
            return self._array(node)
        except ManifestError as error:
            return refused(node.path, error)

    # References ----------------------------------------------------------------

    def _array(self, node: Node) -> ExportedArray:
        grid = ChunkGrid.from_metadata(node.metadata)
        assert grid is not None  # Zarr v2 can express it
        array = strict(self.hierarchy.declaration(node))
        whole = Partitions(grid.counts, tuple(max(1, n) for n in grid.counts))
        if array is None:
            return ExportedArray(
                node.path,
                node.metadata,
                whole,
                whole,
                lambda _: self._native(node, grid),
                Counter[str](),
                lambda: None,
            )
        documents = self.hierarchy.documents(array)
        partitions = sync(documents.partitions())
        fill_value = functools.partial(_encoded_fill_value, array.metadata, grid)
        exporter = _Exporter(
            store_urls(self.hierarchy.store),
            functools.cache(fill_value) if self.inline_empty else None,
        )
        return ExportedArray(
            node.path,
            node.metadata,
            array.partitions or whole,
            whole if array.partitions is None else cast("Iterable[tuple[int, ...]]", partitions),
            functools.partial(_block, documents, array, exporter),
            exporter.dropped,
            functools.partial(_check_missing, documents),
        )

    def _native(self, node: Node, grid: ChunkGrid) -> References:
        keys = sync(self.hierarchy.native_chunks(node, grid))
        roots = store_urls(self.hierarchy.store)
        indices = sorted(keys)
        shape = (len(indices), len(grid.counts))
        numbers = number_chunks(np.array(indices, np.int64).reshape(shape), grid.counts)
        names = [kerchunk_url(object_url(roots, keys[index])) for index in indices]
        paths = NumberedPaths(np.arange(len(names), dtype=np.int32), names)
        return references_from_columns(grid.counts, numbers=numbers, paths=paths)


def _block(
    documents: ManifestDocuments, array: DeclaredArray, exporter: _Exporter, index: tuple[int, ...]
) -> References:
    partition = None if array.partitions is None else index
    try:
        loaded = sync(documents.partition(partition))
        return exporter.references(loaded.manifest, loaded.locations)
    except ManifestError as error:
        raise error.in_context(array=array.path) from error.__cause__


def _check_missing(documents: ManifestDocuments) -> None:
    sync(documents.check_missing())


def _encoded_fill_value(metadata: dict[str, Any], grid: ChunkGrid) -> bytes:
    """Return an encoded chunk of fill values; in a regular grid, all chunks are alike."""
    index = (0,) * len(grid.counts)
    encoding = ChunkKeyEncoding(metadata, len(index))
    return encode_fill_chunk(metadata, index, encoding.encode(index))


# What kerchunk can express ------------------------------------------------------------


@dataclass(slots=True)
class _Exporter:
    """Turns the references of one array into those that kerchunk can express.

    Parameters
    ----------
    roots : sequence of UrlLocation
        Locations of the root of the hierarchy's store.
    encoded_fill_value : callable
        Returns the bytes of a chunk of fill values; None to leave out explicitly empty
        chunks.
    dropped : Counter
        Counts what kerchunk cannot express; ``{}`` in a text stands for the number of
        chunks.
    """

    roots: Sequence[UrlLocation]
    encoded_fill_value: Callable[[], bytes] | None = None
    dropped: Counter[str] = field(default_factory=Counter[str])

    def references(self, manifest: References, locations: Sequence[Location]) -> References:
        """Return the references of a manifest, with URLs in fsspec's form as paths.

        Raises
        ------
        NotConvertibleError
            kerchunk cannot express an entry.
        """
        columns = manifest.columns()
        if columns.lengths.min(initial=1) < 1:
            _require_lengths(manifest)
        versions: dict[str | None, int] = {None: 0}
        with_version: list[tuple[int, list[int]]] = []
        extras: dict[int, Extras] = {}
        for extra, rows in manifest.extras():
            self._count_dropped(extra, len(rows))
            if extra.data is not None:
                extras.update(dict.fromkeys(rows, Extras(extra.data)))
            if extra.conditions.version is not None:
                number = versions.setdefault(extra.conditions.version, len(versions))
                with_version.append((number, rows))
        if not with_version:
            found = manifest.replaced(extras=extras)
            found = found.with_paths([self._url(location, None) for location in locations])
        else:
            # A path may have several versions: each is a URL of its own.
            owners = columns.path_numbers * np.int64(len(versions))
            for number, rows in with_version:
                owners[rows] += number
            with_path = columns.path_numbers >= 0
            unique, numbers = np.unique(owners[with_path], return_inverse=True)
            used: list[int] = unique.tolist()
            path_numbers = columns.path_numbers.copy()
            path_numbers[with_path] = numbers
            names = list(versions)
            urls = [
                self._url(locations[number // len(names)], names[number % len(names)])
                for number in used
            ]
            found = manifest.replaced(path_numbers=path_numbers, paths=tuple(urls), extras=extras)
        return self._without_empty(found)

    def _without_empty(self, found: References) -> References:
        """Return references that have encoded fill values, or nothing, for empty chunks."""
        columns = found.columns()
        empty = columns.path_numbers == EMPTY
        rows: list[int] = np.flatnonzero(empty).tolist()
        if not rows:
            return found
        if self.encoded_fill_value is None:
            what = "{} marked as empty, now missing, which reads as fill values"
            self.dropped[what] += len(rows)
            return found.without_empty()
        self.dropped["{} marked as empty, now encoded fill values"] += len(rows)
        data = self.encoded_fill_value()
        return found.replaced(
            path_numbers=np.where(empty, np.int32(INLINE), columns.path_numbers),
            lengths=np.where(empty, len(data), columns.lengths),
            extras={extra_row: extra for extra, own in found.extras() for extra_row in own}
            | dict.fromkeys(rows, Extras(data)),
        )

    def _count_dropped(self, extras: Extras, rows: int) -> None:
        if extras.checksum is not None:
            self.dropped["the checksums of {} were left out"] += rows
        if extras.conditions.etag is not None:
            self.dropped["the entity tags of {} were left out"] += rows
        if format_last_modified(extras.conditions) is not None:
            self.dropped["the modification times of {} were left out"] += rows
        if extras.conditions.size is not None:
            self.dropped["the object sizes of {} were left out"] += rows

    def _url(self, location: Location, version: str | None) -> str:
        if isinstance(location, StoreLocation):
            if version is not None:
                self.dropped["the object versions of {} were left out"] += 1
            return kerchunk_url(object_url(self.roots, location.key))
        return kerchunk_url(location, version)


def _require_lengths(manifest: References) -> None:
    """Refuse ranges from an offset to the end of an object: kerchunk cannot express them."""
    columns = manifest.columns()
    open_ended = (columns.lengths == TO_THE_END) & (columns.offsets > 0)
    if open_ended.any():
        row = int(open_ended.argmax())
        raise NotConvertibleError(
            "an entry runs from an offset to the end of its object, but kerchunk needs a length",
            chunk=format_canonical(grid_index(manifest.grid_shape, int(columns.numbers[row]))),
            location=manifest.paths[int(columns.path_numbers[row])],
            remedy="Add 'length' to such entries in the manifest.",
        )
