"""Work at the same time: coroutines in order, calls that are shared, threads that read and decode.

Event loops do not wait for each other: one that was stopped in the middle of a call would keep the
others waiting for ever.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary


def in_own_loop[T](work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in an event loop of its own.

    Not in zarr's: the threads in which that reads files may all be waiting for this one.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


async def in_order[T](
    calls: Iterable[Callable[[], Coroutine[Any, Any, T]]], concurrent: int
) -> AsyncGenerator[T]:
    """Yield the results of calls in order, with at most `concurrent` calls running or waiting.

    A failure is raised when its turn comes; calls still running are then cancelled.

    Examples
    --------
    >>> async def double(n):
    ...     return 2 * n
    >>> async def doubled():
    ...     calls = (lambda n=n: double(n) for n in range(4))
    ...     return [n async for n in in_order(calls, 2)]
    >>> asyncio.run(doubled())
    [0, 2, 4, 6]
    """
    running: deque[asyncio.Task[T]] = deque()
    try:
        for call in calls:
            running.append(asyncio.ensure_future(call()))
            if len(running) == concurrent:
                yield await running.popleft()
        while running:
            yield await running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


# Calls that are shared ---------------------------------------------------------


class _SharedCall[V]:
    """A call that is under way, and the number of readers that wait for it."""

    def __init__(self, made: Coroutine[Any, Any, V]) -> None:
        self.task = asyncio.ensure_future(made)
        self.waiting = 0


class SharedCalls[K: Hashable, V]:
    """Shares one call per key among all that ask for it while it is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Made for the first call: each array has one of these, and most arrays are not read.
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[K, _SharedCall[V]]] | None
        self._of_loops = None

    def _under_way(self) -> dict[K, _SharedCall[V]]:
        with self._lock:
            if self._of_loops is None:
                self._of_loops = WeakKeyDictionary()
            return self._of_loops.setdefault(asyncio.get_running_loop(), {})

    async def get(self, key: K, make: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Make the call, or wait for that of another reader of the same event loop.

        It is cancelled once no reader waits for it.
        """
        calls = self._under_way()
        call = calls.get(key)
        if call is None:
            call = calls[key] = _SharedCall(make())
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


def _forget[K, V](calls: dict[K, _SharedCall[V]], key: K, call: _SharedCall[V]) -> None:
    if calls.get(key) is call:
        del calls[key]


# Threads that read and decode --------------------------------------------------


async def all_or_none(reads: Sequence[Coroutine[Any, Any, None]], stop: threading.Event) -> None:
    """Run reads at the same time; after a failure, stop the others first.

    Parameters
    ----------
    reads : sequence of coroutine
        When cancelled, they end once nothing that they began goes on.
    stop : threading.Event
        Set then, for threads, which cannot be cancelled.
    """
    if not reads:
        return
    tasks = [asyncio.ensure_future(read) for read in reads]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        stop.set()
        for task in tasks:
            task.cancel()
        await until_done(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def until_done(futures: Sequence[asyncio.Future[Any]]) -> None:
    """Wait for futures, even if this is cancelled, and raise none of their exceptions."""
    cancelled: asyncio.CancelledError | None = None
    while pending := [future for future in futures if not future.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
    for future in futures:
        if not future.cancelled():
            future.exception()  # asyncio complains about those that nobody asks for
    if cancelled is not None:
        raise cancelled


class Budget:
    """A number of bytes that may be in flight; what is larger than all of it goes alone.

    Who asks first is served first.

    Parameters
    ----------
    most : int
        How many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._waiting = deque[tuple[int, asyncio.Future[None]]]()

    @asynccontextmanager
    async def taken(self, nbytes: int) -> AsyncGenerator[None]:
        """Wait until so many bytes may be in flight; they are until the block ends."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((nbytes, turn))
        self._let_in()
        try:
            await turn
            yield
        finally:
            if not turn.cancelled():
                self._taken -= nbytes
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            nbytes, turn = self._waiting[0]
            if not turn.cancelled():
                if self._taken and self._taken + nbytes > self._most:
                    return
                self._taken += nbytes
                turn.set_result(None)
            self._waiting.popleft()


def thread_count() -> int:
    """Return the number of threads."""
    return os.cpu_count() or 1


class _DecodingThreads:
    """Threads that are started when they are first needed, and that a forked process makes anew."""

    def __init__(self) -> None:
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Start without the threads of the parent, which a forked process does not have."""
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self.turns = threading.BoundedSemaphore(thread_count())

    def submit[**P, T](self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in one of the threads."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(thread_count(), "zarr-manifest-bulk")
            return self._pool.submit(call, *args, **kwargs)


_threads = _DecodingThreads()


def decoding() -> threading.BoundedSemaphore:
    """Return the turns that blocks which decode wait for: as many as there are threads."""
    return _threads.turns


async def in_decoding_thread[**P, T](call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in one of the threads, and return its result.

    If this is cancelled, a call that has begun is waited for: nobody else may use what it writes
    to before that.
    """
    running = _threads.submit(call, *args, **kwargs)
    waiting = asyncio.wrap_future(running)
    try:
        await asyncio.wait([waiting])
    except asyncio.CancelledError:
        running.cancel()
        await until_done([waiting])
        raise
    return waiting.result()
