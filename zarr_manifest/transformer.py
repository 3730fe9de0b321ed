"""ChunkManifestTransformer: one array's declaration, answering requests for its chunks.

Loads the manifest once, checks the locations that it refers to, and turns a
request for part of a chunk into bytes, or into an error that says why not.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import zarr
from zarr.registry import get_chunk_key_encoding_class

from zarr_manifest._byte_ranges import (
    ByteRequest,
    SourceRange,
    Whole,
    needs_size,
    slice_bounds,
    source_range,
)
from zarr_manifest._checksums import verify_checksum
from zarr_manifest._chunk_grid import ChunkGrid
from zarr_manifest._chunk_keys import encode_relative, format_canonical, parse_relative
from zarr_manifest._declarations import require_members
from zarr_manifest._document import Configuration, Limits
from zarr_manifest._fill_chunk import encode_fill_chunk
from zarr_manifest._locations import Base, Location
from zarr_manifest._steps import Call, Steps, run_async, run_sync
from zarr_manifest.errors import (
    ChecksumMismatchError,
    InvalidConfigurationError,
    ManifestError,
    ManifestNotFoundError,
    RangeOutOfBoundsError,
    SourceNotFoundError,
)
from zarr_manifest.manifest import Manifest, Reference
from zarr_manifest.sources import Sources

__all__ = ["ChunkManifestTransformer", "Verify"]

type Verify = Literal["auto", "always", "never"]

_WHOLE_OBJECT = SourceRange(0, None, False)


class _ChunkKeyEncoding:
    """An array's own relative chunk keys, in both directions."""

    def __init__(self, metadata: dict[str, Any], ndim: int) -> None:
        stated: Any = metadata["chunk_key_encoding"]
        declared: dict[str, Any] = {"name": stated} if isinstance(stated, str) else stated
        self._ndim = ndim
        self._name = str(declared.get("name"))
        stated_configuration: Any = declared.get("configuration") or {}
        if not isinstance(stated_configuration, dict):
            raise InvalidConfigurationError("the chunk_key_encoding's configuration is no object")
        configuration = cast("dict[str, Any]", stated_configuration)
        default_separator = "." if self._name == "v2" else "/"
        self._separator = str(configuration.get("separator", default_separator))
        self._foreign: Any = None
        self._foreign_keys: dict[str, tuple[int, ...]] = {}
        if self._name not in ("default", "v2"):
            try:
                self._foreign = get_chunk_key_encoding_class(self._name).from_dict(declared)
            except (KeyError, TypeError, ValueError) as error:
                # zarr takes a KeyError for a node that is not there.
                raise InvalidConfigurationError(
                    f"zarr cannot make the chunk_key_encoding {self._name!r}: {error}",
                    remedy="Register it with zarr, in workers too.",
                ) from error

    def encode(self, index: tuple[int, ...]) -> str:
        if self._foreign is None:
            return encode_relative(index, self._name, self._separator)
        return str(self._foreign.encode_chunk_key(index))

    def decode(self, key: str) -> tuple[int, ...] | None:
        if self._foreign is None:
            return parse_relative(key, self._ndim, self._name, self._separator)
        try:
            index = tuple(int(i) for i in self._foreign.decode_chunk_key(key))
        except (NotImplementedError, ValueError, IndexError, TypeError):
            # Decoding is optional for encodings that are registered with zarr.
            return self._foreign_keys.get(key)
        return index if len(index) == self._ndim and self.encode(index) == key else None

    def learn(self, grid: ChunkGrid | None) -> None:
        """Make the keys of an encoding known that cannot decode them itself."""
        if self._foreign is not None and grid is not None:
            import numpy as np

            for index in np.ndindex(*grid.counts):
                self._foreign_keys[self.encode(index)] = index


@dataclass
class _Loaded:
    """A manifest, and the locations of its paths."""

    manifest: Manifest
    locations: tuple[Location, ...]
    checked: bool = field(default=False)


class ChunkManifestTransformer:
    """One array that declares ``chunk-manifest-json``.

    Implements the specification's "Reading", for the chunks of one array.

    Parameters
    ----------
    array_path : str
        Path of the array in the hierarchy's store, without slashes at the ends.
    metadata : dict
        Metadata document of the array, without its storage transformers.
    declared : list
        The storage transformers, to be put back when zarr rewrites the document.
    configuration : Configuration
        What the declaration says.
    sources : Sources
        Where bytes come from.
    base : str or None
        The reader's own base for relative paths, resolved against the root of
        the hierarchy; None leaves it to the configuration.
    verify : {"auto", "always", "never"}
        When checksums are verified: on whole-chunk reads, on every read (which
        then fetches the whole chunk), or not at all.
    limits : Limits
        Larger manifests are refused.

    Raises
    ------
    ManifestError
        ``invalid_configuration`` or ``invalid_path``.
    """

    def __init__(
        self,
        array_path: str,
        metadata: dict[str, Any],
        declared: list[Any],
        configuration: Configuration,
        sources: Sources,
        *,
        base: str | None,
        verify: Verify,
        limits: Limits,
    ) -> None:
        self.array_path = array_path
        self.metadata = metadata
        self.declared = declared
        self._sources = sources
        self._verify = verify
        self._limits = limits
        self._grid = ChunkGrid.from_metadata(metadata)
        require_members(metadata)
        self._ndim = len(metadata["shape"])
        self._encoding = _ChunkKeyEncoding(metadata, self._ndim)
        self._encoding.learn(self._grid)
        here = Base.parse("./", directory=array_path)
        try:
            if base is None:
                self._base = Base.parse(configuration.base, directory=array_path)
            else:
                self._base = Base.parse(base)
            self._document: Location | bytes = (
                configuration.manifest
                if isinstance(configuration.manifest, bytes)
                else here.resolve(configuration.manifest)
            )
        except ManifestError as error:
            raise error.in_context(array=array_path) from None
        self._missing_is_an_error = False
        self._loaded: _Loaded | None = None
        self._loading: concurrent.futures.Future[_Loaded] | None = None
        self._lock = threading.Lock()

    def index_of(self, key: str) -> tuple[int, ...] | None:
        """Return the grid index of one of the array's own relative chunk keys, or None."""
        return self._encoding.decode(key)

    def key_of(self, index: tuple[int, ...]) -> str:
        """Return the array's own relative key of the chunk at a grid index."""
        return self._encoding.encode(index)

    def opened(self) -> None:
        """Take note of zarr's configuration when an array object is made.

        zarr remembers there whether missing chunks are errors; explicitly empty
        chunks are not missing, and then need an answer.
        """
        self._missing_is_an_error |= _missing_chunks_are_errors()

    # Loading -----------------------------------------------------------------

    def _parse(self, document: bytes) -> _Loaded:
        manifest = Manifest.loads(
            document,
            ndim=self._ndim,
            grid_shape=None if self._grid is None else self._grid.counts,
            parse_key=self.index_of,
            limits=self._limits,
        )
        return _Loaded(manifest, tuple(self._base.resolve(path) for path in manifest.paths))

    def _load(self) -> Steps[_Loaded]:
        document = self._document
        where = None if isinstance(document, bytes) else str(document)
        try:
            if isinstance(document, bytes):
                text = document
            else:
                location = document
                self._sources.check([location])
                body: memoryview = yield Call(
                    lambda: self._sources.fetch(location, _WHOLE_OBJECT),
                    lambda: self._sources.fetch_sync(location, _WHOLE_OBJECT),
                )
                text = bytes(body)
            # Decoding a large document takes seconds, which other readers should not wait.
            loaded: _Loaded = yield Call(
                lambda: asyncio.to_thread(self._parse, text), lambda: self._parse(text)
            )
        except SourceNotFoundError as error:
            raise ManifestNotFoundError(
                "the array declares a manifest that does not exist",
                array=self.array_path,
                location=error.location,
                remedy="Without it the array cannot be read; restore it beside 'zarr.json'.",
            ) from error
        except ManifestError as error:
            raise error.in_context(array=self.array_path, location=where) from error.__cause__
        return loaded

    def _for_reading(self, loaded: _Loaded) -> _Loaded:
        if not loaded.checked:
            try:
                self._sources.check(loaded.locations)
            except ManifestError as error:
                raise error.in_context(array=self.array_path) from None
            loaded.checked = True
        return loaded

    async def _load_once(self) -> _Loaded:
        """Load the manifest, or wait for whoever is loading it."""
        while self._loaded is None:
            with self._lock:
                others = self._loading
                mine = concurrent.futures.Future[_Loaded]()
                if others is None:
                    self._loading = mine
            if others is None:
                return await self._load_for_all(mine)
            try:
                return await asyncio.wrap_future(others)
            except _AbandonedError:
                continue
        return self._loaded

    async def _load_for_all(self, answer: concurrent.futures.Future[_Loaded]) -> _Loaded:
        try:
            loaded = await run_async(self._load())
            self._loaded = loaded
            answer.set_result(loaded)
        except Exception as error:
            answer.set_exception(error)
            raise
        except BaseException:
            # Only this reader was cancelled: one of those that wait takes over.
            answer.set_exception(_AbandonedError())
            raise
        finally:
            self._loading = None
        return loaded

    def _load_once_sync(self) -> _Loaded:
        # Never waits for an event loop, which may be the one that it blocks.
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = run_sync(self._load())
        return self._loaded

    # Reading -----------------------------------------------------------------

    async def get(self, index: tuple[int, ...], request: ByteRequest) -> memoryview | None:
        """Return the bytes of a chunk that answer a request; None for fill values.

        Parameters
        ----------
        index : tuple of int
            Grid index of the chunk.
        request : ByteRequest
            Which of its bytes.

        Raises
        ------
        ManifestError
            With array, chunk and location. Never fill values instead.
        """
        loaded = self._for_reading(await self._load_once())
        return await run_async(self._in_context(loaded, index, request))

    def get_sync(self, index: tuple[int, ...], request: ByteRequest) -> memoryview | None:
        """Return the bytes of a chunk without an event loop; see :meth:`get`."""
        loaded = self._for_reading(self._load_once_sync())
        return run_sync(self._in_context(loaded, index, request))

    def _in_context(
        self, loaded: _Loaded, index: tuple[int, ...], request: ByteRequest
    ) -> Steps[memoryview | None]:
        try:
            return (yield from self._read(loaded, index, request))
        except ManifestError as error:
            raise error.in_context(
                array=self.array_path, chunk=format_canonical(index)
            ) from error.__cause__

    def _read(
        self, loaded: _Loaded, index: tuple[int, ...], request: ByteRequest
    ) -> Steps[memoryview | None]:
        reference = loaded.manifest.get(index)
        if reference is None:
            return None
        if reference.is_empty:
            return (yield from self._read_empty(index, request))
        verifying = reference.checksum is not None and (
            self._verify == "always" or (self._verify == "auto" and isinstance(request, Whole))
        )
        wanted: ByteRequest = Whole() if verifying else request
        location: Location | None = None
        if reference.data is not None:
            body = memoryview(reference.data)[slice(*slice_bounds(len(reference.data), wanted))]
        else:
            location = loaded.locations[reference.path_number]
            body = yield from self._fetch(reference, location, wanted)
        if verifying and reference.checksum is not None:
            try:
                verify_checksum(reference.checksum, body)
            except ChecksumMismatchError as error:
                raise error.in_context(
                    location=None if location is None else str(location)
                ) from None
            if not isinstance(request, Whole):
                body = body[slice(*slice_bounds(len(body), request))]
        return body

    def _fetch(
        self, reference: Reference, location: Location, request: ByteRequest
    ) -> Steps[memoryview]:
        offset, length, conditions = reference.offset, reference.length, reference.conditions
        ask_size = Call(
            lambda: self._sources.size(location), lambda: self._sources.size_sync(location)
        )
        size: int | None = None
        if needs_size(offset, length, request):
            size = yield ask_size
        span = source_range(offset, length, request, size=size)
        try:
            body: memoryview = yield self._fetch_call(location, span, conditions)
        except RangeOutOfBoundsError:
            if length is not None or size is not None or isinstance(request, Whole):
                raise
            # The request starts past the end of an open-ended entry: its part of it is empty.
            size = yield ask_size
            span = source_range(offset, length, request, size=size)
            body = yield self._fetch_call(location, span, conditions)
        return body

    def _fetch_call(self, location: Location, span: SourceRange, conditions: Any) -> Call:
        return Call(
            lambda: self._sources.fetch(location, span, conditions),
            lambda: self._sources.fetch_sync(location, span, conditions),
        )

    def _read_empty(self, index: tuple[int, ...], request: ByteRequest) -> Steps[memoryview | None]:
        if not (self._missing_is_an_error or _missing_chunks_are_errors()):
            return None
        key = self.key_of(index)

        def encode() -> bytes:
            return encode_fill_chunk(self.metadata, index, key)

        encoded: bytes = yield Call(lambda: asyncio.to_thread(encode), encode)
        return memoryview(encoded)[slice(*slice_bounds(len(encoded), request))]

    # Listing -----------------------------------------------------------------

    async def names(self, index: tuple[int, ...]) -> Reference | None:
        """Return what the manifest says of a chunk, without reading it."""
        return (await self._load_once()).manifest.get(index)

    def names_sync(self, index: tuple[int, ...]) -> Reference | None:
        """Return what the manifest says of a chunk, without an event loop."""
        return self._load_once_sync().manifest.get(index)

    async def chunk_keys(self) -> Iterator[str]:
        """Return the array's own relative keys of all chunks that the manifest names."""
        manifest = (await self._load_once()).manifest
        return (self.key_of(index) for index in manifest.indices())

    async def size(self, index: tuple[int, ...]) -> int | None:
        """Return the encoded size of a chunk, in bytes; None when the manifest lacks it."""
        loaded = self._for_reading(await self._load_once())
        reference = loaded.manifest.get(index)
        return None if reference is None else await self._size_of(loaded, reference)

    async def _size_of(self, loaded: _Loaded, reference: Reference) -> int:
        if reference.is_empty:
            return 0
        if reference.length is not None:
            return reference.length
        size = await self._sources.size(loaded.locations[reference.path_number])
        return max(0, size - reference.offset)

    async def total_size(self) -> int:
        """Return the sum of the encoded sizes of all chunks, in bytes."""
        loaded = self._for_reading(await self._load_once())
        open_ended = loaded.manifest.open_ended()
        sizes = await asyncio.gather(*(self._size_of(loaded, r) for r in open_ended))
        return loaded.manifest.known_bytes + sum(sizes)

    async def statistics(self) -> list[tuple[Location, int, int]]:
        """Return location, number of references and stated bytes, for every object."""
        loaded = await self._load_once()
        return [
            (location, references, nbytes)
            for location, (_, references, nbytes) in zip(
                loaded.locations, loaded.manifest.statistics(), strict=True
            )
        ]


def _missing_chunks_are_errors() -> bool:
    return not zarr.config.get("array.read_missing_chunks", True)


class _AbandonedError(Exception):
    """Whoever was loading the manifest was cancelled."""
