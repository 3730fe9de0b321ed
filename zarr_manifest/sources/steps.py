"""One logic for synchronous and asynchronous callers.

zarr reads stores in both ways. A procedure is written once, as a generator that
yields the calls it needs; a driver makes them and sends back what they return.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any

__all__ = ["Call", "Steps", "run_async", "run_sync"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a procedure needs, in both of its forms."""

    asynchronous: Callable[[], Awaitable[Any]]
    synchronous: Callable[[], Any]


type Steps[T] = Generator[Call, Any, T]


async def run_async[T](steps: Steps[T]) -> T:
    """Run a procedure with the asynchronous form of its calls."""
    try:
        call = next(steps)
        while True:
            try:
                result = await call.asynchronous()
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        steps.close()


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
    try:
        call = next(steps)
        while True:
            try:
                result = call.synchronous()
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        steps.close()
