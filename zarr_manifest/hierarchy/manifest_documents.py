"""The manifest documents of one array: fetched, decoded, checked and cached.

A manifest is one document or, if it is partitioned, one for each block of chunks that
is read.
"""

from __future__ import annotations

import functools
import math
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable
from typing import Any

from msgspec import Struct
from zarr.abc.store import Store

from zarr_manifest.errors import (
    InvalidPathError,
    ManifestError,
    ManifestNotFoundError,
    SourceNotFoundError,
    in_context,
)
from zarr_manifest.format import (
    Body,
    Findings,
    Limits,
    collect,
    decode_body,
    format_canonical,
    parse_declaration,
    parse_node,
    strict,
)
from zarr_manifest.hierarchy.declared_array import DeclaredArray
from zarr_manifest.hierarchy.following_manifests import MOST_CHUNKS, FollowingManifests
from zarr_manifest.hierarchy.stored_documents import (
    Partition,
    open_document,
    partitions_to_read,
    past_stale_caches,
    with_checksum,
)
from zarr_manifest.locations import Base, Location, StoreLocation, resolver
from zarr_manifest.manifest import References, interpret_manifest
from zarr_manifest.sources import (
    FileBody,
    SharedCalls,
    SourceRange,
    Sources,
    in_decoding_thread,
    in_order,
)

_WHOLE_OBJECT = SourceRange(0, None, False)

# Memory for the cached documents of an array, estimated from their columns and paths.
_MOST_MEMORY = 256 * 1024 * 1024

# Documents of fewer bytes are decoded in less time than a thread takes to be woken.
_LEAST_BYTES = 2**14

# Estimated memory of a document apart from its columns and paths.
_OVERHEAD = 1000

# Number of partitions loaded at the same time when all are needed.
CONCURRENCY = 8


class LoadedManifest(Struct):
    """A manifest, or the part of it in one document, and the locations of its paths."""

    manifest: References
    locations: tuple[Location, ...]
    authorised: bool = False
    refusal: ManifestError | None = None

    def statistics(self) -> list[tuple[Location, int, int]]:
        """Return the location of each object, and the number and the known bytes of references."""
        found = zip(self.locations, self.manifest.statistics(), strict=True)
        return [(location, count, nbytes) for location, (_, count, nbytes) in found]


class _Missing(Struct):
    """Documents that are missing, and whether it is known why."""

    is_checked: bool = False


class ManifestDocuments:
    """The manifest of one array, document by document.

    Parameters
    ----------
    array : DeclaredArray
        The array.
    sources : Sources
        Where the documents come from.
    store : Store
        The hierarchy's own store, which may tell which documents exist.
    limits : Limits
        Larger documents are rejected.
    ignore_conditions : bool
        Whether sources are read whatever state they are in.
    following : FollowingManifests, optional
        Loads the manifests of other arrays with this one.
    """

    def __init__(
        self,
        array: DeclaredArray,
        sources: Sources,
        store: Store,
        limits: Limits,
        *,
        ignore_conditions: bool = False,
        following: FollowingManifests | None = None,
    ) -> None:
        self.array = array
        self._sources = sources
        self._store = store
        self._limits = limits
        self._ignore_conditions = ignore_conditions
        self._cache: DocumentCache[Partition, LoadedManifest]
        self._cache = DocumentCache(_MOST_MEMORY, _memory)  # its types would take as long again
        # Whether it is known that documents were not missing because the manifest was replaced;
        # another one for each that was missing, so that a check is only of those before it.
        self._missing = _Missing(is_checked=True)
        is_document = isinstance(array.configuration.manifest, str) and array.partitions is None
        self._following = following if is_document else None
        if self._following is not None:
            self._following.add(self)

    @property
    def loaded(self) -> LoadedManifest | None:
        """A manifest that is one document, if it is loaded; authorised or not."""
        return self._cache.find(None)

    async def load(self) -> None:
        """Load a manifest that is one document.

        Raises
        ------
        ManifestError
            It cannot be read, or is invalid.
        """
        await self._load(None)

    def is_at_hand(self, index: tuple[int, ...]) -> bool:
        """Whether it takes no request, and little time, to know the document of a chunk."""
        array = self.array
        if not isinstance(array.configuration.manifest, str) or self.known(index) is not None:
            return True
        if array.partitions is not None or math.prod(array.chunk_grid.counts) > MOST_CHUNKS:
            return False
        return self._sources.hierarchy_is_on_disk and isinstance(
            array.document(None), StoreLocation
        )

    def known(self, index: tuple[int, ...]) -> LoadedManifest | None:
        """Return the document that is responsible for a chunk if it is loaded, and authorised."""
        partitions = self.array.partitions
        found = self._cache.find(None if partitions is None else partitions.owner(index))
        if found is None or not found.authorised:
            return None
        return found if self._missing.is_checked or found is not self._nothing else None

    async def owner(self, index: tuple[int, ...]) -> LoadedManifest:
        """Return the document that is responsible for a chunk.

        Raises
        ------
        ManifestError
            If it cannot be read, or is invalid.
        """
        if self._following is not None and self.loaded is None:
            await self._following.load(self)
        partitions = self.array.partitions
        found = await self._load(None if partitions is None else partitions.owner(index))
        if found is self._nothing:
            await self.check_missing()
        return found

    async def every(self) -> AsyncIterator[LoadedManifest]:
        """Yield all documents in C order of the blocks, holding only a few at a time.

        If some are missing because the manifest was replaced, the end raises. A document that
        is declared but does not exist is an error.
        """
        partitions = await self.partitions()
        calls = (functools.partial(self._load, each, check_later=True) for each in partitions)
        async for found in in_order(calls, CONCURRENCY):
            yield found
        await self.check_missing()

    async def partitions(self) -> Iterable[Partition]:
        """Return the partitions to be asked for to know all of the manifest, in C order.

        Raises
        ------
        LimitExceededError
            There are too many, and their documents cannot be listed.
        """
        wanted = await partitions_to_read(self.array, self._store, self._limits)
        if wanted.without_document:
            self._missing = _Missing()
        return wanted.partitions

    async def partition(self, partition: Partition) -> LoadedManifest:
        """Return the document of a partition, which is not kept.

        One that is missing has no entries; after the last, call :meth:`check_missing`.

        Raises
        ------
        ManifestError
            It cannot be read, or is not valid.
        """
        return await self._read(partition, check_later=True)

    async def check_missing(self) -> None:
        """Check that no partition had no document because the manifest was replaced.

        Raises
        ------
        ManifestError
            ``manifest_not_found`` if it was; or the array's metadata cannot be read.
        """
        missing = self._missing
        if missing.is_checked:
            return
        with in_context(array=self.array.path):
            await self._require_still_declared()
        missing.is_checked = True

    @functools.cached_property
    def _nothing(self) -> LoadedManifest:
        """The manifest of partitions that have no document."""
        grid = self.array.grid(None)
        return LoadedManifest(strict(interpret_manifest(b"{}", grid, self._limits)), ())

    async def _load(self, partition: Partition, *, check_later: bool = False) -> LoadedManifest:
        read = functools.partial(self._read, partition, check_later=check_later)
        return await self._cache.get(partition, read)

    async def _read(self, partition: Partition, *, check_later: bool) -> LoadedManifest:
        """Load a document; if there is none, check why, or leave that to :meth:`check_missing`."""
        where: str | None = None
        try:
            if self.array.certainly_holds_nothing(partition):
                return self._nothing
            document = self.array.document(partition)
            where = None if isinstance(document, bytes) else str(document)
            loaded = await past_stale_caches(functools.partial(self._fetched, partition))
            if loaded is None and check_later:
                self._missing = _Missing()
            elif loaded is None:
                await self._require_still_declared()
            return loaded or self._nothing
        except ManifestError as error:
            raise error.in_context(array=self.array.path, location=where) from error.__cause__

    async def _fetched(self, partition: Partition, past_caches: bool) -> LoadedManifest | None:
        """Fetch a document, and interpret it; None if there is none."""
        fetch = Sources.fetch_lazily
        body = await open_document(
            self.array, partition, self._sources, self._limits, fetch, past_caches
        )
        if body is None:
            return None
        try:
            if len(body) < _LEAST_BYTES:
                return self._interpret(partition, body)
            # A large document takes a while. In few threads, since each keeps memory for one.
            return await in_decoding_thread(self._interpret, partition, body)
        finally:
            if isinstance(body, FileBody):
                body.close()

    def _interpret(
        self, partition: Partition, body: bytes | memoryview | FileBody
    ) -> LoadedManifest:
        def interpret(document: Body) -> LoadedManifest | None:
            return strict(interpret_document_of(self.array, partition, document, self._limits))

        loaded = with_checksum(body, self.array.checksum_of(partition), interpret)
        assert loaded is not None  # otherwise there was a problem
        if self._ignore_conditions:
            loaded.manifest = loaded.manifest.without_conditions()
        return loaded

    async def _require_still_declared(self) -> None:
        """Raise if a partition has no document because the manifest was replaced.

        Documents that are not by digest may be removed once they are replaced. Without this
        check, a reader that opened the array before would see missing chunks.
        """
        key = f"{self.array.path}/zarr.json".lstrip("/")
        try:
            body = await self._sources.fetch(StoreLocation(key), _WHOLE_OBJECT)
        except SourceNotFoundError as error:
            raise ManifestNotFoundError(
                f"a partition has no document, and the array no {key!r} that still declares "
                "the manifest",
                remedy="If the array was removed, open the hierarchy again; if only consolidated "
                f"metadata describes it, restore its {'zarr.json'!r}.",
            ) from error
        node = parse_node(bytes(body)) or {}
        if parse_declaration(node) != self.array.configuration:
            raise ManifestNotFoundError(
                "the manifest of the array has been replaced since the array was opened",
                remedy="Open it again.",
            )

    def authorise(self, loaded: LoadedManifest) -> LoadedManifest:
        """Reject a document that refers to locations that are not authorised."""
        if not loaded.authorised and loaded.refusal is None:
            try:
                self._sources.check(loaded.locations)
                loaded.authorised = True
            except ManifestError as error:
                # Kept, because it is the same for every chunk.
                loaded.refusal = error.in_context(array=self.array.path)
        if loaded.refusal is not None:
            raise loaded.refusal.in_context()
        return loaded


class DocumentCache[K: Hashable, V]:
    """A least-recently-used cache of values by key. Failures are not cached.

    A value is made once for all who ask for it at the same time; see :class:`SharedCalls`.

    Parameters
    ----------
    capacity : int
        Largest total size of all values; the latest value is kept whatever its size.
    size_of : callable
        Returns the size of a value.
    """

    def __init__(self, capacity: int, size_of: Callable[[V], int]) -> None:
        self._capacity = capacity
        self._size_of = size_of
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._calls: SharedCalls[K, V] = SharedCalls()

    def find(self, key: K) -> V | None:
        """Return a cached value; None if absent."""
        with self._lock:
            kept = self._values.get(key)
            if kept is None:
                return None
            self._values.move_to_end(key)
            return kept[0]

    async def get(self, key: K, make: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return a value; if it is not cached, make it, or wait for another reader to do so."""
        kept = self.find(key)
        if kept is not None:
            return kept

        async def make_and_keep() -> V:
            kept = self.find(key)  # made since
            return self._keep(key, await make()) if kept is None else kept

        return await self._calls.get(key, make_and_keep)

    def _keep(self, key: K, value: V) -> V:
        size = self._size_of(value)
        with self._lock:
            earlier = self._values.pop(key, None)
            self._values[key] = value, size
            self._size += size - (0 if earlier is None else earlier[1])
            while self._size > self._capacity and len(self._values) > 1:
                _, (_, forgotten) = self._values.popitem(last=False)
                self._size -= forgotten
        return value


def _memory(found: LoadedManifest) -> int:
    # Paths are held twice: as written, and as locations.
    return _OVERHEAD + 2 * found.manifest.memory


def interpret_document_of(
    array: DeclaredArray,
    partition: Partition,
    body: Body,
    limits: Limits,
    *,
    validating: bool = False,
) -> Findings[LoadedManifest | None]:
    """Yield the problems of a stored document, and return what is valid in it."""
    try:
        document = decode_body(array.configuration.codecs, body, limits.manifest_bytes)
    except ManifestError as error:
        yield error
        return None
    manifest = yield from interpret_manifest(
        document, array.grid(partition), limits, resolve=array.base.resolve if validating else None
    )
    resolving = interpret_paths(manifest, array.base)
    if validating:
        locations, _ = collect(resolving)  # the problems have been reported
    else:
        locations = yield from resolving
    return LoadedManifest(manifest, locations)


def interpret_paths(manifest: References, base: Base) -> Findings[tuple[Location, ...]]:
    """Yield the problems of a manifest's paths, and return the locations that they name."""
    locations: list[Location] = []
    resolve = resolver(base)
    for number, path in enumerate(manifest.paths):
        try:
            locations.append(resolve(path))
        except InvalidPathError as error:
            for index in manifest.indices_with_path(number):
                yield error.in_context(chunk=format_canonical(index))
    return tuple(locations)
