"""A bounded cache, and calls that are made once for all who wait for their result."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable

from msgspec import Struct

from zarr_manifest.hierarchy.arrays.shared_calls import SharedCalls

__all__ = ["DocumentCache"]


class _Kept[V](Struct, frozen=True):
    value: V
    size: int


class DocumentCache[K: Hashable, V]:
    """A least-recently-used cache of values by key. Failures are not cached.

    A value is made once for all who ask for it at the same time; see :class:`SharedCalls`.

    Parameters
    ----------
    capacity : int
        Largest total size of all values; the latest value is kept whatever its size.
    size_of : callable
        Returns the size of a value.
    """

    def __init__(self, capacity: int, size_of: Callable[[V], int]) -> None:
        self._capacity = capacity
        self._size_of = size_of
        self._values: OrderedDict[K, _Kept[V]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._calls = SharedCalls[K, V]()

    def find(self, key: K) -> V | None:
        """Return a value if it is cached; None if not, which is no value."""
        with self._lock:
            kept = self._values.get(key)
            if kept is None:
                return None
            self._values.move_to_end(key)
            return kept.value

    async def get(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        """Return a value; if it is not cached, make it, or wait for another reader to do so."""
        kept = self.find(key)
        if kept is not None:
            return kept

        async def make_and_keep() -> V:
            kept = self.find(key)  # made since
            return self._keep(key, await make()) if kept is None else kept

        return await self._calls.get(key, make_and_keep)

    def _keep(self, key: K, value: V) -> V:
        size = self._size_of(value)
        with self._lock:
            earlier = self._values.pop(key, None)
            self._values[key] = _Kept(value, size)
            self._size += size - (0 if earlier is None else earlier.size)
            while self._size > self._capacity and len(self._values) > 1:
                _, forgotten = self._values.popitem(last=False)
                self._size -= forgotten.size
        return value
