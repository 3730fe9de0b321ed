"""The manifest of a stored array, document by document, with URLs as paths."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import itertools
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from zarr_manifest.conversion.nodes import ArrayNode, StreamedManifest
from zarr_manifest.errors import ManifestError, in_context
from zarr_manifest.hierarchy import CONCURRENCY, DeclaredArray, LoadedManifest, ManifestDocuments
from zarr_manifest.locations import Location, StoreLocation, UrlLocation
from zarr_manifest.manifest import Manifest
from zarr_manifest.sources import in_order
from zarr_manifest.stores import object_url
from zarr_manifest.zarr_internals import io_loop, sync

#: Number of arrays whose documents are read at the same time.
MANY = 64


async def read_all(reads: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Read documents at the same time."""

    async def read(call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        # An error is the same when the document is asked for.
        with contextlib.suppress(ManifestError):
            await call()

    async for _ in in_order((functools.partial(read, call) for call in reads), MANY):
        pass


class StoredParts:
    """The documents of a manifest, with URLs as paths; read anew each time they are iterated.

    Parameters
    ----------
    array : DeclaredArray
        The array.
    documents : ManifestDocuments
        Its manifest.
    roots : list of UrlLocation
        The URL of the hierarchy's root, if it has one.
    pace : asyncio.Semaphore
        Of how many arrays documents that are held are read at the same time.
    within : (int, range), optional
        A dimension, and which partitions along it are wanted: others are not read.
    is_kept : bool
        Whether the documents are held once they have been read.

    Attributes
    ----------
    is_as_written : bool
        Whether paths are those of the documents, and no URLs.
    """

    def __init__(
        self,
        array: DeclaredArray,
        documents: ManifestDocuments,
        roots: list[UrlLocation],
        pace: asyncio.Semaphore,
        within: tuple[int, range] | None = None,
        *,
        is_kept: bool = False,
    ) -> None:
        self.is_as_written = False
        self._array = array
        self._documents = documents
        self._roots = roots
        self._within = within
        self._is_kept = is_kept
        self._pace = pace
        self._kept: Future[list[LoadedManifest]] | None = None
        self._along: dict[tuple[int, range], StoredParts] = {}

    def along(self, axis: int, chunks: range | None = None) -> StoredParts:
        """Return the documents of the partitions that have some chunks along a dimension.

        By default, the last.

        Those of one partition's length are kept: the end of what grows is looked at several times.
        """
        partitions = self._array.partitions
        if partitions is None:
            return self
        chunks = range(partitions.grid_shape[axis])[-1:] if chunks is None else chunks
        length = partitions.shape[axis]
        within = (axis, range(chunks.start // length, -(-chunks.stop // length)))
        is_kept = len(within[1]) == 1
        found = StoredParts(
            self._array, self._documents, self._roots, self._pace, within, is_kept=is_kept
        )
        return self._along.setdefault(within, found) if is_kept else found

    def whole(self) -> Manifest:
        """Return a manifest that is one document.

        Raises
        ------
        ManifestError
            It cannot be read, or is invalid.
        """
        if (loaded := self._documents.loaded) is None:
            (manifest,) = self
            return manifest
        return self._manifest(loaded)

    def __iter__(self) -> Iterator[Manifest]:
        return map(self._manifest, self.loaded())

    def as_written(self) -> StoredParts:
        """Return the same documents, with their own paths instead of URLs."""
        self.begin()
        found = copy.copy(self)
        found.is_as_written = True
        return found

    def loaded(self) -> Iterator[LoadedManifest]:
        """Yield the documents, and where their paths lead."""
        with in_context(array=self._array.path):
            self.begin()
            if self._kept is not None:
                yield from self._kept.result()
                return
            found: Iterable[Any] = sync(self._partitions())
            partitions = iter(found)
            while batch := list(itertools.islice(partitions, CONCURRENCY)):
                yield from sync(self._loaded(batch))
            sync(self._documents.check_missing())

    def begin(self) -> None:
        """Begin to read documents that are held: who uses them waits for them."""
        if self._is_kept and self._kept is None:
            loop = io_loop()
            assert loop is not None  # metadata were read in it
            self._kept = asyncio.run_coroutine_threadsafe(self._every(), loop)

    async def _every(self) -> list[LoadedManifest]:
        async with self._pace:
            found = await self._loaded(await self._partitions())
            await self._documents.check_missing()
            return found

    async def _partitions(self) -> Iterable[Any]:
        array, partitions = self._array, self._array.partitions
        if self._within is None or partitions is None:
            return await self._documents.partitions()
        axis, numbers = self._within
        counts = list(map(range, partitions.counts))
        counts[axis] = range(numbers.start, min(numbers.stop, partitions.counts[axis]))
        if array.named is not None and math.prod(map(len, counts)) <= len(array.named):
            return filter(array.has_document, itertools.product(*counts))
        found = await self._documents.partitions()
        return (each for each in found if each is None or each[axis] in numbers)

    async def _loaded(self, batch: Iterable[Any]) -> list[LoadedManifest]:
        if self._array.partitions is None:
            return [loaded async for loaded in self._documents.every()]
        calls = (functools.partial(self._documents.partition, each) for each in batch)
        return [loaded async for loaded in in_order(calls, CONCURRENCY)]

    def _manifest(self, loaded: LoadedManifest) -> Manifest:
        if self.is_as_written:
            return Manifest(loaded.manifest)
        urls = [self._url(each) for each in loaded.locations]
        return Manifest(loaded.manifest.with_paths(urls))

    def _url(self, location: Location) -> str:
        if isinstance(location, StoreLocation):
            return object_url(self._roots, location.key).url
        return location.url


def documents_along(node: ArrayNode, axis: int, chunks: range | None = None) -> StoredParts | None:
    """Return the documents that have some chunks along a dimension, by default the last.

    None unless the array has a partitioned manifest in a hierarchy.
    """
    parts = _stored(node)
    if parts is None:
        return None
    return parts.along(axis, chunks)


def is_as_written(node: ArrayNode) -> bool:
    """Whether the paths of an array are those of its documents, and no URLs."""
    parts = _stored(node)
    return parts is not None and parts.is_as_written


def _stored(node: ArrayNode) -> StoredParts | None:
    parts = node.manifest.parts if isinstance(node.manifest, StreamedManifest) else None
    return parts if isinstance(parts, StoredParts) else None
