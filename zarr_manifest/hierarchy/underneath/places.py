"""Where a store keeps its objects: whether two stores are the same, and which keys URLs name.

A store has several names: links, wrapped stores, libraries for the same service. Whoever
deletes something must know them all.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from zarr.abc.store import Store
from zarr.storage import FsspecStore, MemoryStore, ObjectStore, WrapperStore

from zarr_manifest.hierarchy.underneath.store_directory import directory_of
from zarr_manifest.hierarchy.underneath.urls import store_urls
from zarr_manifest.hierarchy.zarr_internals import StoreOnStore, dictionary_of, wrapped_store
from zarr_manifest.locations import Cloud, Files, Location, StoreLocation, WebServers, kind_of

__all__ = ["OwnKeys", "same_place"]


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
    """Return what identifies the place of a store; None if only the store itself can tell."""
    if isinstance(store, MemoryStore):
        return ("dict", id(dictionary_of(store)), getattr(store, "path", ""))
    root = _root(store)
    if root is not None:
        return ("directory", os.path.realpath(root))
    urls = _urls(store)
    if urls:
        return ("url", *urls[0])
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


type _Url = tuple[str, str, str]


def _urls(store: Store) -> list[_Url]:
    """Return the URLs of a store's root: scheme, authority and path."""
    urls = [(url.scheme, url.authority, url.path.strip("/")) for url in store_urls(store)]
    return urls or _fsspec_urls(store)


def _fsspec_urls(store: Store) -> list[_Url]:
    if not isinstance(store, FsspecStore):
        return []
    system: Any = store.fs
    protocol = system.protocol if isinstance(system.protocol, str) else system.protocol[0]
    path = str(store.path)
    if protocol == "memory":
        return [(protocol, "", path.strip("/"))]
    match kind_of(protocol, fsspec=True):
        case Files():
            return [("file", "", path.strip("/"))]
        case WebServers():
            parts = urlsplit(path)
            return [(parts.scheme, parts.netloc, unquote(parts.path).strip("/"))]
        case Cloud() as cloud:
            bucket, _, key = path.strip("/").partition("/")
            return [(cloud.schemes[0], bucket, key)]
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
        for scheme, authority, root in self._urls:
            inside = f"{root}/" if root else ""
            same = (scheme, authority) == (location.scheme, location.authority)
            if same and path.startswith(inside):
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
