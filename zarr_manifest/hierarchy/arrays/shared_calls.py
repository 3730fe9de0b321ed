"""Calls that are made once for all who wait for their result.

Event loops do not wait for each other: one that was stopped in the middle of a call would
keep the others waiting for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from weakref import WeakKeyDictionary

__all__ = ["SharedCalls"]


class _AbandonedError(Exception):
    """The reader that made the call was cancelled."""


class SharedCalls[K: Hashable, V]:
    """Makes a call for each key once, for all who ask for it while it is under way."""

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
