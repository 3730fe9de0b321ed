"""Resolve authorised locations to keys of stores, or to local files.

A file has a directory that it may lie in, and a path there. What counts, apart from the prefixes
themselves, is which stores keep their objects in files of this file system.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from zarr_manifest.errors import SourceError
from zarr_manifest.locations import AllowList, UrlLocation
from zarr_manifest.sources.access import Access, cloud_of, has_options
from zarr_manifest.sources.given_readers import is_range_reader
from zarr_manifest.sources.web import WebServer

if TYPE_CHECKING:
    from obstore.store import ObjectStore


def key_within(store: ObjectStore | WebServer, prefix: UrlLocation, location: UrlLocation) -> str:
    """Return the key of an authorised location in a store.

    If the store is for the same bucket (or host, or disk) and rooted at the prefix
    or above it, keys are relative to its root; any other store stands in for the
    prefix.

    Raises
    ------
    SourceError
        If the store is rooted below the prefix, and the location is outside its root.

    Examples
    --------
    >>> import obstore.store
    >>> prefix = UrlLocation("s3", "bucket", "2024", "")
    >>> location = UrlLocation("s3", "bucket", "2024/f.nc", "")
    >>> key_within(obstore.store.S3Store("bucket", skip_signature=True), prefix, location)
    '2024/f.nc'
    >>> key_within(obstore.store.MemoryStore(), prefix, location)
    'f.nc'
    """
    root = _root_path(store, prefix)
    if root is None or not (_is_below(prefix.path, root) or _is_below(root, prefix.path)):
        root = prefix.path
    if not _is_below(location.path, root):
        raise SourceError(
            f"the store for {prefix} is rooted at {root!r}, but the location is not below that",
            remedy="Allow the prefix at which the store is rooted, or pass a store for the bucket.",
        )
    return location.path[len(root) :].removeprefix("/")


def local_place(
    store: ObjectStore, prefix: UrlLocation, location: UrlLocation
) -> tuple[str, str] | None:
    """Return the directory that an authorised location may lie in, and its path there.

    None if the store keeps no files. The directory is that of the prefix, or the root of a store
    that is rooted elsewhere.

    Raises
    ------
    SourceError
        As of :func:`key_within`.

    Examples
    --------
    >>> import obstore.store
    >>> prefix = UrlLocation("file", "", "data")
    >>> location = UrlLocation("file", "", "data/f.nc")
    >>> local_place(obstore.store.LocalStore("/"), prefix, location)
    ('/data', 'f.nc')
    """
    from obstore.store import LocalStore

    if not isinstance(store, LocalStore):
        return None
    if _holds(store, prefix):
        return f"/{prefix.path}", location.path[len(prefix.path) :].strip("/")
    if prefix.scheme == "file":
        # By its real path, as that of the store's root.
        real = os.path.realpath(f"/{prefix.path}").strip("/")
        inside = location.path[len(prefix.path) :]
        prefix, location = (replace(prefix, path=path) for path in (real, f"{real}{inside}"))
    return str(store.prefix or "/"), key_within(store, prefix, location)


def local_directories(allow: Mapping[str, Access]) -> tuple[str, ...]:
    """Return the authorised directories of this file system, and files authorised by themselves.

    Those for which a store elsewhere stands in are not read themselves.
    """
    prefixes = AllowList(allow)
    found = ((prefixes.normalized(prefix), access) for prefix, access in allow.items())
    return tuple(
        f"/{place.path}"
        for place, access in found
        if place.scheme == "file"
        and (has_options(access) or (not is_range_reader(access) and _holds(access, place)))
    )


def may_be_remote(allow: Mapping[str, Access]) -> bool:
    """Whether any authorised location is remote.

    Examples
    --------
    >>> may_be_remote({"/data/": None}), may_be_remote({"/data/": None, "s3://bucket/": None})
    (False, True)
    """
    if not allow:
        return False
    prefixes = AllowList(allow)
    return any(
        prefixes.normalized(prefix).scheme != "file" if has_options(access) else _is_remote(access)
        for prefix, access in allow.items()
    )


def _is_remote(access: object) -> bool:
    from obstore.store import LocalStore, MemoryStore

    return not isinstance(access, LocalStore | MemoryStore)


def _holds(store: ObjectStore, place: UrlLocation) -> bool:
    """Whether a store is one of this file system, rooted at a directory or above it."""
    from obstore.store import LocalStore

    if place.scheme != "file" or not isinstance(store, LocalStore):
        return False
    root = _root_path(store, place)
    return root is not None and _is_below(os.path.realpath(f"/{place.path}").strip("/"), root)


def _is_below(path: str, root: str) -> bool:
    """Whether a path is another, or continues it by whole segments."""
    return not root or f"{path}/".startswith(f"{root}/")


def _root_path(store: ObjectStore | WebServer, place: UrlLocation) -> str | None:
    """Return a store's root in the bucket, host or file system of `place`; None if elsewhere."""
    if not isinstance(store, WebServer):
        from obstore.store import LocalStore

        if isinstance(store, LocalStore):
            real = os.path.realpath(store.prefix or "/").strip("/")
            return real if place.scheme == "file" else None
    container = place.authority.partition("@")[0]
    for root in urls_of(store):
        if root.origin == place.origin or (not root.is_on_web and root.authority == container):
            return root.path
    return None


def urls_of(store: ObjectStore | WebServer) -> list[UrlLocation]:
    """Return the URLs of the root of a store that keeps no files; nothing if it has none.

    Buckets of the same name are assumed to be the same, whatever their server.
    """
    if not isinstance(store, WebServer):
        from obstore.store import HTTPStore

        if isinstance(store, HTTPStore):
            store = WebServer.of(store)
    if isinstance(store, WebServer):
        root = store.directory
        return [] if root is None else [root]
    cloud = cloud_of(store)
    if cloud is None:
        return []
    bucketed: Any = store
    bucket, prefix = str(bucketed.config[cloud.bucket]), str(bucketed.prefix or "").strip("/")
    schemes = (scheme for scheme in cloud.schemes if scheme not in cloud.with_account)
    return [UrlLocation(scheme, bucket, prefix) for scheme in schemes]
