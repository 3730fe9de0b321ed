"""Opening the hierarchy itself, from a path, a URL or a store; and the URLs of a store.

The caller named this location, so it needs no authorisation. A URL is accessed as `allow`
says for the longest prefix that covers it, and without credentials if there is none.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, cast

from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore

from zarr_manifest.errors import InvalidPathError
from zarr_manifest.locations import (
    AllowList,
    Base,
    UrlLocation,
    local_reference,
    path_of_file_url,
    split_url,
)
from zarr_manifest.sources import Access, NamedStores, WebServer, within_host
from zarr_manifest.stores.web_store import WebStore

if TYPE_CHECKING:
    from obstore.store import ObjectStore as ObstoreStore

type StoreLike = str | Path | ObstoreStore | Store
"""A path, a URL, an obstore store or a zarr store."""


def open_hierarchy(
    location: StoreLike,
    allow: Mapping[str, Access],
    *,
    read_only: bool = False,
) -> Store:
    """Return the zarr store of a hierarchy.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    allow : mapping of str to Access
        How URLs are accessed, by prefix.
    read_only : bool
        Whether the store refuses to be written to.

    Raises
    ------
    TypeError
        If the location is of another type.
    InvalidPathError
        If it is not a usable URL.
    SourceError
        If the options that `allow` has for it are wrong.
    ValueError
        If `allow` has a store for it that is rooted elsewhere.

    Examples
    --------
    >>> open_hierarchy("/data/h.zarr", {})
    LocalStore('file:///data/h.zarr')
    """
    if isinstance(location, Store):
        closed = read_only and not location.read_only
        return _guarded(location.with_read_only(True) if closed else location, allow)
    if isinstance(location, Path):
        # The working directory may change, or differ in another process.
        return _directory(location.absolute(), read_only)
    if not isinstance(location, str):
        if type(location).__module__.startswith("obstore"):
            return _guarded(ObjectStore(location, read_only=read_only), allow)
        raise TypeError(
            "location must be a path, a URL, an obstore store or a zarr Store, "
            f"not {type(location).__name__}"
        )
    if "://" not in location:
        return _directory(Path(location).absolute(), read_only)
    scheme = split_url(location).scheme
    if scheme == "file":
        return _directory(Path(path_of_file_url(location)), read_only)
    if scheme == "memory":
        return FsspecStore.from_url(location, read_only=read_only)
    storage = _open_url(location, allow)
    if isinstance(storage, WebServer):
        return WebStore(storage, allow)
    return _guarded(ObjectStore(storage, read_only=read_only), allow)


def _directory(path: Path, read_only: bool) -> Store:
    try:
        path.exists()
        is_possible = "\0" not in str(path)
    except OSError as error:
        is_possible = error.errno != errno.ENAMETOOLONG
    if not is_possible:
        raise InvalidPathError(
            "no directory can have this path",
            location=path.as_uri(),
            remedy="Choose shorter or other names.",
        )
    return LocalStore(path, read_only=read_only)


def _guarded(store: Store, allow: Mapping[str, Access]) -> Store:
    """Return the same store, but reading through the guard against redirects, if there are any."""
    if type(store) is WebStore:
        return WebStore(store.server, allow)
    # Exact types only: a subclass may behave differently.
    if type(store) is not ObjectStore:
        return store
    from obstore.store import HTTPStore

    inner: Any = cast(Any, store).store
    if isinstance(inner, HTTPStore):
        return WebStore(WebServer.of(inner), allow)
    guarded = within_host(inner)
    if guarded is inner:
        return cast(Store, store)
    return ObjectStore(guarded, read_only=store.read_only)


def store_as_zarr_would(location: Any, storage_options: dict[str, Any] | None = None) -> Any:
    """Return a store for what only zarr takes; anything else as it is, for :func:`open_hierarchy`.

    Parameters
    ----------
    location : Any
        What xarray's own engine takes: besides paths, URLs and stores, a dict or a mapping of
        fsspec. ``~`` in a path is the home directory.
    storage_options : dict, optional
        What fsspec needs to open a URL.

    Raises
    ------
    TypeError
        If there are options, but no URL.

    Examples
    --------
    >>> store_as_zarr_would({})
    MemoryStore('memory://...')
    """
    is_url = isinstance(location, str) and "://" in location
    if storage_options is not None:
        if not is_url:
            raise TypeError("storage_options are for a URL that fsspec opens")
        return FsspecStore.from_url(location, storage_options=storage_options, read_only=True)
    if isinstance(location, dict):
        return MemoryStore(cast("dict[str, Any]", location), read_only=True)
    if type(location).__module__ == "fsspec.mapping":
        return FsspecStore.from_mapper(cast(Any, location), read_only=True)
    if isinstance(location, str | Path) and not is_url:
        return Path(location).expanduser()
    return location


def base_directory(base: str | PurePath | None) -> str | None:
    """Return the reader's own base as a URL reference that names a directory.

    Examples
    --------
    >>> base_directory("raw")
    'raw/'
    """
    if base is None:
        return None
    path, mark, query = (local_reference(base) if isinstance(base, PurePath) else base).partition(
        "?"
    )
    # An empty reference, which names nothing, must not become the root of the file system.
    closing = "" if path.endswith("/") or not path else "/"
    return f"{path}{closing}{mark}{query}"


def _open_url(location: str, allow: Mapping[str, Access]) -> ObstoreStore | WebServer:
    head, mark, query = location.partition("?")
    here = Base.parse("./", schemes=AllowList(allow).other_schemes)
    root = here.resolve(f"{head.rstrip('/')}/zarr.json{mark}{query}")
    assert isinstance(root, UrlLocation)  # it has a scheme
    directory = UrlLocation(root.scheme, root.authority, root.path.rpartition("/")[0])
    return NamedStores(allow).open_directory(directory, root.query)
