"""Conditional puts, so that two writers cannot silently overwrite each other's work.

An object is created only if it does not exist, and replaced only if it has not changed
since it was read. How depends on the kind of store; if a store cannot do it, that is an
error, unless the caller promises to be the only writer.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore, ObjectStore

from zarr_manifest.errors import ManifestError, Replacing, WriteConflictError
from zarr_manifest.format import join
from zarr_manifest.hierarchy import store_underneath
from zarr_manifest.sources import (
    Allow,
    OwnFiles,
    access_by_prefix,
    cloud_of,
    known_cause,
    require_obstore_threads,
    undetectable_writers,
)
from zarr_manifest.stores import (
    can_list,
    directory_of,
    hierarchy_url,
    inside_store,
    open_hierarchy,
    refused_key,
    store_errors,
    store_failure,
    store_name,
    unchangeable,
    value_of,
)
from zarr_manifest.zarr_internals import ensure_open, sync

if TYPE_CHECKING:
    from obstore.store import ObjectStore as ObstoreStore


# Others may commit at the same time, to other nodes.
_MOST_ATTEMPTS = 20

# In seconds, about as long as a commit takes: two that met must not meet again.
_PAUSE = 0.05


def repeatedly[T](
    attempt: Callable[[int], T | WriteConflictError], most: int = _MOST_ATTEMPTS
) -> T:
    """Return what an attempt returns; repeat it, after a pause, if that is a conflict.

    Parameters
    ----------
    attempt : callable
        Takes the number of the attempt, from 1. A conflict that it raises is not repeated.
    most : int
        Number of attempts, the last of whose conflicts is raised.

    Examples
    --------
    >>> repeatedly(lambda number: WriteConflictError("busy") if number < 3 else "done")
    'done'
    """
    for number in itertools.count(1):
        found = attempt(number)
        if not isinstance(found, WriteConflictError):
            return found
        if number == most:
            raise found
        time.sleep(random.uniform(0, _PAUSE * 2 ** min(number, 5)))
    raise AssertionError  # the last attempt has returned or raised


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it was read.

    Parameters
    ----------
    body : bytes or None
        None if there was no object.
    version : object
        Identifies this state of the object to the store.
    """

    body: bytes | None
    version: Any = None


class GuardedStore(ABC):
    """A store with conditional puts.

    Parameters
    ----------
    store : Store
        Not a ManifestStore, which hides declarations.
    directories : tuple of str
        Where symbolic links may lead when they are read: what the reader authorised.
    """

    def __init__(self, store: Store, directories: tuple[str, ...] = ()) -> None:
        self.store = store
        self.root = hierarchy_url(store)
        self._inside = inside_store(store, directories)
        place = directory_of(store)
        self._own_files = None if place is None else OwnFiles(place.path)

    def read(self, key: str) -> Stored:
        """Return an object, with what is needed to replace it."""
        return Stored(self._get(key))

    @abstractmethod
    def create(self, key: str, body: bytes) -> bool:
        """Write an object unless it exists; return whether it was written."""

    @abstractmethod
    def replace(self, key: str, before: Stored, body: bytes) -> Stored:
        """Write an object if it has not changed since it was read; return it as written.

        Raises
        ------
        WriteConflictError
            If it has changed.
        """

    def remove(self, key: str, before: Stored) -> None:
        """Delete an object if it has not changed since it was read. Raises as :meth:`replace`."""
        found = self.read(key).body
        if found is None:
            return  # a later writer may be creating it again
        if found != before.body:
            raise _conflict(key)
        self.delete(key)

    def put(self, key: str, body: bytes) -> None:
        """Write an object, whether or not it exists; in any thread."""
        self._run(self._put(key, body))

    def holds(self, key: str, body: bytes) -> bool:
        """Whether an object exists and has these contents; in any thread."""
        return self._get(key) == body

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._run(self._inside.delete(key))

    def names_in(self, path: str) -> list[str]:
        """Return the names in a directory, but not those of links that lead to no node."""

        async def names() -> list[str]:
            return [name async for name in self._inside.list_dir(path)]

        own = self._own_files
        found = self._run(names()) if own is None else own.names(path)
        return [name for name in found if own is None or _may_be_member(own, join(path, name))]

    def is_empty(self) -> bool:
        """Whether the store is known to hold nothing."""

        async def has_names() -> bool:
            async for _ in self._inside.list_dir(""):
                return True
            return False

        if self._own_files is not None:
            return not self._own_files.names("")
        return can_list(self.store) and not self._run(has_names())

    def require_own(self, key: str) -> None:
        """Refuse an object that must not be changed, before anything is changed.

        Raises
        ------
        LocationNotAllowedError
            It lies behind a symbolic link.
        InvalidPathError
            No file can have this name.
        """
        if self._own_files is not None:
            self._own_files.require_own(key)

    async def _put(self, key: str, body: bytes) -> None:
        with _refusals(key):
            await self._inside.set(key, default_buffer_prototype().buffer.from_bytes(body))

    def _get(self, key: str) -> bytes | None:
        return self._run(value_of(self._inside, key))

    def _run[T](self, steps: Coroutine[Any, Any, T]) -> T:
        with self._translated():
            return sync(steps)

    def _translated(self) -> Replacing:
        """Raise this package's errors instead of those of obstore."""
        return Replacing(store_errors(), self._failure)

    def _failure(self, error: Exception) -> ManifestError:
        return store_failure(error).in_context(location=store_name(self.store))

    def _compare_and_put(self, key: str, before: Stored, body: bytes) -> Stored:
        """Replace an object while nobody else can write it."""
        found = self._get(key)
        if found != body:
            if found != before.body:
                raise _conflict(key)
            self.put(key, body)
        return Stored(body)


def _may_be_member(files: OwnFiles, path: str) -> bool:
    """Whether a name is no link, or one to a node, which is refused when it is read."""
    place = Path(files.directory, path)
    return not place.is_symlink() or (place / "zarr.json").exists()


def _refusals(key: str) -> Replacing:
    def refused(error: ValueError) -> ManifestError | None:
        found = refused_key(error)
        return None if found is None else found.in_context(location=key)

    return Replacing(ValueError, refused)


class _InProcess(GuardedStore):
    """A dictionary, to which only threads of this process can write."""

    _lock = threading.Lock()  # shared by all: several stores may use the same dictionary

    def create(self, key: str, body: bytes) -> bool:
        with self._lock:
            if self._get(key) is not None:
                return False
            self.put(key, body)
            return True

    def replace(self, key: str, before: Stored, body: bytes) -> Stored:
        with self._lock:
            return self._compare_and_put(key, before, body)

    def remove(self, key: str, before: Stored) -> None:
        with self._lock:
            super().remove(key, before)


class _DirectoryStore(GuardedStore):
    """Files, which cannot be replaced conditionally, so that writers take turns by a lock file.

    Not through the store, whose event loop takes longer for a small file than the system.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        assert self._own_files is not None  # the store is a directory
        self._files = self._own_files

    def read(self, key: str) -> Stored:
        self._files.remove_left_behind(key)
        return super().read(key)

    def create(self, key: str, body: bytes) -> bool:
        return self._files.create(key, body)

    def _get(self, key: str) -> bytes | None:
        return self._files.read(key)

    def put(self, key: str, body: bytes) -> None:
        self._files.put(key, body)

    def delete(self, key: str) -> None:
        self._files.remove(key)

    def replace(self, key: str, before: Stored, body: bytes) -> Stored:
        if before.body is None:
            if not self.create(key, body) and self._get(key) != body:
                raise _conflict(key)
            return Stored(body)
        with self._files.locked(key):
            return self._compare_and_put(key, before, body)

    def remove(self, key: str, before: Stored) -> None:
        with self._files.locked(key):
            super().remove(key, before)


class _ObjectStorage(GuardedStore):
    """A storage service, or memory, with entity tags or versions of objects."""

    def __init__(self, store: ObjectStore[Any]) -> None:
        super().__init__(store)
        self._objects: Any = store.store

    def _translated(self) -> Replacing:
        require_obstore_threads()
        return super()._translated()

    def read(self, key: str) -> Stored:
        with self._translated():
            try:
                answer = self._objects.get(key)
            except FileNotFoundError:
                return Stored(None)
            return Stored(bytes(answer.bytes()), _version(answer.meta))

    def create(self, key: str, body: bytes) -> bool:
        return self._put_if(key, body, "create") is not None

    def replace(self, key: str, before: Stored, body: bytes) -> Stored:
        if before.body is not None and not before.version:
            raise undetectable_writers(type(self._objects).__name__)
        done = self._put_if(key, body, "create" if before.body is None else before.version)
        if done is not None:
            return done
        # A request that was retried because its response was lost conflicts with itself.
        found = self.read(key)
        if found.body != body:
            raise _conflict(key)
        return found

    def _put_if(self, key: str, body: bytes, mode: Any) -> Stored | None:
        """Write an object on a condition; None if that does not hold."""
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        def failure(error: Exception) -> ManifestError:
            if not isinstance(error, NotSupportedError | NotImplementedError):
                return self._failure(error)
            found = undetectable_writers(type(self._objects).__name__)
            return found.in_context(location=store_name(self.store))

        require_obstore_threads()
        with Replacing((*store_errors(), FileNotFoundError, NotImplementedError), failure):
            try:
                written = self._objects.put(key, body, mode=mode)
            except (AlreadyExistsError, PreconditionError):
                return None
            except FileNotFoundError as error:
                if known_cause(error) is None:
                    return None
                raise
            return Stored(body, _version(written))


def _version(meta: Any) -> dict[str, str]:
    return {tag: meta[tag] for tag in ("e_tag", "version") if meta.get(tag)}


class _Unguarded(GuardedStore):
    """Any store, with the caller's promise to be the only writer."""

    def create(self, key: str, body: bytes) -> bool:
        with _refusals(key):
            if self._run(self._inside.exists(key)):
                return False
        self.put(key, body)
        return True

    def replace(self, key: str, before: Stored, body: bytes) -> Stored:
        return self._compare_and_put(key, before, body)


def _conflict(key: str) -> WriteConflictError:
    return WriteConflictError(
        "another writer has changed this since it was read; its version was kept",
        location=key,
        remedy="Check what is there now, and write again if it is not what you want.",
    )


def guarded_store(
    location: str | Path | ObstoreStore | Store,
    allow: Allow = None,
    *,
    sole_writer: bool = False,
    directories: tuple[str, ...] = (),
) -> GuardedStore:
    """Return a hierarchy's own store with conditional puts.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy. Its directory is created if there is none.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix.
    sole_writer : bool
        The caller's promise to be the only writer, for stores that cannot detect others.
    directories : tuple of str
        Where symbolic links may lead when a sole writer reads: what the reader authorised.

    Raises
    ------
    WriteConflictError
        If the store cannot detect other writers and there is no such promise; or if there
        is a file in place of the hierarchy's directory.
    ReadOnlyError
        If the hierarchy is on a web server.
    """
    store = store_underneath(open_hierarchy(location, access_by_prefix(allow)))
    try:
        sync(ensure_open(store))
    except (FileExistsError, NotADirectoryError) as error:
        raise WriteConflictError(
            "a hierarchy is a directory, but there is a file at this location",
            location=store_name(store),
            remedy="Choose another location.",
        ) from error
    if sole_writer:
        return _Unguarded(store, directories)
    if isinstance(store, MemoryStore):
        return _InProcess(store)
    if isinstance(store, LocalStore):
        return _DirectoryStore(store)
    if isinstance(store, ObjectStore):
        return _guarded_object_store(cast(Any, store))
    if not store.supports_writes:
        raise unchangeable(store_name(store))
    raise undetectable_writers(type(store).__name__)


def _guarded_object_store(store: ObjectStore[Any]) -> GuardedStore:
    from obstore.store import LocalStore, MemoryStore

    inner: Any = store.store
    if isinstance(inner, LocalStore) and inner.prefix is not None:
        return _DirectoryStore(store)
    if isinstance(inner, MemoryStore) or cloud_of(inner) is not None:
        return _ObjectStorage(store)
    raise undetectable_writers(type(inner).__name__)
