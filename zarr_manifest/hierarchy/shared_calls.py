"""Calls shared by concurrent callers, and a bounded cache of results.

Event loops do not wait for each other: one that was stopped in the middle of a call would
keep the others waiting for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from weakref import WeakKeyDictionary

from msgspec import Struct

__all__ = ["DocumentCache", "SharedCalls"]


class _AbandonedError(Exception):
    """The reader that made the call was cancelled."""


class SharedCalls[K: Hashable, V]:
    """Shares one call per key among all that ask for it while it is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_loops: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[K, list[asyncio.Future[V]]]
        ] = WeakKeyDictionary()

    async def get(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        """Make the call, or wait for another reader of the same event loop to do so.

        All go on in the same turn of the event loop, so that what they request next is merged.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            under_way = self._of_loops.setdefault(loop, {})
        while (waiting := under_way.get(key)) is not None:
            # One for each, as a reader that is cancelled cancels what it waits for.
            answer: asyncio.Future[V] = loop.create_future()
            waiting.append(answer)
            try:
                return await answer
            except _AbandonedError:
                continue
        waiting = under_way[key] = []
        try:
            value = await make()
        except BaseException as error:
            del under_way[key]
            # If only this reader was cancelled, one of the waiting readers takes over.
            failure = error if isinstance(error, Exception) else _AbandonedError()
            for answer in _still(waiting):
                answer.set_exception(failure)
            raise
        del under_way[key]
        for answer in _still(waiting):
            answer.set_result(value)
        return value

    async def get_later(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        """Make a call that begins after this one was asked for, or wait for such a call."""
        with self._lock:
            is_under_way = key in self._of_loops.get(asyncio.get_running_loop(), ())
        if is_under_way:
            await self.get(key, make)
        return await self.get(key, make)


def _still[V](waiting: Iterable[asyncio.Future[V]]) -> Iterator[asyncio.Future[V]]:
    """Yield the futures of those who have not been cancelled."""
    return (answer for answer in waiting if not answer.done())


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
