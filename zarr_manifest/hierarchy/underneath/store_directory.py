"""The directory in which a zarr store keeps its values as files, whatever wraps it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, structs
from zarr.storage import FsspecStore, LocalStore, ObjectStore, WrapperStore

from zarr_manifest.hierarchy.zarr_internals import wrapped_store

if TYPE_CHECKING:
    from zarr.abc.store import Store

__all__ = ["StoreDirectory", "directory_of", "is_fsspec_on_web", "local_store"]


class StoreDirectory(Struct, frozen=True):
    """Where a store keeps its values as files.

    Attributes
    ----------
    path : str
        The directory.
    is_plain : bool
        Whether the file under a key is the value: a subclass or a wrapper may transform it.
    """

    path: str
    is_plain: bool


def local_store(store: Store) -> LocalStore | None:
    """Return zarr's store of a local directory, looking through wrappers; None for others."""
    while isinstance(store, WrapperStore):
        store = wrapped_store(cast("Store", store))
    return store if isinstance(store, LocalStore) else None


def directory_of(store: Store) -> StoreDirectory | None:
    """Return the directory that a store keeps its values in; None for other stores.

    Looks through zarr's wrappers, and through file systems of fsspec on others. Wrappers of
    other kinds, which hide what they wrap, are taken for other stores.

    Examples
    --------
    >>> directory_of(LocalStore("/data/h.zarr"))
    StoreDirectory(path='/data/h.zarr', is_plain=True)
    """
    if isinstance(store, LocalStore):
        return StoreDirectory(str(store.root.absolute()), type(store) is LocalStore)
    if isinstance(store, WrapperStore):
        found = directory_of(wrapped_store(cast("Store", store)))
        return None if found is None else structs.replace(found, is_plain=False)
    if isinstance(store, ObjectStore):
        from obstore.store import LocalStore as ObstoreLocalStore

        inner: Any = cast("Any", store).store
        if not isinstance(inner, ObstoreLocalStore):
            return None
        return StoreDirectory(str(inner.prefix or "/"), type(cast("Any", store)) is ObjectStore)
    if isinstance(store, FsspecStore):
        found = _directory_in(store.fs, store.path)
        is_plain = type(store) is FsspecStore
        return (
            None if found is None else structs.replace(found, is_plain=found.is_plain and is_plain)
        )
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
    is_plain = type(file_system) in (below, wrapper)
    return None if found is None else structs.replace(found, is_plain=found.is_plain and is_plain)


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
