"""The objects of a hierarchy's own store, with their times: read, and removed if nobody wrote them.

What lies behind symbolic links is neither listed nor removed. Listing takes one request for many
objects, and reading one for each, which states its time again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

from msgspec import Struct
from zarr.abc.store import Store
from zarr.storage import ObjectStore

from zarr_manifest.sources import OwnFiles
from zarr_manifest.stores import (
    TranslatedStore,
    entries_below,
    inside_store,
    list_own,
    listed_directory,
    value_of,
)

# How much of an object is read at a time, in bytes.
_PIECE = 2**20

_MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class OwnObject(Struct, frozen=True):
    """An object that was listed.

    Attributes
    ----------
    key : str
        Its key.
    modified : float or None
        When it was written, in seconds since the epoch; None if the store does not say.
    """

    key: str
    modified: float | None


class Content(Struct, frozen=True):
    """What an object contains.

    Attributes
    ----------
    digest : str
        SHA-256, in hexadecimal digits.
    size : int
        Number of bytes.
    body : bytes or None
        The bytes, unless there are more than were asked for.
    modified : float or None
        As of :class:`OwnObject`, when it was read.
    state : object
        What the store needs to notice that it has been written since.
    """

    digest: str
    size: int
    body: bytes | None
    modified: float | None
    state: Any = None


class OwnObjects(ABC):
    """The objects of a hierarchy's own store."""

    #: Whether the store says when objects were written.
    has_times = True

    #: Whether they are files, beside which there may be momentary files and symbolic links.
    is_directory = False

    def __init__(self) -> None:
        #: Keys of what symbolic links lead to within the store, once it has been listed.
        self.linked: list[str] = []

    @abstractmethod
    def listed(self) -> AsyncIterator[OwnObject]:
        """Yield all objects."""

    @abstractmethod
    async def read(self, key: str, most: int) -> Content | None:
        """Return what an object contains, and its bytes up to a number; None if it is gone."""

    @abstractmethod
    async def remove(self, key: str, content: Content) -> bool:
        """Remove an object unless it was written since it was read; return whether it was."""

    async def remove_momentary(self, key: str, content: Content) -> bool:
        """Remove a file that a killed writer left; return False if a writer is using it."""
        return await self.remove(key, content)


def own_objects(store: Store) -> OwnObjects:
    """Return the objects of a hierarchy's own store."""
    root = listed_directory(store)
    if root is not None:
        return _OwnFiles(root)
    # The exact type only: a subclass may transform its values.
    is_plain = type(cast("Any", store)) is ObjectStore
    return _StoredObjects(store) if is_plain else _StoreValues(store)


class _OwnFiles(OwnObjects):
    """Files of a directory."""

    is_directory = True

    def __init__(self, root: str) -> None:
        super().__init__()
        self._root = root
        self._files = OwnFiles(root)

    async def listed(self) -> AsyncIterator[OwnObject]:
        files = self._below(os.path.realpath(self._root))
        while some := await asyncio.to_thread(_next_of, files):
            for file in some:
                yield file

    def _below(self, root: str) -> Iterator[OwnObject]:
        # Directories that may not be listed are refused by the walk over the nodes.
        for key, entry in entries_below(root, ""):
            if entry.is_symlink():
                self._note(os.path.realpath(entry.path), root)
            elif entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):  # it has just been removed
                    yield OwnObject(key, _time_of(entry.stat(follow_symlinks=False)))

    def _note(self, target: str, root: str) -> None:
        if f"{target}/".startswith(f"{root.rstrip('/')}/"):
            self.linked.append(target[len(root) :].lstrip("/"))

    async def read(self, key: str, most: int) -> Content | None:
        return await asyncio.to_thread(self._read, key, most)

    def _read(self, key: str, most: int) -> Content | None:
        try:
            with self._files.opened(key) as file:
                pieces = _Pieces(most)
                for start in range(0, file.size, _PIECE):
                    pieces.add(file.read(start, min(start + _PIECE, file.size)))
                return pieces.content(_time_of(file.status), file.status)
        except _MISSING:
            return None

    async def remove(self, key: str, content: Content) -> bool:
        return await asyncio.to_thread(self._files.remove_unchanged, key, content.state)

    async def remove_momentary(self, key: str, content: Content) -> bool:
        return await asyncio.to_thread(self._files.remove_momentary, key)


def _next_of(files: Iterator[OwnObject]) -> list[OwnObject]:
    return list(itertools.islice(files, 1000))


def _time_of(status: os.stat_result) -> float:
    # Copies may keep the time of the original: the system knows when they arrived.
    return max(status.st_mtime, status.st_ctime)


class _StoredObjects(OwnObjects):
    """Objects of a storage service, or of obstore's memory."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._translated = TranslatedStore(store)
        self._objects: Any = cast("Any", store).store

    async def listed(self) -> AsyncIterator[OwnObject]:
        pages: AsyncIterator[list[Any]] = aiter(self._objects.list(chunk_size=1000))
        async for page in self._translated.each(pages, ""):
            for each in page:
                yield OwnObject(each["path"], each["last_modified"].timestamp())

    async def read(self, key: str, most: int) -> Content | None:
        return await self._translated.answer(self._read(key, most), key)

    async def _read(self, key: str, most: int) -> Content | None:
        try:
            answer = await self._objects.get_async(key)
        except FileNotFoundError:
            return None
        pieces = _Pieces(most)
        async for piece in answer.stream(min_chunk_size=_PIECE):
            pieces.add(bytes(piece))
        return pieces.content(answer.meta["last_modified"].timestamp())

    async def remove(self, key: str, content: Content) -> bool:
        # There is no condition for this: the caller has just read it.
        await self._translated.delete(key)
        return True


class _StoreValues(OwnObjects):
    """Values of any other store, which does not say when they were written."""

    has_times = False

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._inside = inside_store(store)

    async def listed(self) -> AsyncIterator[OwnObject]:
        for key in await list_own(self._inside, ""):
            yield OwnObject(key, None)

    async def read(self, key: str, most: int) -> Content | None:
        value = await value_of(self._inside, key)
        if value is None:
            return None
        pieces = _Pieces(most)
        pieces.add(value)
        return pieces.content(None)

    async def remove(self, key: str, content: Content) -> bool:
        await self._inside.delete(key)
        return True


class _Pieces:
    """The bytes of an object as they arrive, of which only so many are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._digest = hashlib.sha256()
        self._kept: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._size += len(piece)
        if self._size > self._most:
            self._kept = []
        else:
            self._kept.append(piece)

    def content(self, modified: float | None, state: Any = None) -> Content:
        body = b"".join(self._kept) if self._size <= self._most else None
        return Content(self._digest.hexdigest(), self._size, body, modified, state)
