"""A hierarchy's own store, confined to its directory.

Opening somebody else's hierarchy must not read what symbolic links in it lead to: metadata and
native chunks are checked like sources. Nothing is written or removed through a link at all. A store
that keeps no files is unaffected.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from msgspec import Struct
from zarr.abc.buffer import Buffer
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from zarr_manifest.errors import ManifestError
from zarr_manifest.sources import Directory, OwnFiles
from zarr_manifest.stores.byte_requests import slice_of
from zarr_manifest.stores.own_store import OwnStore, translated
from zarr_manifest.stores.places import directory_of, is_fsspec_on_web
from zarr_manifest.stores.store_listing import sorted_out
from zarr_manifest.zarr_internals import ensure_open, ensure_open_sync

if TYPE_CHECKING:
    from zarr.abc.buffer import BufferPrototype
    from zarr.abc.store import ByteRequest

# Errors that zarr takes for an absent key.
_MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def inside_store(store: Store, directories: tuple[str, ...] = ()) -> Store:
    """Return a store that reads and changes nothing outside its directory; others as they are.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    directories : tuple of str
        Where symbolic links may lead besides when they are read: what the reader authorised.
    """
    place = directory_of(store)
    if place is not None:
        kind = DirectoryStore if place.is_untransformed else CheckedStore
        return kind(store, Directory(place.path, directories))
    return QuotedStore(store) if is_fsspec_on_web(store) else translated(store)


async def list_own(store: Store, prefix: str) -> Sequence[str]:
    """Return the keys below a prefix of an :func:`inside_store` that may be changed.

    Raises
    ------
    LocationNotAllowedError
        The prefix is that of a symbolic link, or lies behind one.
    """
    if isinstance(store, CheckedStore):
        return await store.list_own(prefix)
    return [key async for key in store.list_prefix(prefix)]


class QuotedStore(OwnStore):
    """Quotes keys: fsspec's HTTP client decodes what it takes for parts of URLs."""

    def _name(self, key: str) -> str:
        return quote(key)

    _own_name = _name

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the size of all values below a prefix, in bytes."""
        return await Store.getsize_prefix(self, prefix)

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix."""
        async for key in super().list_prefix(prefix):
            yield unquote(key)


class CheckedStore(OwnStore):
    """Checks each key before the store reads or changes it.

    For stores that may transform what is in their files: these have to be used. What they then
    open, they open by name: a link that is made in between is followed.

    Parameters
    ----------
    store : Store
        The store.
    directory : Directory
        Where it keeps its files.
    """

    def __init__(self, store: Store, directory: Directory) -> None:
        super().__init__(store)
        self._directory = directory
        self._files = OwnFiles(directory.path)

    def _name(self, key: str) -> str:
        try:
            self._directory.require(key, may_be_directory=True)
        except ManifestError as error:
            raise _located(error, self._directory, key) from None
        return key

    def _own_name(self, key: str) -> str:
        self._files.require_own(key)
        return key

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the size of all values below a prefix, in bytes."""
        return await Store.getsize_prefix(self, prefix)

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix, but not those behind links that lead out."""
        keys = [key async for key in super().list_prefix(prefix)]
        found = sorted_out(keys, self._directory)
        for key in found.keys:
            yield key

    async def list_own(self, prefix: str) -> Sequence[str]:
        """Return the keys below a prefix that may be changed: none behind links."""
        path = prefix.rstrip("/")
        if path:
            self._own_name(path)
        return [file.key for file in files_below(self._directory.path, path)]

    async def delete_dir(self, prefix: str) -> None:
        """Remove all keys below a prefix."""
        if isinstance(self._store, LocalStore) and prefix.strip("/"):
            await super().delete_dir(prefix.strip("/"))
            return
        for key in await self.list_own(prefix):
            await self._store.delete(key)


class DirectoryStore(CheckedStore):
    """Reads files from the descriptors that were checked, and not through the store.

    For stores that keep each value in a file, as it is. Files are changed in the same way.
    """

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, or part of it."""
        await ensure_open(self._store)
        return await asyncio.to_thread(self._read, key, prototype, byte_range)

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the value of a key, without an event loop."""
        ensure_open_sync(self._store)
        return self._read(key, prototype, byte_range)

    def _read(
        self, key: str, prototype: BufferPrototype | None, byte_range: ByteRequest | None
    ) -> Buffer | None:
        prototype = default_buffer_prototype() if prototype is None else prototype
        try:
            file = self._directory.open(key)
            try:
                size = file.status.st_size
                part = slice(0, size) if byte_range is None else slice_of(byte_range, size)
                return prototype.buffer.from_bytes(file.read(part.start, part.stop))
            finally:
                file.close()
        except _MISSING:
            return None
        except ManifestError as error:
            raise _located(error, self._directory, key) from error.__cause__

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys below a prefix, but not those behind links that lead out."""
        return self._walk(prefix) if self._is_listed else super().list_prefix(prefix)

    async def _walk(self, prefix: str) -> AsyncIterator[str]:
        self._name(prefix)
        for file in await asyncio.to_thread(lambda: list(self._listed(prefix))):
            yield file.key

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the size of all values below a prefix, in bytes."""
        if not self._is_listed:
            return await super().getsize_prefix(prefix)
        self._name(prefix)
        sizes = await asyncio.to_thread(lambda: [file.size for file in self._listed(prefix)])
        return sum(sizes)

    @property
    def _is_listed(self) -> bool:
        """Whether the directory can be listed instead of the store, which takes longer."""
        return type(self._store) is LocalStore  # others follow links, or leave out some files

    def _listed(self, prefix: str) -> Iterator[ListedFile]:
        for file in files_below(self._directory.path, prefix.rstrip("/")):
            if not file.is_link or self._directory.real_path(file.key) is not None:
                yield file

    async def exists(self, key: str) -> bool:
        """Whether a key has a value."""
        try:
            status = await asyncio.to_thread(self._directory.status, key)
        except _MISSING:
            return False
        except ManifestError as error:
            raise _located(error, self._directory, key) from error.__cause__
        return stat.S_ISREG(status.st_mode)

    async def getsize(self, key: str) -> int:
        """Return the size of a value, in bytes."""
        try:
            return (await asyncio.to_thread(self._directory.status, key)).st_size
        except ManifestError as error:
            raise _located(error, self._directory, key) from error.__cause__

    # Writing and removing --------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        """Write the value of a key."""
        await ensure_open(self._store)
        await asyncio.to_thread(self._files.put, key, self._body(value))

    def set_sync(self, key: str, value: Buffer) -> None:
        """Write the value of a key, without an event loop."""
        ensure_open_sync(self._store)
        self._files.put(key, self._body(value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write the value of a key unless it has one."""
        await ensure_open(self._store)
        await asyncio.to_thread(self._files.create, key, self._body(value))

    def _body(self, value: object) -> memoryview:
        self._check_writable()
        if not isinstance(value, Buffer):
            raise TypeError(f"the value must be a Buffer, not {type(value).__name__}")
        return memoryview(value.as_buffer_like()).cast("B")

    async def delete(self, key: str) -> None:
        """Remove the value of a key."""
        self._check_writable()
        await asyncio.to_thread(self._files.remove, key)

    def delete_sync(self, key: str) -> None:
        """Remove the value of a key, without an event loop."""
        self._check_writable()
        self._files.remove(key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove all keys below a prefix, and their directories."""
        self._check_writable()
        await asyncio.to_thread(self._files.remove_below, prefix.strip("/"))


def _located(error: ManifestError, directory: Directory, key: str) -> ManifestError:
    return error.in_context(location=Path(directory.path, key).as_uri())


# Listing a directory ---------------------------------------------------------------------


class ListedFile(Struct, frozen=True):
    """A file below a directory, as zarr lists it, in a fraction of the time that its paths take.

    Like ``pathlib``, with which zarr's LocalStore lists: directories behind symbolic links are not
    entered, links to files are files, and directories that may not be listed are left out.

    Attributes
    ----------
    key : str
        Its path below the directory.
    is_link : bool
        Whether it is behind a symbolic link.
    entry : DirEntry
        Where it was found.
    """

    key: str
    is_link: bool
    entry: os.DirEntry[str]

    @property
    def size(self) -> int:
        """Size of the file, in bytes."""
        return self.entry.stat().st_size


def files_below(root: str, prefix: str) -> Iterator[ListedFile]:
    """Yield the files at any depth below a directory in another; nothing if there is none.

    Parameters
    ----------
    root : str
        The directory to which keys are relative.
    prefix : str
        Key of the directory, without a slash at the end; ``""`` for the root itself.

    Examples
    --------
    >>> import tempfile
    >>> root = tempfile.mkdtemp()
    >>> _ = Path(root, "f").write_bytes(b"12")
    >>> [(file.key, file.size) for file in files_below(root, "")]
    [('f', 2)]
    """
    for key, entry in entries_below(root, prefix):
        if entry.is_file(follow_symlinks=False):
            yield ListedFile(key, False, entry)
        elif entry.is_symlink() and Path(entry.path).is_file():
            yield ListedFile(key, True, entry)


def entries_below(root: str, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield all but directories, with their keys, as :func:`files_below` finds files."""
    pending = [prefix]
    while pending:
        directory = pending.pop()
        below = f"{directory}/" if directory else ""
        for entry in _entries(str(Path(root, directory))):
            if entry.is_dir(follow_symlinks=False):
                pending.append(below + entry.name)
            else:
                yield below + entry.name, entry


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
