"""Authorised files: the directory that each may lie in, and its path there.

Apart from the prefixes themselves, what counts is which stores keep their objects in files of
this file system.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from zarr_manifest.locations import AllowList, UrlLocation
from zarr_manifest.sources.access import (
    Access,
    Anonymous,
    Environment,
    is_below,
    key_within,
    root_path,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["LocalPlace", "local_directories", "local_place", "may_be_remote"]


class LocalPlace(Struct, frozen=True):
    """A file: the directory that it may lie in, and its path there."""

    directory: str
    key: str


def local_place(
    store: ObjectStore, prefix: UrlLocation, location: UrlLocation
) -> LocalPlace | None:
    """Return the file for an authorised location in a store; None if the store keeps no files.

    The directory is that of the prefix, or the root of a store that is rooted elsewhere.

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
    LocalPlace(directory='/data', key='f.nc')
    """
    from obstore.store import LocalStore

    if not isinstance(store, LocalStore):
        return None
    if _holds(store, prefix):
        return LocalPlace(f"/{prefix.path}", location.path[len(prefix.path) :].strip("/"))
    if prefix.scheme == "file":
        # By its real path, as that of the store's root.
        real = os.path.realpath(f"/{prefix.path}").strip("/")
        inside = location.path[len(prefix.path) :]
        prefix, location = (replace(prefix, path=path) for path in (real, f"{real}{inside}"))
    return LocalPlace(str(store.prefix or "/"), key_within(store, prefix, location))


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
        and (
            access is None
            or isinstance(access, Anonymous | Environment | Mapping)
            or _holds(access, place)
        )
    )


def may_be_remote(allow: Mapping[str, Access]) -> bool:
    """Whether some of what may be read is not on this machine: requests for it take a round trip.

    Examples
    --------
    >>> may_be_remote({"/data/": None}), may_be_remote({"/data/": None, "s3://bucket/": None})
    (False, True)
    """
    if not allow:
        return False
    from obstore.store import LocalStore, MemoryStore

    prefixes = AllowList(allow)
    return any(
        prefixes.normalized(prefix).scheme != "file"
        if access is None or isinstance(access, Anonymous | Environment | Mapping)
        else not isinstance(access, LocalStore | MemoryStore)
        for prefix, access in allow.items()
    )


def _holds(store: ObjectStore, place: UrlLocation) -> bool:
    """Whether a store is one of this file system, rooted at a directory or above it."""
    from obstore.store import LocalStore

    if place.scheme != "file" or not isinstance(store, LocalStore):
        return False
    root = root_path(store, place)
    return root is not None and is_below(os.path.realpath(f"/{place.path}").strip("/"), root)
