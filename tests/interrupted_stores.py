"""zarr stores that fail after a number of changes, as if the process had ended there."""

from __future__ import annotations

from typing import Any

from zarr.abc.store import Store
from zarr.storage import LocalStore, MemoryStore

__all__ = ["Interrupted", "InterruptedDirectory", "InterruptedMemory"]


class Interrupted(Exception):
    """The end of the process."""


class _Changes:
    """Counts what is set and deleted; `left` changes are made, and no more."""

    left = 10**9

    def change(self) -> None:
        if self.left == 0:
            raise Interrupted
        self.left -= 1


class InterruptedMemory(_Changes, MemoryStore):
    async def set(self, *args: Any, **options: Any) -> None:
        self.change()
        await super().set(*args, **options)

    async def delete(self, key: str) -> None:
        self.change()
        await super().delete(key)

    async def delete_dir(self, prefix: str) -> None:
        await Store.delete_dir(self, prefix)  # one after the other


class InterruptedDirectory(_Changes, LocalStore):
    async def set(self, *args: Any, **options: Any) -> None:
        self.change()
        await super().set(*args, **options)

    async def delete(self, key: str) -> None:
        self.change()
        await super().delete(key)

    async def delete_dir(self, prefix: str) -> None:
        await Store.delete_dir(self, prefix)  # one after the other
