"""List the keys of a store, and follow symbolic links or stop at those that lead out.

When zarr lists a directory, it omits what is behind symbolic links, and what the user has no
permission to list, although it reads the former and fails on the latter. A chunk that is not
listed would be taken for a missing chunk, and read as fill values.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from zarr.abc.store import Store
from zarr.storage import LocalStore

from zarr_manifest.errors import ManifestError, SourceAccessDeniedError, SourceError
from zarr_manifest.format import NODE_METADATA
from zarr_manifest.sources import Directory
from zarr_manifest.sources import link_outside as outside
from zarr_manifest.stores.own_store import translated
from zarr_manifest.stores.places import directory_of
from zarr_manifest.stores.relative_sources import store_name


class Listing(Struct, frozen=True):
    """The keys of a store, and the symbolic links that lead out of it.

    Attributes
    ----------
    keys : list of str
        Keys of the objects that are not behind such links.
    links : list of str
        Keys of such links, to files and to directories.
    nodes : list of str
        Paths of the nodes whose metadata is behind such a link.
    """

    keys: list[str]
    links: list[str]
    nodes: list[str]

    def add_link(self, key: str, path: str | None = None) -> None:
        """Add a link that leads out; `path` is given if it may be the directory of a node."""
        self.links.append(key)
        above, _, name = key.rpartition("/")
        if name in NODE_METADATA:
            self.nodes.append(above)
        elif path is not None and _has_node(path):
            self.nodes.append(key)


async def list_inside(store: Store, prefix: str = "", directories: tuple[str, ...] = ()) -> Listing:
    """List the keys that begin with a prefix; do not follow links that lead out of the store.

    Parameters
    ----------
    store : Store
        The store.
    prefix : str
        Empty, or ends with a slash.
    directories : tuple of str
        Where links may lead besides: what the reader authorised; ``("/",)`` for anywhere.

    Raises
    ------
    SourceAccessDeniedError
        There is no permission to list a directory.
    SourceError
        The store failed.
    """
    place = directory_of(store)
    if place is None:
        return Listing(await _stored_keys(store, prefix), [], [])
    within = Directory(place.path, directories)
    root = listed_directory(store)
    if root is not None:
        return await asyncio.to_thread(_directory, root, prefix, within)
    keys = await _stored_keys(store, prefix)
    return await asyncio.to_thread(sorted_out, keys, within)


def listed_directory(store: Store) -> str | None:
    """Return the directory of a store if its files can be listed instead of its keys."""
    place = directory_of(store)
    is_listed = place is not None and (place.is_untransformed or isinstance(store, LocalStore))
    return place.path if place is not None and is_listed else None


async def list_members(root: str, path: str, directories: tuple[str, ...] = ()) -> Listing:
    """List the metadata documents of a group in a directory, and of its members, and links.

    Raises
    ------
    SourceAccessDeniedError
        There is no permission to list the group's directory.
    """
    prefix = f"{path}/" if path else ""
    within = Directory(root, directories)
    return await asyncio.to_thread(_directory, root, prefix, within, deep=False)


async def list_names(store: Store, path: str) -> list[str]:
    """Return the names of what may be members of a group.

    Raises
    ------
    SourceAccessDeniedError, SourceError
        The store failed.
    """
    return [name async for name in translated(store).list_dir(path)]


def link_outside(path: str) -> ManifestError:
    """Return the error for a node behind a link that leads out of its hierarchy."""
    return outside().in_context(array=path)


def not_listable(store: Store, problem: str, *, remedy: str | None = None) -> SourceError:
    """Return the error for a store whose keys are needed but cannot be listed."""
    return SourceError(
        f"the store cannot be listed, {problem}", location=store_name(store), remedy=remedy
    )


async def _stored_keys(store: Store, prefix: str) -> list[str]:
    return [key async for key in translated(store).list_prefix(prefix)]


def sorted_out(keys: Iterable[str], within: Directory) -> Listing:
    """Tell keys behind links that lead out from the others."""
    real_path = functools.cache(within.real_path)  # of each directory once: it takes long
    found = Listing([], [], [])
    for key in keys:
        is_inside = real_path(key.rpartition("/")[0]) is not None
        if is_inside and Path(within.path, key).is_symlink():
            is_inside = within.real_path(key) is not None
        if is_inside:
            found.keys.append(key)
        else:
            found.add_link(key)
    return found


def _directory(root: str, prefix: str, within: Directory, *, deep: bool = True) -> Listing:
    """List a directory, and do not follow links that lead out of another."""
    found = Listing([], [], [])
    directory = str(Path(root, prefix))
    if within.real_path(prefix) is None:
        found.add_link(prefix.rstrip("/"), directory)
        return found
    if not Path(directory).is_dir():
        return found
    try:
        if deep:
            _add_files(found, directory, prefix, within, ())
        else:
            _add_documents(found, directory, prefix, within)
    except PermissionError as error:
        raise SourceAccessDeniedError(
            "there is no permission to list the directory, so its content is unknown",
            location=Path(error.filename).as_uri(),
            remedy="Ask its owner for permission.",
        ) from error
    return found


def _entries(directory: str) -> list[os.DirEntry[str]]:
    with os.scandir(directory) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _add_files(
    found: Listing, directory: str, prefix: str, within: Directory, above: tuple[str, ...]
) -> None:
    real = os.path.realpath(directory)
    if real in above:
        return  # a link to a directory that contains it
    for entry in _entries(directory):
        key = f"{prefix}{entry.name}"
        if entry.is_symlink() and within.real_path(entry.path) is None:
            found.add_link(key, entry.path)
        elif _is_directory(entry):
            _add_files(found, entry.path, f"{key}/", within, (*above, real))
        elif entry.is_symlink() or entry.is_file():  # a link to nothing fails when it is read
            found.keys.append(key)


def _add_documents(found: Listing, directory: str, prefix: str, within: Directory) -> None:
    """Find metadata documents in a directory and those in it, and links."""
    for entry in _entries(directory):
        key = f"{prefix}{entry.name}"
        if entry.is_symlink() and within.real_path(entry.path) is None:
            found.add_link(key, entry.path)
        elif _is_directory(entry):
            for name in sorted(NODE_METADATA):
                path = str(Path(entry.path, name))
                if not os.path.lexists(path):
                    continue
                if within.real_path(path) is None:
                    found.add_link(f"{key}/{name}")
                else:
                    found.keys.append(f"{key}/{name}")
        elif entry.name in NODE_METADATA:
            found.keys.append(key)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False  # a link to itself
        raise


def _has_node(directory: str) -> bool:
    return any(Path(directory, name).exists() for name in NODE_METADATA)
