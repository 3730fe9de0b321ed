"""List the keys of a store, and follow symbolic links or stop at those that lead out.

When zarr lists a directory, it omits what is behind symbolic links, and what the user has no
permission to list, although it reads the former and fails on the latter. A chunk that is not
listed would be taken for a missing chunk, and read as fill values.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from zarr.abc.store import Store
from zarr.storage import LocalStore

from zarr_manifest.errors import (
    ManifestError,
    SourceAccessDeniedError,
    SourceError,
)
from zarr_manifest.format import NODE_METADATA
from zarr_manifest.sources import (
    Directory,
)
from zarr_manifest.sources import link_outside as outside
from zarr_manifest.stores.own_store import translated
from zarr_manifest.stores.places import directory_of
from zarr_manifest.stores.relative_sources import store_name

__all__ = [
    "Listing",
    "link_outside",
    "list_inside",
    "list_keys",
    "list_members",
    "list_names",
    "listed_directory",
    "not_listable",
]


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


async def list_keys(store: Store, prefix: str = "") -> list[str]:
    """Return the keys that begin with a prefix, which is empty or ends with a slash.

    Raises
    ------
    SourceAccessDeniedError
        There is no permission to list a directory.
    SourceError
        The store failed.
    """
    root = listed_directory(store)
    if root is not None:
        return (await asyncio.to_thread(_directory, root, prefix, None)).keys
    return await _stored_keys(store, prefix)


async def list_inside(store: Store, prefix: str = "", directories: tuple[str, ...] = ()) -> Listing:
    """List the keys that begin with a prefix; do not follow links that lead out of the store.

    Parameters
    ----------
    store : Store
        The store.
    prefix : str
        Empty, or ends with a slash.
    directories : tuple of str
        Where links may lead besides: what the reader authorised.

    Raises
    ------
    SourceAccessDeniedError, SourceError
        As of :func:`list_keys`.
    """
    place = directory_of(store)
    if place is None:
        return Listing(await _stored_keys(store, prefix), [], [])
    within = Directory(place.path, directories)
    root = listed_directory(store)
    if root is not None:
        return await asyncio.to_thread(_directory, root, prefix, within)
    keys = await _stored_keys(store, prefix)
    return await asyncio.to_thread(_sorted_out, keys, within)


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


def _sorted_out(keys: list[str], within: Directory) -> Listing:
    """Tell keys behind links that lead out from the others."""
    found = Listing([], [], [])
    for key in keys:
        if within.real_path(key) is not None:
            found.keys.append(key)
            continue
        found.links.append(key)
        path, _, name = key.rpartition("/")
        if name in NODE_METADATA:
            found.nodes.append(path)
    return found


def _directory(root: str, prefix: str, within: Directory | None, *, deep: bool = True) -> Listing:
    """List a directory, and do not follow links that lead out of another."""
    found = Listing([], [], [])
    directory = str(Path(root, prefix))
    if within is not None and within.real_path(prefix) is None:
        path = prefix.rstrip("/")
        return Listing([], [path], [path] if _has_node(directory) else [])
    if not Path(directory).is_dir():
        return found
    if deep or within is None:
        files = _files(directory, prefix, within, ())
    else:
        files = _documents(directory, prefix, within)
    try:
        for file in files:
            (found.links if file.is_outside else found.keys).append(file.key)
            if file.node is not None:
                found.nodes.append(file.node)
    except PermissionError as error:
        raise SourceAccessDeniedError(
            "there is no permission to list the directory, so its content is unknown",
            location=Path(error.filename).as_uri(),
            remedy="Ask its owner for permission.",
        ) from error
    return found


class _Found(Struct, frozen=True):
    """A key; whether it is a link that leads out of a directory, and if so, of which node."""

    key: str
    is_outside: bool = False
    node: str | None = None


def _files(
    directory: str, prefix: str, within: Directory | None, above: tuple[str, ...]
) -> Iterator[_Found]:
    real = os.path.realpath(directory)
    if real in above:
        return  # a link to a directory that contains it
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            key = f"{prefix}{entry.name}"
            if entry.is_symlink() and within and within.real_path(entry.path) is None:
                yield _link(entry, prefix)
            elif _is_directory(entry):
                yield from _files(entry.path, f"{key}/", within, (*above, real))
            elif entry.is_symlink() or entry.is_file():  # a link to nothing fails when it is read
                yield _Found(key)


def _documents(directory: str, prefix: str, within: Directory) -> Iterator[_Found]:
    """Find metadata documents in a directory and those in it, and links."""
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            key = f"{prefix}{entry.name}"
            if entry.is_symlink() and within.real_path(entry.path) is None:
                yield _link(entry, prefix)
            elif _is_directory(entry):
                for name in sorted(NODE_METADATA):
                    path = str(Path(entry.path, name))
                    if os.path.lexists(path):
                        is_outside = within.real_path(path) is None
                        yield _Found(f"{key}/{name}", is_outside, key if is_outside else None)
            elif entry.name in NODE_METADATA:
                yield _Found(key)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False  # a link to itself
        raise


def _link(entry: os.DirEntry[str], prefix: str) -> _Found:
    key = f"{prefix}{entry.name}"
    if entry.name in NODE_METADATA:
        return _Found(key, True, prefix.rstrip("/"))
    return _Found(key, True, key if _has_node(entry.path) else None)


def _has_node(directory: str) -> bool:
    return any(Path(directory, name).exists() for name in NODE_METADATA)
