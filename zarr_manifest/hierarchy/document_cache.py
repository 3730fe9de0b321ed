"""A bounded cache whose values are made once, however many readers ask at the same time.

For readers in event loops and for those without one, which must not wait for a
loop: it may be the one that they block. Knows nothing of what it keeps.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass

__all__ = ["DocumentCache"]


class _AbandonedError(Exception):
    """Whoever was making the value was cancelled."""


@dataclass(frozen=True, slots=True)
class _Kept[V]:
    value: V
    size: int


class DocumentCache[K: Hashable, V]:
    """Values by key; the least recently used ones are forgotten. Failures are not kept.

    Parameters
    ----------
    capacity : int
        What the sizes of all values may sum up to; the latest one is kept whatever its size.
    size_of : callable
        Says how large a value is.
    """

    def __init__(self, capacity: int, size_of: Callable[[V], int]) -> None:
        self._capacity = capacity
        self._size_of = size_of
        self._values: OrderedDict[K, _Kept[V]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()
        self._making: dict[K, Future[V]] = {}
        self._making_without_loop: dict[K, Future[V]] = {}

    async def get(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        """Return a value; make it, or wait for whoever is making it."""
        while True:
            found = self._find(key, self._making)
            if isinstance(found, _Kept):
                return found.value
            answer, mine = found
            if not mine:
                try:
                    return await asyncio.wrap_future(answer)
                except _AbandonedError:
                    continue
            try:
                value = await make()
            except BaseException as error:
                self._fail(key, self._making, answer, error)
                raise
            self._succeed(key, self._making, answer, value)
            return value

    def get_sync(self, key: K, make: Callable[[], V]) -> V:
        """Return a value, without an event loop; see :meth:`get`."""
        while True:
            found = self._find(key, self._making_without_loop)
            if isinstance(found, _Kept):
                return found.value
            answer, mine = found
            if not mine:
                try:
                    return answer.result()
                except _AbandonedError:
                    continue
            try:
                value = make()
            except BaseException as error:
                self._fail(key, self._making_without_loop, answer, error)
                raise
            self._succeed(key, self._making_without_loop, answer, value)
            return value

    def _find(self, key: K, making: dict[K, Future[V]]) -> _Kept[V] | tuple[Future[V], bool]:
        """Return the value if it is known; else the answer to come, and whether to make it."""
        with self._lock:
            kept = self._values.get(key)
            if kept is not None:
                self._values.move_to_end(key)
                return kept
            others = making.get(key)
            if others is not None:
                return others, False
            answer = making[key] = Future[V]()
            # A running future cannot be cancelled by one of those who wait for it.
            answer.set_running_or_notify_cancel()
            return answer, True

    def _succeed(self, key: K, making: dict[K, Future[V]], answer: Future[V], value: V) -> None:
        size = self._size_of(value)
        with self._lock:
            del making[key]
            earlier = self._values.pop(key, None)
            self._values[key] = _Kept(value, size)
            self._size += size - (0 if earlier is None else earlier.size)
            while self._size > self._capacity and len(self._values) > 1:
                _, forgotten = self._values.popitem(last=False)
                self._size -= forgotten.size
        answer.set_result(value)

    def _fail(
        self, key: K, making: dict[K, Future[V]], answer: Future[V], error: BaseException
    ) -> None:
        with self._lock:
            del making[key]
        # When only this reader was cancelled, one of those that wait takes over.
        answer.set_exception(error if isinstance(error, Exception) else _AbandonedError())
