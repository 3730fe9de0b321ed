"""A bounded cache, and calls that are made once for all who wait for their result.

Event loops do not wait for each other: one that was stopped in the middle of a call would
keep the others waiting for ever. Readers without an event loop wait only for one another.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from weakref import WeakKeyDictionary

__all__ = ["DocumentCache", "SharedCalls"]


class _AbandonedError(Exception):
    """The reader that made the call was cancelled."""


class SharedCalls[K: Hashable, V]:
    """Makes a call for each key once, for all who ask for it while it is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[K, Future[V]]] = (
            WeakKeyDictionary()
        )
        self._without_loop: dict[K, Future[V]] = {}

    async def get(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        """Make the call, or wait for another reader of the same event loop to do so."""
        with self._lock:
            under_way = self._of_loops.setdefault(asyncio.get_running_loop(), {})
        while True:
            answer, mine = self._join(key, under_way)
            if not mine:
                try:
                    return await asyncio.wrap_future(answer)
                except _AbandonedError:
                    continue
            try:
                value = await make()
            except BaseException as error:
                self._fail(key, under_way, error)
                raise
            self._leave(key, under_way).set_result(value)
            return value

    def get_sync(self, key: K, make: Callable[[], V]) -> V:
        """Make the call without an event loop, or wait for another such reader to do so."""
        while True:
            answer, mine = self._join(key, self._without_loop)
            if not mine:
                try:
                    return answer.result()
                except _AbandonedError:
                    continue
            try:
                value = make()
            except BaseException as error:
                self._fail(key, self._without_loop, error)
                raise
            self._leave(key, self._without_loop).set_result(value)
            return value

    def _join(self, key: K, under_way: dict[K, Future[V]]) -> tuple[Future[V], bool]:
        """Return a future for the result, and whether the caller must make the call."""
        with self._lock:
            others = under_way.get(key)
            if others is not None:
                return others, False
            answer = under_way[key] = Future[V]()
            # A running future cannot be cancelled by a waiting reader.
            answer.set_running_or_notify_cancel()
            return answer, True

    def _leave(self, key: K, under_way: dict[K, Future[V]]) -> Future[V]:
        with self._lock:
            return under_way.pop(key)

    def _fail(self, key: K, under_way: dict[K, Future[V]], error: BaseException) -> None:
        # If only this reader was cancelled, one of the waiting readers takes over.
        abandoned = error if isinstance(error, Exception) else _AbandonedError()
        self._leave(key, under_way).set_exception(abandoned)


@dataclass(frozen=True, slots=True)
class _Kept[V]:
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

    async def get(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        """Return a value; if it is not cached, make it, or wait for another reader to do so."""
        kept = self._find(key)
        if kept is not None:
            return kept.value

        async def make_and_keep() -> V:
            kept = self._find(key)  # made since
            return self._keep(key, await make()) if kept is None else kept.value

        return await self._calls.get(key, make_and_keep)

    def get_sync(self, key: K, make: Callable[[], V]) -> V:
        """Return a value, without an event loop; see :meth:`get`."""
        kept = self._find(key)
        if kept is not None:
            return kept.value

        def make_and_keep() -> V:
            kept = self._find(key)  # made since
            return self._keep(key, make()) if kept is None else kept.value

        return self._calls.get_sync(key, make_and_keep)

    def _find(self, key: K) -> _Kept[V] | None:
        with self._lock:
            kept = self._values.get(key)
            if kept is not None:
                self._values.move_to_end(key)
            return kept

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
