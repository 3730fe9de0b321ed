"""All the private names of zarr that this package depends on.

Kept in one place, so that a single test notices when a release of zarr moves them.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import zarr
import zarr.core.chunk_grids as chunk_grids
import zarr.core.sync as synchronous
import zarr.storage._common as store_opening
from msgspec import Struct
from zarr.abc.codec import CodecPipeline
from zarr.abc.store import Store
from zarr.core.indexing import get_indexer
from zarr.core.sync import sync as sync
from zarr.storage import MemoryStore, StorePath

if TYPE_CHECKING:
    from zarr.abc.buffer import Buffer, BufferPrototype
    from zarr.abc.store import ByteRequest


def opening_module() -> ModuleType:
    """Return the module whose ``make_store`` turns paths and URLs into stores.

    Raises
    ------
    RuntimeError
        If this release of zarr opens stores in a different way.
    """
    make_store = getattr(store_opening, "make_store", None)
    make_store_path = getattr(store_opening, "make_store_path", None)
    opens_through_it = (
        inspect.iscoroutinefunction(make_store)
        and inspect.isfunction(make_store_path)
        and "make_store" in make_store_path.__code__.co_names
        and list(inspect.signature(make_store).parameters)
        == ["store_like", "mode", "storage_options"]
    )
    if not opens_through_it:
        raise _unsupported("stores")
    return store_opening


def array_class() -> type[Any]:
    """Return the class that every array is made of, however it was opened.

    Raises
    ------
    RuntimeError
        If this release of zarr makes arrays in a different way.
    """
    initialize = vars(zarr.AsyncArray).get("__init__")
    if not inspect.isfunction(initialize) or list(inspect.signature(initialize).parameters) != [
        "self",
        "metadata",
        "store_path",
        "config",
    ]:
        raise _unsupported("arrays")
    return zarr.AsyncArray


def _unsupported(what: str) -> RuntimeError:
    return RuntimeError(
        f"zarr {zarr.__version__} opens {what} in a way that zarr_manifest.enable() does not "
        "support. Pass zarr_manifest.ManifestStore(location) to zarr.open instead."
    )


def is_store(location: object) -> bool:
    """Whether zarr takes this for a store, or for a place in one, without making one of it."""
    return isinstance(location, Store | StorePath)


def ignored_transformers(metadata: object) -> list[str]:
    """Return the names of the storage transformers that zarr would ignore but must not.

    Parameters
    ----------
    metadata : dict or metadata of an array
        What zarr makes an array of.
    """
    member = "storage_transformers"
    stated: Any = (
        cast("dict[str, Any]", metadata).get(member)
        if isinstance(metadata, dict)
        else getattr(metadata, member, None)
    )
    if not isinstance(stated, list | tuple):
        return []
    names: list[str] = []
    for each in cast("list[Any]", stated):
        transformer = cast("dict[str, Any]", each) if isinstance(each, dict) else {"name": each}
        if transformer.get("must_understand") is not False:
            names.append(str(transformer.get("name")))
    return names


def io_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop in which zarr's synchronous functions read; None if there is none."""
    return synchronous.loop[0]


async def ensure_open(store: Store) -> None:
    """Open a store unless it is open already: some kinds cannot be listed before that."""
    if not store._is_open:  # pyright: ignore[reportPrivateUsage]
        with _opened_elsewhere(store):
            await store._ensure_open()  # pyright: ignore[reportPrivateUsage]


def ensure_open_sync(store: Store) -> None:
    """Open a directory store unless it is open already; others open when they are read."""
    open_sync = getattr(store, "_ensure_open_sync", None)
    if open_sync is not None and not store._is_open:  # pyright: ignore[reportPrivateUsage]
        with _opened_elsewhere(store):
            open_sync()


@contextmanager
def _opened_elsewhere(store: Store) -> Generator[None]:
    """Let another thread open a store meanwhile, which zarr takes for an error."""
    try:
        yield
    except ValueError:
        if not store._is_open:  # pyright: ignore[reportPrivateUsage]
            raise


def supports_synchronous_io(store: Store) -> bool:
    """Whether zarr's synchronous codec pipeline may be used with a store."""
    names = ("get_sync", "set_sync", "delete_sync")
    return all(hasattr(store, name) for name in names) and bool(
        getattr(store, "_supports_sync_io", True)
    )


# Called with the metadata and the place of each array that zarr is about to make.
array_checks: list[Callable[[Any, StorePath], None]] = []


def prepare_arrays(wrap: Callable[[CodecPipeline], CodecPipeline]) -> None:
    """Prepare the arrays that zarr makes from now on of stores with a method ``_of_array``.

    That is given an array's path and metadata, and returns the array's own store. The array's
    pipeline, which zarr's configuration names, is wrapped unless `zarr_manifest.bulk` is false
    there, always with the same function. Prepares nothing if this release of zarr makes arrays in
    a different way. From now on, `array_checks` are called with all arrays.
    """
    global _prepares_arrays
    if _prepares_arrays:
        return
    try:
        initialize: Any = vars(array_class())["__init__"]
    except RuntimeError:
        return
    _prepares_arrays = True
    has_both = {"store_path", "codec_pipeline"} <= {*inspect.unwrap(initialize).__code__.co_consts}

    @functools.wraps(initialize)
    def initialize_prepared(
        array: Any, metadata: Any, store_path: StorePath, *more: Any, **options: Any
    ) -> None:
        for check in array_checks:
            check(metadata, store_path)
        initialize(array, metadata, store_path, *more, **options)
        store_of = getattr(store_path.store, "_of_array", None)
        if store_of is None or not has_both:
            return
        # zarr has no setting by which a store could say how its arrays are read: without this,
        # `zarr.open` and `xr.open_zarr` of a ManifestStore ask for each chunk alone.
        own: Any = object.__new__(StorePath)  # normalising the path again takes ten calls
        own.store, own.path = store_of(store_path.path, array.metadata), store_path.path
        object.__setattr__(array, "store_path", own)
        if zarr.config.get("zarr_manifest.bulk", True):
            object.__setattr__(array, "codec_pipeline", wrap(array.codec_pipeline))

    cast(Any, zarr.AsyncArray).__init__ = initialize_prepared


_prepares_arrays = False


class CodecsOfPipeline(Struct, frozen=True):
    """The codecs of an array, in the order of encoding."""

    array_array: tuple[Any, ...]
    array_bytes: Any
    bytes_bytes: tuple[Any, ...]


def codecs_of(pipeline: CodecPipeline) -> CodecsOfPipeline | None:
    """Return the codecs of zarr's own pipelines; None for others."""
    names = ("array_array_codecs", "array_bytes_codec", "bytes_bytes_codecs")
    if not all(hasattr(pipeline, name) for name in names):
        return None
    known: Any = pipeline
    return CodecsOfPipeline(
        tuple(known.array_array_codecs), known.array_bytes_codec, tuple(known.bytes_bytes_codecs)
    )


def decodes_synchronously(codec: Any) -> bool:
    """Whether :func:`decode_synchronously` takes a codec."""
    return hasattr(codec, "_decode_sync") and bool(getattr(codec, "_sync_capable", True))


def decode_synchronously(codec: Any, body: Any, spec: Any) -> Any:
    """Decode a buffer or an array with a codec of zarr, without an event loop."""
    return codec._decode_sync(body, spec)


class InnerSelection(Struct, frozen=True):
    """What a selection of a shard selects of its inner chunks.

    Attributes
    ----------
    parts : sequence of (tuple of int, tuple, tuple)
        The grid index of each inner chunk, which of its elements are selected, and where they go.
    shape : tuple of int
        Of what they go into.
    result_shape : tuple of int
        In which that is then returned.
    """

    parts: Sequence[tuple[tuple[int, ...], Any, Any]]
    shape: tuple[int, ...]
    result_shape: tuple[int, ...]


def select_inner_chunks(
    selection: Any, shape: tuple[int, ...], chunk_shape: tuple[int, ...]
) -> InnerSelection:
    """Return what a selection of a shard selects of its inner chunks, as zarr does.

    Parameters
    ----------
    selection : tuple
        As a codec pipeline is asked for it.
    shape, chunk_shape : tuple of int
        Of the shard and of an inner chunk.
    """
    # Since 3.2 a grid knows the shape of the array.
    sizes: Any = getattr(getattr(chunk_grids, "ChunkGrid", None), "from_sizes", None)
    grid = (
        cast(Any, chunk_grids).RegularChunkGrid(chunk_shape=chunk_shape)
        if sizes is None
        else sizes(shape, chunk_shape)
    )
    indexer: Any = get_indexer(selection, shape, grid)
    parts = [(part[0], part[1], part[2]) for part in indexer]
    return InnerSelection(parts, indexer.shape, getattr(indexer, "sel_shape", indexer.shape))


def dictionary_of(store: MemoryStore) -> object:
    """Return the dictionary in which a store keeps its values, which others may share."""
    return store._store_dict  # pyright: ignore[reportPrivateUsage]


def wrapped_store(wrapper: Store) -> Store:
    """Return the store that zarr's WrapperStore, or a :class:`StoreOnStore`, is on top of."""
    inner: Store = cast(Any, wrapper)._store
    return inner


async def values_one_by_one(
    store: Store,
    prototype: BufferPrototype,
    key_ranges: Iterable[tuple[str, ByteRequest | None]],
) -> list[Buffer | None]:
    """Return the values of many keys, in order, from a store that has no call for many."""
    return list(
        await asyncio.gather(*(store.get(key, prototype, part) for key, part in key_ranges))
    )


class StoreOnStore(Store):
    """A store on top of another, which is opened and closed: it has no state of its own.

    zarr's WrapperStore would also pass on reads that a subclass does not override.
    """

    _store: Store

    def __eq__(self, value: object) -> bool:
        if not isinstance(value, StoreOnStore):
            return False
        return type(self) is type(value) and self._store == value._store

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """Return the values of many keys, in order."""
        return await values_one_by_one(self, prototype, key_ranges)

    def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        return self.list_prefix("")

    # A variable of Store, overridden as in zarr's WrapperStore.
    @property
    def _is_open(self) -> bool:
        return self._store._is_open

    @_is_open.setter
    def _is_open(self, value: bool) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ignore the value that ``Store.__init__`` sets."""

    @property
    def read_only(self) -> bool:
        """Whether the store is read-only."""
        return self._store.read_only

    async def _open(self) -> None:
        await self._store._open()

    async def _ensure_open(self) -> None:
        await self._store._ensure_open()

    def close(self) -> None:
        """Close the store that it is on top of."""
        self._store.close()

    @property
    def supports_writes(self) -> bool:
        """Whether native arrays and metadata can be written."""
        return self._store.supports_writes

    @property
    def supports_deletes(self) -> bool:
        """Whether native chunks and nodes can be deleted."""
        return self._store.supports_deletes

    @property
    def supports_listing(self) -> bool:
        """Whether the store that it is on top of can list its keys."""
        return self._store.supports_listing

    @property
    def supports_consolidated_metadata(self) -> bool:
        """Whether consolidated metadata can be written."""
        return self._store.supports_consolidated_metadata

    @property
    def _supports_sync_io(self) -> bool:
        return supports_synchronous_io(self._store)
