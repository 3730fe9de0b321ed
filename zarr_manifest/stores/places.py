"""The place of a store: its directory or URLs, and the keys that locations name in it.

A store has several names: links, wrapped stores, libraries for the same service. Deleting
requires all of them.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore, WrapperStore

from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.locations import (
    Cloud,
    Files,
    Location,
    StoreLocation,
    UrlLocation,
    WebServers,
    kind_of,
    local_location,
)
from zarr_manifest.sources import WebServer, urls_of
from zarr_manifest.stores.web_store import WebStore
from zarr_manifest.zarr_internals import StoreOnStore, dictionary_of, wrapped_store

if TYPE_CHECKING:
    from zarr.abc.store import Store


def same_place(one: Store, other: Store) -> bool:
    """Whether the keys of two stores name the same objects.

    Buckets of the same name are assumed to be the same, whatever their server.

    Examples
    --------
    >>> from zarr.storage import LocalStore
    >>> same_place(LocalStore("/data/h"), LocalStore("/data/x/../h", read_only=True))
    True
    >>> same_place(MemoryStore(), MemoryStore())
    False
    """
    one, other = _unwrapped(one), _unwrapped(other)
    places = [_place(one), _place(other)]
    if places == [None, None]:
        return _readable(one) == _readable(other)
    return places[0] == places[1]


def _place(store: Store) -> object | None:
    """Return what identifies the place of a store; None if only the store knows."""
    if isinstance(store, MemoryStore):
        return ("dict", id(dictionary_of(store)), getattr(store, "path", ""))
    root = _root(store)
    if root is not None:
        return ("directory", os.path.realpath(root))
    urls = _urls(store)
    if urls:
        return urls[0]
    return ("object", id(cast(Any, store).store)) if isinstance(store, ObjectStore) else None


def _unwrapped(store: Store) -> Store:
    while isinstance(store, WrapperStore | StoreOnStore):
        store = wrapped_store(cast(Store, store))
    return store


def _readable(store: Store) -> Store:
    """Return a store for reading, because some stores compare that, too."""
    try:
        return store.with_read_only(True)
    except NotImplementedError:
        return store


def _root(store: Store) -> str | None:
    found = directory_of(store)
    return None if found is None else found.path


def _urls(store: Store) -> list[UrlLocation]:
    """Return the URLs of a store's root; of fsspec's memory, too, which references cannot name."""
    return store_urls(store) or _fsspec_urls(store)


def _fsspec_urls(store: Store) -> list[UrlLocation]:
    if not isinstance(store, FsspecStore):
        return []
    system: Any = store.fs
    protocol = system.protocol if isinstance(system.protocol, str) else system.protocol[0]
    path = str(store.path)
    if protocol == "memory":
        return [UrlLocation(protocol, "", path.strip("/"))]
    match kind_of(protocol, fsspec=True):
        case Files():
            return [UrlLocation("file", "", path.strip("/"))]
        case WebServers():
            root = WebServer(path).directory
            return [] if root is None else [root]
        case Cloud() as cloud:
            bucket, _, key = path.strip("/").partition("/")
            return [UrlLocation(cloud.schemes[0], bucket, key)]
        case _:
            return []


class OwnKeys:
    """Finds the objects of a store, however a reference names them.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    """

    def __init__(self, store: Store) -> None:
        store = _unwrapped(store)
        self._urls = _urls(store)
        root = _root(store)
        self._root = None if root is None else os.path.realpath(root)
        self._real_directory = functools.lru_cache(4096)(_real_directory)

    def of_all(self, locations: Iterable[Location]) -> set[str]:
        """Return the keys of the objects that locations name; both of links and of their targets.

        Examples
        --------
        >>> from zarr.storage import LocalStore
        >>> from zarr_manifest.locations import UrlLocation
        >>> keys = OwnKeys(LocalStore("/data/h.zarr"))
        >>> sorted(keys.of_all([StoreLocation("a/f"), UrlLocation("file", "", "data/h.zarr/g")]))
        ['a/f', 'g']
        """
        return {key for location in locations for key in self._of(location)}

    def _of(self, location: Location) -> Iterator[str]:
        if isinstance(location, StoreLocation):
            yield location.key
            if self._root is not None:
                yield from self._real(str(Path(self._root, location.key)))
            return
        path = location.path
        for root in self._urls:
            inside = f"{root.path}/" if root.path else ""
            if root.origin == location.origin and path.startswith(inside):
                yield path[len(inside) :]
        if self._root is not None and location.scheme == "file":
            yield from self._real(f"/{path}")

    def _real(self, path: str) -> Iterator[str]:
        """Yield the key of the file that a path leads to, if it is in the store's directory."""
        directory, _, name = path.rpartition("/")
        real = f"{self._real_directory(directory or '/').rstrip('/')}/{name}"
        if Path(real).is_symlink():
            real = os.path.realpath(real)
        inside = f"{cast(str, self._root).rstrip('/')}/"
        if real.startswith(inside):
            yield real[len(inside) :]


def _real_directory(path: str) -> str:
    return os.path.realpath(path)


class StoreDirectory(Struct, frozen=True):
    """Where a store keeps its values as files.

    Attributes
    ----------
    path : str
        The directory.
    is_untransformed : bool
        Whether the file under a key is the value: a subclass or a wrapper may transform it.
    """

    path: str
    is_untransformed: bool

    def through(self, is_plain: bool) -> StoreDirectory:
        """Return the same directory, seen through something that may transform its files."""
        return StoreDirectory(self.path, self.is_untransformed and is_plain)


def local_store(store: Store) -> LocalStore | None:
    """Return zarr's store of a local directory, through any wrappers; None for others."""
    while isinstance(store, WrapperStore):
        store = wrapped_store(cast("Store", store))
    return store if isinstance(store, LocalStore) else None


def directory_of(store: Store) -> StoreDirectory | None:
    """Return the directory that a store keeps its values in; None for other stores.

    Sees through zarr's wrappers and nested file systems of fsspec. Wrappers of
    other kinds, which hide what they wrap, are taken for other stores.

    Examples
    --------
    >>> directory_of(LocalStore("/data/h.zarr"))
    StoreDirectory(path='/data/h.zarr', is_untransformed=True)
    """
    if isinstance(store, LocalStore):
        return StoreDirectory(str(store.root.absolute()), type(store) is LocalStore)
    if isinstance(store, WrapperStore):
        found = directory_of(wrapped_store(cast("Store", store)))
        return found and found.through(False)
    if isinstance(store, ObjectStore):
        from obstore.store import LocalStore as ObstoreLocalStore

        inner: Any = cast("Any", store).store
        if not isinstance(inner, ObstoreLocalStore):
            return None
        return StoreDirectory(str(inner.prefix or "/"), type(cast("Any", store)) is ObjectStore)
    if isinstance(store, FsspecStore):
        found = _directory_in(store.fs, store.path)
        return found and found.through(type(store) is FsspecStore)
    return None


def _directory_in(file_system: Any, path: str) -> StoreDirectory | None:
    """Return the directory for a path in a file system of fsspec."""
    local = _kind("fsspec.implementations.local", "LocalFileSystem")
    wrapper = _kind("fsspec.implementations.asyn_wrapper", "AsyncFileSystemWrapper")
    below = _kind("fsspec.implementations.dirfs", "DirFileSystem")
    inner: Any = None
    if isinstance(file_system, local) or _is_obstore_on_disk(file_system):
        directory = Path(path.removeprefix("file://")).expanduser().absolute()
        return StoreDirectory(str(directory), type(file_system) is local)
    if isinstance(file_system, below):
        inner, path = file_system.fs, f"{file_system.path}/{path.lstrip('/')}"
    elif isinstance(file_system, wrapper):
        inner = file_system.sync_fs
    elif isinstance(file_system, _kind("fsspec.implementations.cached", "CachingFileSystem")):
        inner = file_system.fs
    found = None if inner is None else _directory_in(inner, path)
    return found and found.through(type(file_system) in (below, wrapper))


def _kind(module: str, name: str) -> Any:
    """Return a class of an optional library; nothing is of it if its module is not loaded."""
    return getattr(sys.modules.get(module), name, ())


def _is_obstore_on_disk(file_system: Any) -> bool:
    is_obstore = isinstance(file_system, _kind("obstore.fsspec", "FsspecStore"))
    return is_obstore and file_system.protocol == "file"


def is_fsspec_on_web(store: Store) -> bool:
    """Whether a store's keys become parts of URLs, whose escapes fsspec's HTTP client decodes."""
    if isinstance(store, WrapperStore):
        return is_fsspec_on_web(wrapped_store(cast("Store", store)))
    web = _kind("fsspec.implementations.http", "HTTPFileSystem")
    file_system: Any = store.fs if isinstance(store, FsspecStore) else None
    while file_system is not None and not isinstance(file_system, web):
        file_system = getattr(file_system, "sync_fs", None) or getattr(file_system, "fs", None)
    return file_system is not None


def object_url(roots: Sequence[UrlLocation], key: str) -> UrlLocation:
    """Return the URL of an object in a hierarchy's own store.

    Parameters
    ----------
    roots : sequence of UrlLocation
        From :func:`store_urls`.
    key : str
        Its key.

    Raises
    ------
    NotConvertibleError
        The store has no URL.
    """
    if not roots:
        raise NotConvertibleError(
            "it refers to objects in the hierarchy's own store, which has no URL",
            remedy="Open the hierarchy from files or from an object store.",
        )
    root = roots[0]
    path = f"{root.path}/{key}" if root.path else key
    return UrlLocation(root.scheme, root.authority, path, root.query)


def hierarchy_url(store: Store, schemes: Container[str] = ()) -> UrlLocation | None:
    """Return the URL of a hierarchy's root, which its references resolve against.

    None if it has no URL, as in memory or in a zip file, or if only its store knows it.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    schemes : container of str
        Schemes that the reader authorises: of several names, such as ``gs`` and ``gcs``, the
        reader's counts.

    Examples
    --------
    >>> print(hierarchy_url(LocalStore("/data/h.zarr")), hierarchy_url(MemoryStore()))
    file:///data/h.zarr None
    """
    urls = [url for url in _urls(_unwrapped(store)) if kind_of(url.scheme) is not None]
    first = urls[0] if urls else None
    return next((url for url in urls if url.scheme in schemes), first)


def store_urls(store: Store) -> list[UrlLocation]:
    """Return the URLs of the directory that a store's keys are relative to.

    See :func:`urls_of`.

    Examples
    --------
    >>> print(store_urls(LocalStore("/data/h.zarr"))[0])
    file:///data/h.zarr
    """
    if isinstance(store, LocalStore):
        return _directories(str(store.root))
    if isinstance(store, WebStore):
        root = store.server.directory
        return [] if root is None else [root]
    if not isinstance(store, ObjectStore):
        return []
    from obstore.store import LocalStore as ObstoreLocalStore

    inner: Any = cast(Any, store).store
    if isinstance(inner, ObstoreLocalStore):
        return _directories(str(inner.prefix)) if inner.prefix is not None else []
    return urls_of(inner)


def _directories(path: str) -> list[UrlLocation]:
    """Return a directory by its given path, and by its real path."""
    names = dict.fromkeys([os.path.abspath(path), os.path.realpath(path)])  # noqa: PTH100
    return [found for name in names if (found := local_location(Path(name))) is not None]
