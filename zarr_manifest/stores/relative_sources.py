"""Relative sources: objects in the hierarchy's own store.

The only source reader that goes through zarr, and so works with any store that zarr
can open. Files in directories are read directly, and obstore stores through obstore: both can
check conditions.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from msgspec import Struct
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore, ObjectStore, ZipStore

from zarr_manifest.errors import (
    Advice,
    ManifestError,
    Replacing,
    Setting,
    ShortReadError,
    SourceAccessDeniedError,
    SourceError,
)
from zarr_manifest.format import NO_CONDITIONS, Conditions
from zarr_manifest.locations import AllowList, redact, without_secrets
from zarr_manifest.showing import counted
from zarr_manifest.sources import (
    DEFAULT_MAX_GAP,
    GIVE_CREDENTIALS,
    Access,
    Directory,
    FileReader,
    SourceRange,
    Sources,
    local_directories,
    missing_object,
    out_of_bounds,
    reader_of,
)
from zarr_manifest.stores.byte_requests import zarr_request
from zarr_manifest.stores.places import directory_of, hierarchy_url, is_fsspec_on_web, store_urls
from zarr_manifest.stores.web_store import WebStore
from zarr_manifest.zarr_internals import StoreOnStore, wrapped_store

if TYPE_CHECKING:
    from zarr_manifest.sources import Arrival, ObjectReader

_REFUSED = ("403 Forbidden", "401 Unauthorized")


def hierarchy_reader(store: Store, directories: tuple[str, ...] = ()) -> ObjectReader:
    """Return a reader for the objects in a hierarchy's own store.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    directories : tuple of str
        Where links out of its directory, if it has one, may lead.
    """
    if isinstance(store, WebStore):
        return store.reader
    place = directory_of(store)
    if place is not None:
        directory = Directory(place.path, directories)
        return (
            FileReader(directory) if place.is_untransformed else _ZarrStoreReader(store, directory)
        )
    # The exact type only: a subclass may behave differently.
    if type(store) is ObjectStore:
        return reader_of(cast(Any, store).store)
    return _ZarrStoreReader(store, quotes=is_fsspec_on_web(store))


def hierarchy_sources(
    store: Store, allow: Mapping[str, Access], *, max_gap: int = DEFAULT_MAX_GAP
) -> Sources:
    """Return the sources of a hierarchy: objects in its own store, and below authorised prefixes.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    allow : mapping of str to Access
        The prefixes that may be read besides, and how.
    max_gap : int
        Number of bytes that may be read and discarded to save a request.
    """
    place = directory_of(store)
    return Sources(
        allow,
        hierarchy_reader(store, local_directories(allow)),
        directory=None if place is None else place.path,
        root=hierarchy_url(store, AllowList(allow).schemes),
        max_gap=max_gap,
    )


def can_list(store: Store) -> bool:
    """Whether a store can list its keys; web servers cannot."""
    return store.supports_listing and not isinstance(store, WebStore)


def store_name(store: Store) -> str:
    """Return the name of a hierarchy's store for messages: its URL, if it has one.

    Examples
    --------
    >>> store_name(LocalStore("/data/my h.zarr"))
    'file:///data/my%20h.zarr'
    """
    if isinstance(store, StoreOnStore):
        return store_name(wrapped_store(store))
    if isinstance(store, LocalStore):
        return store.root.absolute().as_uri()
    if isinstance(store, WebStore):
        return redact(store.server.url)
    roots = store_urls(store)
    return roots[0].redacted.removesuffix("/") if roots else redact(str(store))


def store_errors() -> tuple[type[Exception], ...]:
    """Return the foreign exceptions that a hierarchy's own store may raise."""
    from obstore.exceptions import BaseError

    return (BaseError,)


def store_failure(error: Exception) -> ManifestError:
    """Translate an error of a hierarchy's own store, one of :func:`store_errors`."""
    from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

    from zarr_manifest.sources import known_cause

    known = known_cause(error)
    if known is not None:
        return known
    text = without_secrets(str(error))
    # obstore uses its generic class where listing is refused.
    refused = isinstance(error, PermissionDeniedError | UnauthenticatedError)
    if refused or any(status in text for status in _REFUSED):
        return SourceAccessDeniedError(f"access was refused: {text}", remedy=GIVE_CREDENTIALS)
    return SourceError(f"the store failed: {text}")


class _ZarrStoreReader(Struct, frozen=True):
    """Reads the objects of any zarr store, and checks their length.

    Of a store that keeps them in a directory, but may transform them, the path is checked
    before each read. What the store then opens, it opens by name: a link that is made in
    between is followed.
    """

    store: Store
    directory: Directory | None = None
    quotes: bool = False

    @property
    def on_disk(self) -> bool:
        return isinstance(self.store, LocalStore | MemoryStore | ZipStore)

    def _name(self, key: str) -> str:
        """Return the store's own name of an object that may be read."""
        if self.directory is not None:
            self.directory.require(key)
        return quote(key) if self.quotes else key

    async def _get(self, key: str, request: Any) -> Buffer:
        name = self._name(key)
        with Replacing(Exception, _failure):  # of any store
            buffer = await self.store.get(name, default_buffer_prototype(), request)
        if buffer is None:
            raise _failure(FileNotFoundError(key))
        return buffer

    async def read(
        self, key: str, span: SourceRange, conditions: Conditions, arrival: Arrival | None = None
    ) -> memoryview:
        if conditions:
            raise SourceError(
                f"{type(self.store).__name__} cannot tell whether the object has changed since the "
                "manifest was written",
                remedy="Open the hierarchy through obstore, which can.",
            )
        if span.is_too_long:
            span.require_acceptable(await self._size(key))
        buffer = await self._get(key, zarr_request(span))
        view = memoryview(buffer.as_numpy_array())
        span.require_acceptable(len(view))
        if span.exact and span.stop is not None and len(view) != span.stop - span.start:
            size = len(await self._get(key, None))
            if size < span.stop:
                raise out_of_bounds(span, size)
            raise ShortReadError(
                f"requested {counted(span.stop - span.start, 'byte')}, but {len(view):,} arrived"
            )
        return view

    async def _size(self, key: str) -> int:
        name = self._name(key)
        with Replacing(Exception, _failure):
            return await self.store.getsize(name)

    async def state(self, key: str, version: str | None = None) -> Conditions:
        Conditions(version=version).require(NO_CONDITIONS)
        return Conditions(size=await self._size(key))


def refused_key(error: Exception) -> SourceError | None:
    """Return the error for a store that takes no keys but Zarr's own, such as Icechunk's; or None.

    Examples
    --------
    >>> print(refused_key(ValueError("invalid zarr key format `a/manifest.json`")).code)
    source_error
    """
    if "invalid zarr key" not in str(error):
        return None
    return SourceError(
        "the hierarchy's own store keeps nothing but the metadata and chunks of Zarr nodes",
        remedy=Advice(
            "Write the manifest into the array's metadata (",
            Setting("inline", True),
            "), and refer to sources by URL.",
        ),
    )


def _failure(error: Exception) -> ManifestError:
    """Return the error to raise instead of one of any store, whose text may have secrets."""
    if isinstance(error, ManifestError):
        return error
    refused = refused_key(error)
    if refused is not None:
        return refused
    is_too_long = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
    status = getattr(error, "status", None)  # of fsspec's HTTP client
    if is_too_long or status in (404, 410) or isinstance(error, FileNotFoundError | KeyError):
        return missing_object(detail=" in the hierarchy's own store")
    text = without_secrets(str(error))
    if status in (401, 403) or isinstance(error, PermissionError):
        return SourceAccessDeniedError(f"reading was refused: {text}")
    return SourceError(f"reading failed: {type(error).__name__}: {text}")
