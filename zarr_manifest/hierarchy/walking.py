"""All keys of a store, or below a prefix.

zarr lists a directory without what lies behind symbolic links, and without what the user
may not look into, although it reads the one and fails on the other. A chunk that is not
listed would be a missing chunk, and read as fill values.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from zarr.abc.store import Store
from zarr.storage import LocalStore

from zarr_manifest.errors import LocationNotAllowedError, SourceAccessDeniedError
from zarr_manifest.format import NODE_METADATA

__all__ = ["link_outside", "list_inside", "list_keys"]


async def list_keys(store: Store, prefix: str = "") -> list[str]:
    """Return the keys that begin with a prefix, which is empty or ends with a slash.

    Raises
    ------
    SourceAccessDeniedError
        A directory may not be listed.
    """
    return await _listed(store, prefix, None)


async def list_inside(store: Store, prefix: str = "") -> tuple[list[str], list[str]]:
    """Return the keys that do not lie behind links out of the store, and those links to nodes.

    For hierarchies of strangers, who may have put a link to anywhere into them.
    """
    outside: list[str] = []
    return await _listed(store, prefix, outside), outside


def link_outside(path: str) -> LocationNotAllowedError:
    """Return what is wrong with a link that leads out of a hierarchy."""
    return LocationNotAllowedError(
        "a symbolic link leads out of the hierarchy's directory",
        array=path,
        remedy="Name the hierarchy that it leads to, or put it in place of the link.",
    )


async def _listed(store: Store, prefix: str, outside: list[str] | None) -> list[str]:
    if not isinstance(store, LocalStore):
        return [key async for key in store.list_prefix(prefix)]
    directory = str(store.root / prefix)
    if not await asyncio.to_thread(os.path.isdir, directory):
        return []
    within = None if outside is None else os.path.realpath(store.root)
    keys: list[str] = []
    try:
        for key, is_outside in await asyncio.to_thread(list, _files(directory, prefix, within, ())):
            (outside if is_outside and outside is not None else keys).append(key)
    except PermissionError as error:
        raise SourceAccessDeniedError(
            "the directory may not be listed, so that nobody knows what it holds",
            location=Path(error.filename).as_uri(),
            remedy="Ask its owner for the permission.",
        ) from error
    return keys


def _files(
    directory: str, prefix: str, within: str | None, above: tuple[str, ...]
) -> Iterator[tuple[str, bool]]:
    """Yield keys, and whether each is a link that leads out of the directory `within`."""
    real = os.path.realpath(directory)
    if real in above:
        return  # a link to a directory that it lies in
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            key = f"{prefix}{entry.name}"
            if entry.is_dir() and entry.is_symlink() and not _lies(entry.path, within):
                if any(Path(entry.path, name).exists() for name in NODE_METADATA):
                    yield key, True
            elif entry.is_dir():
                yield from _files(entry.path, f"{key}/", within, (*above, real))
            elif entry.is_file() or entry.is_symlink():  # a link to nothing fails when it is read
                yield key, False


def _lies(path: str, within: str | None) -> bool:
    return within is None or f"{os.path.realpath(path)}/".startswith(f"{within.rstrip('/')}/")
