"""Many calls, few of them at the same time, answers in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

__all__ = ["in_order"]


async def in_order[T](
    calls: Iterable[Callable[[], Coroutine[Any, Any, T]]], at_once: int
) -> AsyncIterator[T]:
    """Yield what calls return, in their order, and hold at most `at_once` answers.

    The first failure is raised when its turn comes; what runs then is cancelled.

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
            if len(running) == at_once:
                yield await running.popleft()
        while running:
            yield await running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
