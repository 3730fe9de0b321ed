"""ChunkManifestTransformer: serves the chunks of one manifest array.

Turns a request for part of a chunk into bytes, or into an error that says why it
could not: the manifest locates the bytes, the sources deliver them. Explicitly empty
chunks become encoded fill chunks where zarr treats missing chunks as errors.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import zarr
import zarr.api.asynchronous
from zarr.abc.store import Store
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarr_manifest.errors import (
    ChecksumMismatchError,
    LimitExceededError,
    ManifestError,
    RangeOutOfBoundsError,
    SourceError,
    in_context,
)
from zarr_manifest.format import (
    ChunkGrid,
    Configuration,
    Limits,
    format_canonical,
    limit_exceeded,
    strict,
    verify_checksum,
)
from zarr_manifest.hierarchy.declared_array import interpret_array
from zarr_manifest.hierarchy.following_manifests import FollowingManifests
from zarr_manifest.hierarchy.located_chunks import LocatedChunks
from zarr_manifest.hierarchy.manifest_documents import LoadedManifest, ManifestDocuments
from zarr_manifest.locations import Location
from zarr_manifest.manifest import Row
from zarr_manifest.showing import counted
from zarr_manifest.sources import (
    WHOLE,
    SourceRange,
    Sources,
    in_own_loop,
    slice_bounds,
    source_range,
)

type Verify = Literal["auto", "always", "never"]
type ConditionCheck = Literal["check", "ignore"]


class ChunkManifestTransformer:
    """One array that declares ``chunk-manifest-json``.

    Implements the specification's "Reading", for the chunks of one array.

    Parameters
    ----------
    array_path : str
        Path of the array in the hierarchy's store, without slashes at either end.
    metadata : dict
        Metadata of the array, without its declaration.
    configuration : Configuration
        The array's declaration.
    sources : Sources
        Where the bytes come from.
    store : Store
        The hierarchy's own store, which may tell which documents exist.
    base : str or None
        The reader's own base for relative paths, resolved against the root of
        the hierarchy; None uses the declared base.
    verify : {"auto", "always", "never"}
        When to verify checksums: on whole-chunk reads, on every read (which then
        fetches the whole chunk), or never.
    conditions : {"check", "ignore"}
        Whether sources must have the state that entries record.
    limits : Limits
        Larger manifests are rejected.
    following : FollowingManifests, optional
        Loads the manifests of other arrays with this one.

    Raises
    ------
    ManifestError
        ``invalid_configuration``, ``unsupported_transformer`` or ``invalid_path``.
    """

    def __init__(
        self,
        array_path: str,
        metadata: dict[str, Any],
        configuration: Configuration,
        sources: Sources,
        store: Store,
        *,
        base: str | None,
        verify: Verify,
        conditions: ConditionCheck,
        limits: Limits,
        following: FollowingManifests | None = None,
    ) -> None:
        self.array_path = array_path
        self.metadata = metadata
        self._sources = sources
        self._verify: Verify = verify
        schemes, root = sources.other_schemes, sources.root
        with in_context(array=array_path):
            array = strict(
                interpret_array(
                    array_path, metadata, configuration, base=base, schemes=schemes, root=root
                )
            )
        assert array is not None  # it has no problems
        #: The array with its declaration.
        self.declared = array
        #: Returns the array's own relative key for the chunk at a grid index.
        self.key_of = array.encoding.encode
        #: Returns the grid index of one of the array's own relative chunk keys, or None.
        self.index_of = array.encoding.decode
        self._limits = limits
        #: The manifest, document by document.
        self.manifest = ManifestDocuments(
            array,
            sources,
            store,
            limits,
            ignore_conditions=conditions == "ignore",
            following=following,
        )
        self._missing_is_an_error = False
        #: Number of chunks along each dimension.
        self.grid_shape = array.chunk_grid.counts
        #: The number of bytes that are read together without checking each chunk.
        self.longest = limits.chunk_bytes

    @functools.cached_property
    def _counts(self) -> npt.NDArray[np.int64]:
        return np.array(self.grid_shape)

    @functools.cached_property
    def _most(self) -> int | None:
        """What :meth:`_most_of` returns for every chunk; None if they differ."""
        array = self.declared
        return self._most_of((0,) * array.ndim) if array.chunk_grid.regular is not None else None

    def opened(self) -> None:
        """Record zarr's configuration when an array object is created.

        The array object remembers whether missing chunks are errors; if they are,
        explicitly empty chunks, which are not missing, must be given a value.
        """
        self._missing_is_an_error |= _missing_chunks_are_errors()

    # Reading -----------------------------------------------------------------

    async def get(self, index: tuple[int, ...], request: SourceRange) -> memoryview | None:
        """Return the requested bytes of a chunk, or None for fill values.

        Parameters
        ----------
        index : tuple of int
            Grid index of the chunk.
        request : SourceRange
            The requested bytes.

        Raises
        ------
        ManifestError
            If they cannot be read; names array, chunk and location. Fill values
            are never returned instead.
        """
        loaded = self.manifest.known(index)
        if loaded is None:
            loaded = self.manifest.authorise(await self.manifest.owner(index))
        try:
            row = loaded.manifest.get(index)
            if row is None:
                return None
            if row.is_empty:
                return await self._read_empty(index, request)
            return await self._read(loaded, row, index, request)
        except ManifestError as error:
            explained = self._explained(error, index)
            raise explained from explained.__cause__

    async def _read(
        self, loaded: LoadedManifest, row: Row, index: tuple[int, ...], request: SourceRange
    ) -> memoryview:
        checksum = row.checksum
        if self._verify == "never" or (
            checksum and self._verify == "auto" and not request.is_whole
        ):
            checksum = None
        wanted = request if checksum is None else WHOLE
        location: Location | None = None
        if row.data is not None:
            body = memoryview(row.data)[slice(*slice_bounds(len(row.data), wanted))]
        else:
            location = loaded.locations[row.path_number]
            most = self._most if self._most is not None else self._most_of(index)
            body = await self._fetch(row, location, wanted, most)
        if checksum is None:
            return body
        try:
            verify_checksum(checksum, body)
        except ChecksumMismatchError as error:
            raise error.in_context(location=None if location is None else str(location)) from None
        return body if wanted is request else body[slice(*slice_bounds(len(body), request))]

    async def _fetch(
        self, row: Row, location: Location, request: SourceRange, most: int
    ) -> memoryview:
        """Return part of what an entry refers to, which may run to the end of its object."""
        offset, length, conditions = row.offset, row.length, row.conditions
        size: int | None = None
        if length is None and offset and request.start < 0:  # the end of an open-ended entry
            size = await self._sources.size(location)
        span = source_range(offset, length, request, size=size, most=most)
        try:
            body = await self._sources.fetch(location, span, conditions)
        except RangeOutOfBoundsError:
            if length is not None or size is not None or request.is_whole:
                raise
            # The request may start past the end of an open-ended entry: then it selects nothing.
            size = await self._sources.size(location)
            span = source_range(offset, None, request, size=size, most=most)
            body = await self._sources.fetch(location, span, conditions)
        if not body and length is None and request.is_whole:
            raise RangeOutOfBoundsError("the object has no bytes at or after the entry's offset")
        return body

    def _most_of(self, index: tuple[int, ...]) -> int:
        """Return how many encoded bytes of a chunk are accepted."""
        return 4 * self.declared.decoded_size(index) + self._limits.chunk_bytes

    def _explained(self, error: ManifestError, index: tuple[int, ...]) -> ManifestError:
        """Return an error that says which chunk could not be read."""
        if isinstance(error, LimitExceededError):
            problem = f"for this chunk, {error.problem}"
            error = limit_exceeded(problem, self._most_of(index), "chunk_bytes")
        return self.in_chunk(error, index)

    async def _read_empty(self, index: tuple[int, ...], request: SourceRange) -> memoryview | None:
        if not (self._missing_is_an_error or _missing_chunks_are_errors()):
            return None
        encoded = await asyncio.to_thread(
            encode_fill_chunk, self.metadata, index, self.key_of(index)
        )
        return memoryview(encoded)[slice(*slice_bounds(len(encoded), request))]

    # In bulk -----------------------------------------------------------------

    def indices_of(self, keys: Sequence[str]) -> npt.NDArray[np.int64] | None:
        """Return the grid indices (chunks, dimensions) of the array's own relative chunk keys.

        None if one of them is not a chunk key, or names a chunk outside the grid.
        """
        indices = self.declared.encoding.decode_many(keys)
        return None if indices is None or not (indices < self._counts).all() else indices

    def in_same_document(
        self, index: tuple[int, ...], others: Sequence[tuple[int, ...]]
    ) -> list[tuple[int, ...]]:
        """Return those of several chunks that are in the same manifest document as one."""
        partitions = self.declared.partitions
        if partitions is None:
            return list(others)
        own, *numbers = partitions.owner_numbers(np.array([index, *others], np.int64)).tolist()
        return [other for other, number in zip(others, numbers, strict=True) if number == own]

    @property
    def verifies_parts(self) -> bool:
        """Whether the whole chunk is verified when a part of it is read."""
        return self._verify == "always"

    async def locate(
        self, indices: npt.NDArray[np.int64], *, longest: int | None = None
    ) -> LocatedChunks:
        """Say where the bytes of many chunks are, given by their grid indices.

        Entries of more bytes than `longest`, and explicitly empty chunks that must be given a
        value, are left to be read alone.

        Raises
        ------
        ManifestError
            A document cannot be loaded, or refers to locations that are not authorised.
        """
        from zarr_manifest.hierarchy.located_chunks import locate_chunks

        longest = self.longest if longest is None else longest
        located = await locate_chunks(self.declared, self.manifest, indices, longest=longest)
        if self._missing_is_an_error or _missing_chunks_are_errors():
            located.alone += located.empty
            located.empty = []
        if self._verify == "never":
            located.checksums = {}
        return located

    def in_chunk(self, error: ManifestError, index: Sequence[int]) -> ManifestError:
        """Return an error of reading a chunk, with the array and the chunk that it is about."""
        return error.in_context(array=self.array_path, chunk=format_canonical(index))

    # Listing -----------------------------------------------------------------

    async def row_of(self, index: tuple[int, ...]) -> Row | None:
        """Return the manifest's reference to a chunk, without reading the chunk."""
        return (await self.manifest.owner(index)).manifest.get(index)

    async def chunk_keys(self) -> AsyncIterator[str]:
        """Yield the array's own relative keys for all chunks in the manifest."""
        async for loaded in self.manifest.every():
            for index in loaded.manifest.indices():
                yield self.key_of(index)

    async def size(self, index: tuple[int, ...]) -> int | None:
        """Return the encoded size of a chunk in bytes; None if it is not in the manifest."""
        loaded = self.manifest.authorise(await self.manifest.owner(index))
        reference = loaded.manifest.get(index)
        return None if reference is None else await self._size_of(loaded, reference)

    async def _size_of(self, loaded: LoadedManifest, reference: Row) -> int:
        if reference.is_empty:
            return 0
        if reference.length is not None:
            return reference.length
        size = await self._sources.size(loaded.locations[reference.path_number])
        return max(0, size - reference.offset)

    async def total_size(self) -> int:
        """Return the total encoded size of all chunks, in bytes."""
        total = 0
        async for loaded in self.manifest.every():
            open_ended = self.manifest.authorise(loaded).manifest.open_ended()
            sizes = await asyncio.gather(*(self._size_of(loaded, r) for r in open_ended))
            total += loaded.manifest.stated_bytes + sum(sizes)
        return total


def _missing_chunks_are_errors() -> bool:
    return not zarr.config.get("array.read_missing_chunks", True)


# Fill chunks ------------------------------------------------------------------

# Metadata may state any size, of which nothing has to exist.
_LARGEST_FILL_CHUNK = 2**31


def encode_fill_chunk(metadata: dict[str, Any], index: tuple[int, ...], key: str) -> bytes:
    """Encode a chunk of fill values with an array's codecs.

    Parameters
    ----------
    metadata : dict
        Metadata of the array, without storage transformers.
    index : tuple of int
        Grid index of the chunk.
    key : str
        The array's own relative key for the chunk.

    Raises
    ------
    SourceError
        If the codecs do not preserve the fill value, or the chunk grid is unknown.
    """
    grid = ChunkGrid.from_metadata(metadata)
    if grid is None:
        raise SourceError("the chunk is explicitly empty, but its extent is unknown")
    region = grid.region(index)

    async def encode() -> bytes:
        contents = {"zarr.json": cpu.Buffer.from_bytes(json.dumps(metadata).encode())}
        store = MemoryStore(contents)  # type: ignore[arg-type]
        asynchronous: Any = zarr.api.asynchronous
        # zarr 3.1 ignores a configuration passed when opening an array.
        opened = await asynchronous.open_array(store=store)
        array = opened.with_config({"write_empty_chunks": True})
        size = math.prod(part.stop - part.start for part in region) * array.dtype.itemsize
        if size > _LARGEST_FILL_CHUNK:
            raise SourceError(
                "the chunk is explicitly empty, and too large to encode fill values for it: "
                f"{counted(size, 'byte')}"
            )
        fill = array.metadata.fill_value
        await array.setitem(region, fill)
        decoded = np.asarray(await array.getitem(region))
        if not np.array_equal(
            decoded, np.full_like(decoded, fill), equal_nan=decoded.dtype.kind in "fcmM"
        ):
            raise SourceError(
                "the chunk is explicitly empty, but its codecs do not preserve the fill value"
            )
        return contents[key].to_bytes()

    return in_own_loop(encode())
