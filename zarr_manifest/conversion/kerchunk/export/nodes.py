"""A hierarchy as the parts of a kerchunk reference set: v2 metadata, and references.

Handles manifest arrays and native ones; the chunks of the latter are objects in the hierarchy's
own store. Documents of partitioned manifests are loaded when their block is requested.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.urls import kerchunk_url
from zarr_manifest.conversion.nodes import ConversionReport, Progress, Tally, grid_of, refused
from zarr_manifest.conversion.zarr2 import (
    Zarr2Metadata,
    convert_array_to_zarr2,
    convert_group_to_zarr2,
)
from zarr_manifest.errors import ManifestError, NotConvertibleError, in_context
from zarr_manifest.format import (
    ArrayMetadata,
    ChunkGrid,
    format_canonical,
    format_last_modified,
    grid_index,
    number_chunks,
    strict,
)
from zarr_manifest.hierarchy import (
    ChunkKeyEncoding,
    InspectedHierarchy,
    ManifestDocuments,
    Node,
    Partition,
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
    distinct_numbers,
    references_from_columns,
)
from zarr_manifest.showing import counted
from zarr_manifest.stores import object_url, store_urls
from zarr_manifest.zarr_internals import sync


@dataclass(slots=True)
class ExportedArray:
    """An array whose metadata v2 can express, and its references block by block.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        Contains it.
    node : Node
        Its v3 metadata.
    converted : Zarr2Metadata
        Its v2 metadata, but for the fill value, which depends on whether chunks are missing.
    tally : Tally
        Counts references that are loaded.
    """

    hierarchy: InspectedHierarchy
    node: Node
    converted: Zarr2Metadata
    tally: Tally
    blocks: Iterable[Partition] = (None,)
    """The partitions that may have references, in C order; None if the manifest has none."""
    _grid: ChunkGrid = field(init=False)
    _documents: ManifestDocuments | None = None
    _roots: list[UrlLocation] = field(init=False)
    _fill_chunk: bytes | None = None
    _references: int = 0
    _stated_bytes: int = 0
    # What kerchunk cannot express; ``{}`` in a text stands for the number of chunks.
    _dropped: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        self._grid = grid_of(self.node.metadata)
        self._roots = store_urls(self.hierarchy.store)
        array = strict(self.hierarchy.declaration(self.node))
        if array is not None:
            self._documents = self.hierarchy.documents(array)
            self.blocks = sync(self._documents.partitions())

    @property
    def path(self) -> str:
        """Its path, without slashes at the ends; ``""`` for the root."""
        return self.node.path

    def first_chunk(self, block: Partition) -> int:
        """Return the number of the first chunk of a block."""
        partitions = None if self._documents is None else self._documents.array.partitions
        if block is None or partitions is None:
            return 0
        starts = [[along[0] for along in partitions.region(block)]]
        return int(number_chunks(np.array(starts, np.int64), self._grid.counts)[0])

    def load(self, block: Partition) -> References:
        """Return the references of a block, with URLs in fsspec's form as paths.

        Raises
        ------
        ManifestError
            They cannot be read, or kerchunk cannot express an entry.
        """
        if self._documents is None:
            found = self._native()
        else:
            with in_context(array=self.path):
                loaded = sync(self._documents.partition(block))
                found = self._expressed(loaded.manifest, loaded.locations)
        self._references += len(found)
        self._stated_bytes += found.stated_bytes
        self.tally.add(self.path, len(found))
        return found

    def finish(self, report: ConversionReport) -> Zarr2Metadata:
        """Return the v2 metadata of the array, after all blocks have been loaded, and report it.

        Parameters
        ----------
        report : ConversionReport
            Counts it.

        Raises
        ------
        ManifestError
            The manifest was replaced while it was read.
        """
        if self._documents is not None:
            sync(self._documents.check_missing())
        is_complete = self._references == math.prod(self._grid.counts)
        converted = self.converted.masked(is_complete=is_complete)
        left_out = (what.format(counted(n, "chunk")) for what, n in sorted(self._dropped.items()))
        report.arrays += 1
        report.references += self._references
        report.stated_bytes += self._stated_bytes
        report.notes += [(self.path, note) for note in (*converted.notes, *left_out)]
        return converted

    def _native(self) -> References:
        keys = sync(self.hierarchy.native_chunks(self.node, self._grid))
        indices = sorted(keys)
        shape = (len(indices), len(self._grid.counts))
        numbers = number_chunks(np.array(indices, np.int64).reshape(shape), self._grid.counts)
        names = [kerchunk_url(object_url(self._roots, keys[index])) for index in indices]
        paths = NumberedPaths(np.arange(len(names), dtype=np.int32), names)
        return references_from_columns(self._grid.counts, numbers=numbers, paths=paths)

    # What kerchunk can express --------------------------------------------------

    def _expressed(self, manifest: References, locations: Sequence[Location]) -> References:
        columns = manifest.columns()
        if columns.lengths.min(initial=1) < 1:
            _require_lengths(manifest)
        urls = [self._url(location, None) for location in locations]
        numbers = columns.path_numbers.copy()
        # A path may have several versions: each is a URL of its own.
        versions: dict[tuple[int, str], int] = {}
        extras: dict[int, Extras] = {}
        for extra, rows in manifest.extras():
            self._count_dropped(extra, len(rows))
            if extra.data is not None:
                extras.update(dict.fromkeys(rows, Extras(extra.data)))
            if (version := extra.conditions.version) is not None:
                for row in rows:
                    place = numbers.item(row), version
                    numbers[row] = versions.setdefault(place, len(urls) + len(versions))
        urls += [self._url(locations[number], version) for number, version in versions]
        found = manifest.replaced(path_numbers=numbers, paths=tuple(urls), extras=extras)
        return self._without_empty(found)

    def _without_empty(self, found: References) -> References:
        """Return references that have encoded fill values for empty chunks."""
        columns = found.columns()
        empty = columns.path_numbers == EMPTY
        rows: list[int] = np.flatnonzero(empty).tolist()
        if not rows:
            return found
        self._dropped["{} marked as empty, now encoded fill values"] += len(rows)
        data = self._encoded_fill_value()
        return found.replaced(
            path_numbers=np.where(empty, np.int32(INLINE), columns.path_numbers),
            lengths=np.where(empty, len(data), columns.lengths),
            extras=found.extras_by_row() | dict.fromkeys(rows, Extras(data)),
        )

    def _count_dropped(self, extras: Extras, rows: int) -> None:
        if extras.checksum is not None:
            self._dropped["the checksums of {} were left out"] += rows
        if extras.conditions.etag is not None:
            self._dropped["the entity tags of {} were left out"] += rows
        if format_last_modified(extras.conditions) is not None:
            self._dropped["the modification times of {} were left out"] += rows
        if extras.conditions.size is not None:
            self._dropped["the object sizes of {} were left out"] += rows

    def _url(self, location: Location, version: str | None) -> str:
        if isinstance(location, StoreLocation):
            if version is not None:
                self._dropped["the object versions of {} were left out"] += 1
            return kerchunk_url(object_url(self._roots, location.key))
        return kerchunk_url(location, version)

    def _encoded_fill_value(self) -> bytes:
        """Return an encoded chunk of fill values; in a regular grid, all chunks are alike."""
        if self._fill_chunk is None:
            index = (0,) * len(self._grid.counts)
            metadata = ArrayMetadata("", self.node.metadata).undeclared
            key = ChunkKeyEncoding(metadata, len(index)).encode(index)
            self._fill_chunk = encode_fill_chunk(metadata, index, key)
        return self._fill_chunk


def urls_of[T: (str, bytes)](
    urls: Sequence[T], numbers: npt.NDArray[np.int32]
) -> tuple[list[T], npt.NDArray[np.signedinteger]]:
    """Return the URLs in use, and a column of their numbers; inline chunks have none, but -1."""
    # Where there are inline chunks, the first number stands for them.
    shift = int(numbers.min() < 0)
    used, which = distinct_numbers(numbers + np.int32(shift), len(urls) + shift)
    own: list[int] = (used[shift:] - shift).tolist()
    return [urls[number] for number in own], which - shift


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


def export_nodes(
    hierarchy: InspectedHierarchy,
    report: ConversionReport,
    progress: Progress | None,
    add_group: Callable[[str, Zarr2Metadata], None],
    add_array: Callable[[ExportedArray], None],
) -> None:
    """Export the nodes of a hierarchy, parents first; report what kerchunk cannot express.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        Its native arrays can only be exported if it can be listed.
    report : ConversionReport
        Counts the nodes.
    progress : callable or None
        Called after each block of references.
    add_group, add_array : callable
        Write a group, of which the path and the metadata are given, and an array.

    Raises
    ------
    ManifestError
        ``source_not_found``: there is no hierarchy; ``source_error``: its nodes cannot be
        listed.
    """
    tally = Tally(progress)
    for node in sync(hierarchy.nodes()):
        try:
            node.require_v3()
            if node.kind == "group":
                add_group(node.path, convert_group_to_zarr2(node.metadata))
                report.groups += 1
            else:
                converted = convert_array_to_zarr2(node.metadata, path=node.path)
                add_array(ExportedArray(hierarchy, node, converted, tally))
        except ManifestError as error:
            report.refused.append(refused(node.path, error))
