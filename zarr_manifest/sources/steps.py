"""The same logic for synchronous and asynchronous callers, and many calls in order.

zarr reads stores both ways. Each procedure is written once, as a generator that
yields the calls it needs; a driver makes them and sends back their results.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable
from typing import Any

from msgspec import Struct

__all__ = ["Call", "Steps", "in_order", "run_async", "run_sync"]


class Call(Struct, frozen=True):
    """A call that a procedure needs, in its asynchronous and synchronous forms."""

    asynchronous: Callable[[], Awaitable[Any]]
    synchronous: Callable[[], Any]


type Steps[T] = Generator[Call, Any, T]


async def run_async[T](steps: Steps[T]) -> T:
    """Run a procedure with the asynchronous form of its calls."""
    failure: Exception | None = None
    try:
        call = next(steps)
        while True:
            failure = result = None
            try:
                result = await call.asynchronous()
            except Exception as error:
                failure = error
            # Outside of `except`, or this error would be the context of what replaces it.
            call = steps.send(result) if failure is None else steps.throw(failure)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        steps.close()
        failure = None  # which refers to this frame


def run_sync[T](steps: Steps[T]) -> T:
    """Run a procedure with the synchronous form of its calls.

    Examples
    --------
    >>> async def later():
    ...     return 20
    >>> def procedure():
    ...     number = yield Call(later, lambda: 20)
    ...     return number + 1
    >>> run_sync(procedure())
    21
    """
    failure: Exception | None = None
    try:
        call = next(steps)
        while True:
            failure = result = None
            try:
                result = call.synchronous()
            except Exception as error:
                failure = error
            # Outside of `except`, or this error would be the context of what replaces it.
            call = steps.send(result) if failure is None else steps.throw(failure)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        steps.close()
        failure = None  # which refers to this frame


async def in_order[T](
    calls: Iterable[Callable[[], Coroutine[Any, Any, T]]], at_once: int
) -> AsyncGenerator[T]:
    """Yield the results of calls in order, with at most `at_once` calls running or waiting.

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
            if len(running) == at_once:
                yield await running.popleft()
        while running:
            yield await running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
