"""Threads that read local files and decode chunks; reads that all succeed, or are all stopped.

As many threads as there are processors, and a budget for the bytes that are in flight.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any


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

    def submit[**P, T](self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in one of the threads."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(thread_count(), "zarr-manifest-bulk")
            return self._pool.submit(call, *args, **kwargs)


_threads = _DecodingThreads()


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
