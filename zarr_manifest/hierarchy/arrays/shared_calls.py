"""Calls that are made once for all who wait for their result.

Event loops do not wait for each other: one that was stopped in the middle of a call would
keep the others waiting for ever. Readers without an event loop wait only for one another.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from weakref import WeakKeyDictionary

__all__ = ["SharedCalls"]


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
