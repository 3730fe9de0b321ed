"""A store that tells what was read from it."""

from __future__ import annotations

import asyncio
from typing import Any

from zarr.abc.store import Store
from zarr.storage import WrapperStore

__all__ = ["Counting"]


class Counting(WrapperStore[Store]):
    """Counts how often each key is read."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.asked: list[str] = []

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        self.asked.append(key)
        await asyncio.sleep(0.02)
        return await self._store.get(key, prototype, byte_range)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        self.asked.append(key)
        underneath: Any = self._store
        return underneath.get_sync(key, prototype=prototype, byte_range=byte_range)
