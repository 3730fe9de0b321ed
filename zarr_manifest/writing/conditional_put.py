"""Conditional puts, so that two writers cannot silently overwrite each other's work.

An object is created only if it does not exist, and replaced only if it has not changed
since it was read. How depends on the kind of store; if a store cannot do it, that is an
error, unless the caller promises to be the only writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore, ObjectStore

from zarr_manifest.errors import Advice, Setting, WriteConflictError
from zarr_manifest.hierarchy import (
    can_list,
    ensure_open,
    list_inside,
    look_again,
    refused_key,
    store_errors,
    store_failure,
    store_name,
    sync,
)

__all__ = ["GuardedStore", "Stored", "guarded_store"]

# What the names of files that exist for a moment end with; a process that is killed leaves them.
LOCK, PARTIAL = ".lock", ".partial"

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

    def put(self, key: str, body: bytes) -> None:
        """Write an object, whether or not it exists; in any thread."""
        self._run(self._put(key, body))

    def holds(self, key: str, body: bytes) -> bool:
        """Whether an object exists and has these contents; in any thread."""
        return self._get(key) == body

    def delete(self, key: str) -> None:
        """Delete an object."""
        self._run(self.store.delete(key))

    def keys_below(self, prefix: str) -> list[str] | None:
        """Return all keys that begin with a prefix; None if the store cannot list them."""
        if not can_list(self.store):
            return None
        listing = self._run(list_inside(self.store, prefix))
        return [*listing.keys, *listing.links]

    def names_in(self, path: str) -> list[str]:
        """Return the names in a directory."""

        async def names() -> list[str]:
            return [name async for name in self.store.list_dir(path)]

        return self._run(names())

    def exists(self, key: str) -> bool:
        """Whether an object exists."""
        with _refusals(key):
            return self._run(self.store.exists(key))

    def size(self, key: str) -> int:
        """Return the size of an existing object, in bytes."""
        return self._run(self.store.getsize(key))

    @contextmanager
    def held(self, key: str) -> Generator[None]:
        """Keep other processes from work on an object, if the kind of store can do that.

        Raises
        ------
        WriteConflictError
            Another writer holds it.
        """
        yield

    async def _put(self, key: str, body: bytes) -> None:
        with _refusals(key):
            await self.store.set(key, default_buffer_prototype().buffer.from_bytes(body))

    def _get(self, key: str) -> bytes | None:
        found = self._run(self.store.get(key, default_buffer_prototype()))
        return None if found is None else found.to_bytes()

    def _run[T](self, steps: Coroutine[Any, Any, T]) -> T:
        with self._own_errors():
            return sync(steps)

    @contextmanager
    def _own_errors(self) -> Generator[None]:
        """Raise this package's errors in place of those of obstore."""
        try:
            yield
        except store_errors() as error:
            raise store_failure(error).in_context(location=store_name(self.store)) from error
        finally:
            look_again()  # in ManifestStores, which know nothing of what is written here

    def _compare_and_put(self, key: str, before: Stored, body: bytes) -> None:
        """Replace an object while nobody else can write it."""
        found = self._get(key)
        if found == body:
            return
        if found != before.body:
            raise _conflict(key)
        self._run(self._put(key, body))


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
            self._run(self._put(key, body))
            return True

    def replace(self, key: str, before: Stored, body: bytes) -> None:
        with self._lock:
            self._compare_and_put(key, before, body)


class _Directory(GuardedStore):
    """Files, which cannot be replaced conditionally, so that writers take turns by a lock file.

    A file is written under another name first, so that nobody ever sees part of it. As in
    zarr's LocalStore, the system decides when it reaches the disk.
    """

    def __init__(self, store: Store, root: Path) -> None:
        super().__init__(store)
        self._root = root

    def read(self, key: str) -> Stored:
        path = self._root / key
        if any(os.path.lexists(f"{path}{ending}") for ending in (LOCK, PARTIAL)):
            # A process that was killed may have left them.
            _remove_unlocked(path)
        return super().read(key)

    def create(self, key: str, body: bytes) -> bool:
        if self.read(key).body is not None:
            return False
        path = self._root / key
        with _locked(path), _written(path, body) as partial:
            try:
                os.link(partial, path)
            except FileExistsError:
                return False
            except OSError:  # a file system without hard links
                if path.exists():
                    return False
                partial.replace(path)
        return True

    def _get(self, key: str) -> bytes | None:
        # Not through the store: obstore fails if there is a file in place of a directory.
        try:
            return (self._root / key).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def put(self, key: str, body: bytes) -> None:
        # Not through the store, whose event loop takes longer for a small file than the system.
        path = self._root / key
        try:
            _replace(path, body)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, body)

    async def _put(self, key: str, body: bytes) -> None:
        await asyncio.to_thread(self.put, key, body)

    @contextmanager
    def held(self, key: str) -> Generator[None]:
        # Another file than the one that is locked while the object is written.
        with _locked(self._root / f"{key}.held"):
            yield

    def replace(self, key: str, before: Stored, body: bytes) -> None:
        with _locked(self._root / key):
            self._compare_and_put(key, before, body)


def _replace(path: Path, body: bytes) -> None:
    """Write a file whose directory exists."""
    partial = path.with_name(f"{path.name}{PARTIAL}")
    try:
        with partial.open("wb") as file:
            file.write(body)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def _written(path: Path, body: bytes) -> Generator[Path]:
    """Yield a complete file beside a path, under the one name that a later writer overwrites."""
    partial = path.with_name(f"{path.name}{PARTIAL}")
    try:
        partial.write_bytes(body)
        yield partial
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Hold a lock on a file that is visible to other processes."""
    lock = path.with_name(f"{path.name}{LOCK}")
    lock.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _PATIENCE
    while (held := _try_lock(lock)) is None:
        if time.monotonic() > deadline:
            raise _locked_by_another(lock)
        time.sleep(0.005)
    with _releasing(lock, held):
        os.write(held, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield


@contextmanager
def _releasing(lock: Path, held: int) -> Generator[None]:
    try:
        yield
    finally:
        if sys.platform == "win32":  # which does not remove an open file
            os.close(held)
            lock.unlink()
        else:
            try:
                lock.unlink()
            finally:
                os.close(held)


def _remove_unlocked(path: Path) -> None:
    """Remove what a writer of a file left behind, unless it is at work."""
    lock = path.with_name(f"{path.name}{LOCK}")
    held = _try_lock(lock)
    if held is not None:
        with _releasing(lock, held):
            path.with_name(f"{path.name}{PARTIAL}").unlink(missing_ok=True)


if sys.platform == "win32":

    def _try_lock(lock: Path) -> int | None:
        """Create the lock file, or return None if it exists."""
        try:
            return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return None

else:
    import fcntl

    def _try_lock(lock: Path) -> int | None:
        """Lock the lock file, or return None if another writer has locked it.

        The system takes the lock away from a process that ends, so that a file that it left
        behind is no obstacle.
        """
        file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), lock.stat()):
                os.truncate(file, 0)
                return file
        except (BlockingIOError, FileNotFoundError):
            pass  # held by another writer, or just removed by it
        except OSError as error:
            os.close(file)
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
                raise _undetectable("file system") from error
            raise
        os.close(file)
        return None


def _locked_by_another(lock: Path) -> WriteConflictError:
    owner, remedy = "an unnamed process", "Try again when it has finished."
    if sys.platform == "win32":
        remedy += " If it was interrupted, remove the lock file."
    with contextlib.suppress(FileNotFoundError):
        owner = lock.read_text().strip() or owner
    return WriteConflictError(
        f"another writer has held the lock for more than {_PATIENCE:g} seconds: {owner}",
        location=str(lock),
        remedy=remedy,
    )


class _ObjectStorage(GuardedStore):
    """A storage service, or memory, with entity tags or versions of objects."""

    def __init__(self, store: ObjectStore[Any]) -> None:
        super().__init__(store)
        self._objects: Any = store.store

    def read(self, key: str) -> Stored:
        try:
            with self._own_errors():
                found = self._objects.get(key)
        except FileNotFoundError:
            return Stored(None)
        version = {name: found.meta[name] for name in ("e_tag", "version") if found.meta.get(name)}
        return Stored(bytes(found.bytes()), version)

    def create(self, key: str, body: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        with self._own_errors():
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
        mode = "create" if before.body is None else before.version
        with self._own_errors():
            try:
                self._objects.put(key, body, mode=mode)
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
        self._run(self._put(key, body))
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
