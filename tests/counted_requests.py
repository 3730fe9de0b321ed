"""A store that writes down every request, and so tells what an operation costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any, Self

from zarr.abc.store import Store
from zarr.storage import WrapperStore

__all__ = ["Requests"]


class Requests(WrapperStore[Store]):
    """Passes on what it is asked, and lists it in :attr:`made`."""

    def __init__(self, store: Store, made: list[tuple[str, str]] | None = None) -> None:
        super().__init__(store)
        self.made: list[tuple[str, str]] = [] if made is None else made

    def _with_store(self, store: Store) -> Self:
        return type(self)(store, self.made)

    def with_read_only(self, read_only: bool = False) -> Self:
        return type(self)(self._store.with_read_only(read_only), self.made)

    def numbers(self) -> Counter[str]:
        """How many requests of each kind were made."""
        return Counter(kind for kind, _ in self.made)

    @property
    def _any(self) -> Any:
        return self._store

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        self.made.append(("get", key))
        return await self._any.get(key, prototype, byte_range)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        self.made.append(("get", key))
        return self._any.get_sync(key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[Any]) -> Any:
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        self.made.append(("head", key))
        return await self._store.exists(key)

    async def getsize(self, key: str) -> int:
        self.made.append(("head", key))
        return await self._store.getsize(key)

    async def set(self, key: str, value: Any) -> None:
        self.made.append(("put", key))
        await self._store.set(key, value)

    def set_sync(self, key: str, value: Any) -> None:
        self.made.append(("put", key))
        self._any.set_sync(key, value)

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        self.made.append(("put", key))
        await self._store.set_if_not_exists(key, value)

    async def delete(self, key: str) -> None:
        self.made.append(("delete", key))
        await self._store.delete(key)

    def delete_sync(self, key: str) -> None:
        self.made.append(("delete", key))
        self._any.delete_sync(key)

    async def is_empty(self, prefix: str) -> bool:
        self.made.append(("list", prefix))
        return await self._store.is_empty(prefix)

    def list(self) -> AsyncIterator[str]:
        return self.list_prefix("")

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        self.made.append(("list", prefix))
        async for key in self._store.list_prefix(prefix):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        self.made.append(("list", prefix))
        async for name in self._store.list_dir(prefix):
            yield name
