"""zarr stores that fail after a number of changes, as if the process had ended there.

In memory and in object storage, a change is an object that is put or deleted. On disk, it is
whatever Python asks of the system: a file that is opened for writing, linked, renamed or removed,
a new directory.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from obstore.store import MemoryStore as ObstoreMemoryStore
from obstore.store import S3Store
from zarr.abc.store import Store
from zarr.storage import LocalStore, MemoryStore, ObjectStore

from tests.properties import THOROUGH
from zarr_manifest.sources import MOMENTARY

__all__ = [
    "Interrupted",
    "InterruptedDirectory",
    "InterruptedMemory",
    "InterruptedObjects",
    "InterruptedObstoreMemory",
    "InterruptedS3",
    "changes_below",
    "contents",
    "copied",
    "every_change",
    "stop_interrupting",
]


class Interrupted(Exception):
    """The end of the process."""


class _Changes:
    """Counts what is set and deleted; `left` changes are made, and no more."""

    left = 10**9

    def change(self) -> None:
        if self.left <= 0:  # also if two threads met
            raise Interrupted
        self.left -= 1


class InterruptedMemory(_Changes, MemoryStore):
    """With `states`, what it held before each change is kept there."""

    states: list[dict[str, Any]] | None = None

    def change(self) -> None:
        super().change()
        if self.states is not None:
            self.states.append(dict(self._store_dict))

    async def set(self, *args: Any, **options: Any) -> None:
        self.change()
        await super().set(*args, **options)

    async def delete(self, key: str) -> None:
        self.change()
        await super().delete(key)

    async def delete_dir(self, prefix: str) -> None:
        await Store.delete_dir(self, prefix)  # one after the other


class _Puts(_Changes):
    """The store of obstore, whose conditional puts zarr has no method for."""

    def put(self, *args: Any, **options: Any) -> Any:
        self.change()
        return super().put(*args, **options)  # type: ignore[misc]


class InterruptedObstoreMemory(_Puts, ObstoreMemoryStore):
    __module__ = "obstore.store"  # zarr looks at that


class InterruptedS3(_Puts, S3Store):
    __module__ = "obstore.store"


class InterruptedObjects(ObjectStore[Any]):
    """Object storage: one of the two above, as zarr's store."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "left":
            self.store.left = value
        else:
            super().__setattr__(name, value)

    async def set(self, *args: Any, **options: Any) -> None:
        self.store.change()
        await super().set(*args, **options)

    async def delete(self, key: str) -> None:
        self.store.change()
        await super().delete(key)


def contents(store: Any) -> dict[str, bytes]:
    """Everything in one of these stores, but for files that exist for a moment."""
    if isinstance(store, InterruptedMemory):
        return {key: value.to_bytes() for key, value in store._store_dict.items()}
    if isinstance(store, InterruptedObjects):
        keys = [meta["path"] for batch in store.store.list() for meta in batch]
        return {key: bytes(store.store.get(key).bytes()) for key in keys}
    return {
        path.relative_to(store.root).as_posix(): path.read_bytes()
        for path in store.root.rglob("*")
        if path.is_file() and path.suffix not in MOMENTARY
    }


# The positions of what is changed, and of the descriptor of the directory that it is in.
_CHANGING = {
    "os.rename": (1, 3),
    "os.link": (1, 3),
    "os.remove": (0, 1),
    "os.mkdir": (0, 2),
    "os.rmdir": (0, 1),
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def changes_below(event: str, arguments: tuple[Any, ...], root: str) -> bool:
    """Whether an audit event is about to change a file or directory below another."""
    if event == "open":
        path, _, flags = arguments
        if not isinstance(path, str) or not flags & _WRITING:
            return False
        if path.startswith("/"):
            return Path(path).is_relative_to(root)
        # The event does not tell in which directory a name is opened: one that is open now.
        return any(place.is_relative_to(root) for place in _open_places())
    if event not in _CHANGING:
        return False
    path, directory = (arguments[position] for position in _CHANGING[event])
    above = Path(f"/proc/self/fd/{directory}").readlink() if directory >= 0 else Path()
    return (above / os.fspath(path)).is_relative_to(root)


def _open_places() -> Iterator[Path]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            yield descriptor.readlink()


class InterruptedDirectory(_Changes, LocalStore):
    """Watched only while the number of changes is limited."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "left":
            if value < _Changes.left:
                _begin_to_watch()
                _watched[str(self.root.absolute())] = self
            elif value == _Changes.left:
                _watched.pop(str(self.root.absolute()), None)


_watched: dict[str, InterruptedDirectory] = {}


def copied(store: Any, to: Path) -> Any:
    """Return a copy of a store; what was written once costs the others only its bytes."""
    if isinstance(store, InterruptedMemory):
        return InterruptedMemory(dict(store._store_dict))
    if store.root.exists():
        shutil.copytree(store.root, to)
    return InterruptedDirectory(to)


def stop_interrupting() -> None:
    """Let all directories be changed again."""
    _watched.clear()


@functools.cache
def _begin_to_watch() -> None:
    """Add a hook that cannot be removed, and takes time in whatever a process does from now on."""
    sys.addaudithook(_watch)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    for root, store in list(_watched.items()):
        if changes_below(event, arguments, root):
            store.change()


def every_change(
    make: Callable[[], Any], change: Callable[[Any], Any]
) -> Iterator[tuple[Any, bool]]:
    """Yield a store after every number of changes that a writer makes, and whether it is the last.

    Unless the tests are thorough: on disk and in S3, after every few; and in memory, a copy of what
    one writer had changed by then, which one that ends there leaves, too.
    """
    store, stride = make(), 1
    if not THOROUGH:
        if isinstance(store, InterruptedMemory):
            store.states = states = []
            change(store)
            states.append(store._store_dict)
            for state in states:
                copy = make()
                copy._store_dict.clear()
                copy._store_dict.update(state)
                yield copy, state is store._store_dict
            return
        is_s3 = isinstance(store, InterruptedObjects) and isinstance(store.store, S3Store)
        stride = 5 if isinstance(store, InterruptedDirectory) else 3 if is_s3 else 1
    for left in itertools.count(0, stride):
        store.left = left
        try:
            change(store)
        except Interrupted:
            store.left = _Changes.left
            yield store, False
            store = make()
        else:
            store.left = _Changes.left
            yield store, True
            return
