"""Calls shared by concurrent callers, and a bounded cache of results.

Event loops do not wait for each other: one that was stopped in the middle of a call would
keep the others waiting for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct


class _Call[V]:
    """A call that is under way, and the number of readers that wait for it."""

    def __init__(self, made: Coroutine[Any, Any, V]) -> None:
        self.task = asyncio.ensure_future(made)
        self.waiting = 0


class SharedCalls[K: Hashable, V]:
    """Shares one call per key among all that ask for it while it is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[K, _Call[V]]] = (
            WeakKeyDictionary()
        )

    def _under_way(self) -> dict[K, _Call[V]]:
        with self._lock:
            return self._of_loops.setdefault(asyncio.get_running_loop(), {})

    async def get(self, key: K, make: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Make the call, or wait for that of another reader of the same event loop.

        It is cancelled once no reader waits for it.
        """
        calls = self._under_way()
        call = calls.get(key)
        if call is None:
            call = calls[key] = _Call(make())
            call.task.add_done_callback(lambda _: _forget(calls, key, call))
        call.waiting += 1
        try:
            return await asyncio.shield(call.task)
        finally:
            call.waiting -= 1
            if not call.waiting:
                _forget(calls, key, call)
                call.task.cancel()

    async def get_later(self, key: K, make: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Make a call that begins after this one was asked for, or wait for such a call."""
        if key in self._under_way():
            await self.get(key, make)
        return await self.get(key, make)


def _forget[K, V](calls: dict[K, _Call[V]], key: K, call: _Call[V]) -> None:
    if calls.get(key) is call:
        del calls[key]


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

    async def get(self, key: K, make: Callable[[], Coroutine[Any, Any, V]]) -> V:
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
