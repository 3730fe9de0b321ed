"""Run many coroutines with results in order, or one without an event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


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
