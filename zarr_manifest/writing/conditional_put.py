"""Conditional puts, so that two writers cannot silently overwrite each other's work.

An object is created only if it does not exist, and replaced only if it has not changed
since it was read. How depends on the kind of store; if a store cannot do it, that is an
error, unless the caller promises to be the only writer.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore, ObjectStore

from zarr_manifest.errors import Advice, Setting, WriteConflictError
from zarr_manifest.hierarchy import ensure_open, list_inside, sync
from zarr_manifest.sources import can_list, refused_key, store_name

__all__ = ["GuardedStore", "Stored", "guarded_store"]

# Number of objects written at the same time.
_AT_ONCE = 16

# How long another process may hold a lock, in seconds; it only writes one small file.
_PATIENCE = 5.0


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
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def read(self, key: str) -> Stored:
        """Return an object, with what is needed to replace it."""
        return Stored(self._get(key))

    @abstractmethod
    def create(self, key: str, body: bytes) -> bool:
        """Write an object unless it exists; return whether it was written."""

    @abstractmethod
    def replace(self, key: str, before: Stored, body: bytes) -> None:
        """Write an object if it has not changed since it was read.

        Raises
        ------
        WriteConflictError
            If it has changed.
        """

    def put(self, bodies: Mapping[str, bytes]) -> None:
        """Write objects, whether or not they exist, several at the same time."""

        async def put_all() -> None:
            items = list(bodies.items())
            for start in range(0, len(items), _AT_ONCE):
                some = items[start : start + _AT_ONCE]
                await asyncio.gather(*(self._put(key, body) for key, body in some))

        sync(put_all())

    def delete(self, key: str) -> None:
        """Delete an object."""
        sync(self.store.delete(key))

    def keys_below(self, prefix: str) -> list[str] | None:
        """Return all keys that begin with a prefix; None if the store cannot list them."""
        if not can_list(self.store):
            return None
        listing = sync(list_inside(self.store, prefix))
        return [*listing.keys, *listing.links]

    def names_in(self, path: str) -> list[str]:
        """Return the names in a directory."""

        async def names() -> list[str]:
            return [name async for name in self.store.list_dir(path)]

        return sync(names())

    def exists(self, key: str) -> bool:
        """Whether an object exists."""
        with _refusals(key):
            return sync(self.store.exists(key))

    async def _put(self, key: str, body: bytes) -> None:
        with _refusals(key):
            await self.store.set(key, default_buffer_prototype().buffer.from_bytes(body))

    def _get(self, key: str) -> bytes | None:
        found = sync(self.store.get(key, default_buffer_prototype()))
        return None if found is None else found.to_bytes()

    def _compare_and_put(self, key: str, before: Stored, body: bytes) -> None:
        """Replace an object while nobody else can write it."""
        found = self._get(key)
        if found == body:
            return
        if found != before.body:
            raise _conflict(key)
        sync(self._put(key, body))


@contextmanager
def _refusals(key: str) -> Generator[None]:
    try:
        yield
    except ValueError as error:
        refused = refused_key(error)
        if refused is None:
            raise
        raise refused.in_context(location=key) from error


class _InProcess(GuardedStore):
    """A dictionary, to which only threads of this process can write."""

    _lock = threading.Lock()  # shared by all: several stores may use the same dictionary

    def create(self, key: str, body: bytes) -> bool:
        with self._lock:
            if self._get(key) is not None:
                return False
            sync(self._put(key, body))
            return True

    def replace(self, key: str, before: Stored, body: bytes) -> None:
        with self._lock:
            self._compare_and_put(key, before, body)


class _Directory(GuardedStore):
    """Files, which cannot be replaced conditionally, so that writers take turns by a lock file."""

    def __init__(self, store: Store, root: Path) -> None:
        super().__init__(store)
        self._root = root

    def create(self, key: str, body: bytes) -> bool:
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                file.write(body)
        except FileExistsError:
            return False
        return True

    def _get(self, key: str) -> bytes | None:
        # Not through the store: obstore fails if there is a file in place of a directory.
        try:
            return (self._root / key).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def replace(self, key: str, before: Stored, body: bytes) -> None:
        with _locked(self._root / f"{key}.lock"):
            self._compare_and_put(key, before, body)


@contextmanager
def _locked(lock: Path) -> Generator[None]:
    """Hold a lock that is visible to other processes."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            with lock.open("x") as file:
                file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                raise _locked_by_another(lock) from None
            time.sleep(0.005)
    try:
        yield
    finally:
        lock.unlink()


def _locked_by_another(lock: Path) -> WriteConflictError:
    try:
        owner = lock.read_text().strip() or "an unnamed process"
    except FileNotFoundError:
        owner = "several processes in turn"
    return WriteConflictError(
        f"another writer has held the lock for more than {_PATIENCE:g} seconds: {owner}",
        location=str(lock),
        remedy=f"If it was interrupted, run rm {str(lock)!r} to remove the lock file.",
    )


class _ObjectStorage(GuardedStore):
    """A storage service, or memory, with entity tags or versions of objects."""

    def __init__(self, store: ObjectStore[Any]) -> None:
        super().__init__(store)
        self._objects: Any = store.store

    def read(self, key: str) -> Stored:
        try:
            found = self._objects.get(key)
        except FileNotFoundError:
            return Stored(None)
        version = {name: found.meta[name] for name in ("e_tag", "version") if found.meta.get(name)}
        return Stored(bytes(found.bytes()), version)

    def create(self, key: str, body: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        try:
            self._objects.put(key, body, mode="create")
        except AlreadyExistsError:
            return False
        except (NotSupportedError, NotImplementedError) as error:
            raise _undetectable(type(self._objects).__name__) from error
        return True

    def replace(self, key: str, before: Stored, body: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        if before.body is not None and not before.version:
            raise _undetectable(type(self._objects).__name__)
        try:
            if before.body is None:
                self._objects.put(key, body, mode="create")
            else:
                self._objects.put(key, body, mode=before.version)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
            # A request that was retried because its response was lost conflicts with itself.
            if self.read(key).body != body:
                raise _conflict(key) from error
        except (NotSupportedError, NotImplementedError) as error:
            raise _undetectable(type(self._objects).__name__) from error


class _Unguarded(GuardedStore):
    """Any store, with the caller's promise to be the only writer."""

    def create(self, key: str, body: bytes) -> bool:
        if self.exists(key):
            return False
        sync(self._put(key, body))
        return True

    def replace(self, key: str, before: Stored, body: bytes) -> None:
        self._compare_and_put(key, before, body)


def _conflict(key: str) -> WriteConflictError:
    return WriteConflictError(
        "another writer has changed this since it was read; its version was kept",
        location=key,
        remedy="Check what is there now, and write again if it is not what you want.",
    )


def _undetectable(kind: str) -> WriteConflictError:
    return WriteConflictError(
        f"this {kind} cannot detect whether somebody else is writing at the same time",
        remedy=Advice("If nobody is, pass ", Setting("sole_writer", True), "."),
    )


def guarded_store(store: Store, *, sole_writer: bool = False) -> GuardedStore:
    """Return a store with conditional puts.

    Parameters
    ----------
    store : Store
        The hierarchy's own store.
    sole_writer : bool
        The caller's promise to be the only writer, for stores that cannot detect others.

    Raises
    ------
    WriteConflictError
        If the store cannot detect other writers and there is no such promise; or if there
        is a file in place of the hierarchy's directory.
    """
    try:
        sync(ensure_open(store))
    except (FileExistsError, NotADirectoryError) as error:
        raise WriteConflictError(
            "a hierarchy is a directory, but there is a file at this location",
            location=store_name(store),
            remedy="Choose another location.",
        ) from error
    if sole_writer:
        return _Unguarded(store)
    if isinstance(store, MemoryStore):
        return _InProcess(store)
    if isinstance(store, LocalStore):
        return _Directory(store, store.root)
    if isinstance(store, ObjectStore):
        return _guarded_object_store(cast(Any, store))
    raise _undetectable(type(store).__name__)


def _guarded_object_store(store: ObjectStore[Any]) -> GuardedStore:
    from obstore.store import AzureStore, GCSStore, LocalStore, MemoryStore, S3Store

    inner: Any = store.store
    if isinstance(inner, LocalStore) and inner.prefix is not None:
        return _Directory(store, Path(inner.prefix))
    if isinstance(inner, S3Store | GCSStore | AzureStore | MemoryStore):
        return _ObjectStorage(store)
    raise _undetectable(type(inner).__name__)
