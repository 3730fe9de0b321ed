"""A store that counts what is asked of the one within."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from zarr.abc.store import Store
from zarr.storage import WrapperStore


class CountedStore(WrapperStore[Store]):
    """Takes down each request: the name of the method, and the key or prefix."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.requests: list[tuple[str, str]] = []

    async def get(self, key: str, *arguments: Any, **options: Any) -> Any:
        self.requests.append(("get", key))
        return await self._store.get(key, *arguments, **options)

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
        asked = list(key_ranges)
        self.requests += [("get", key) for key, _ in asked]
        return await self._store.get_partial_values(prototype, asked)

    async def exists(self, key: str) -> bool:
        self.requests.append(("exists", key))
        return await self._store.exists(key)

    async def set(self, key: str, value: Any) -> None:
        self.requests.append(("set", key))
        await self._store.set(key, value)

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        self.requests.append(("set", key))
        await self._store.set_if_not_exists(key, value)

    async def delete(self, key: str) -> None:
        self.requests.append(("delete", key))
        await self._store.delete(key)

    async def getsize(self, key: str) -> int:
        self.requests.append(("size", key))
        return await self._store.getsize(key)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        self.requests.append(("list", prefix))
        async for key in self._store.list_dir(prefix):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        self.requests.append(("list", prefix))
        async for key in self._store.list_prefix(prefix):
            yield key
