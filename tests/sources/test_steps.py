"""Steps: both drivers give a procedure the same results and the same errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarr_manifest.sources.steps import Call, Steps, in_order, run_async, run_sync

type Run = Callable[[Steps[Any]], Any]


def run_in_loop(steps: Steps[Any]) -> Any:
    return asyncio.run(run_async(steps))


BOTH = pytest.mark.parametrize("run", [run_sync, run_in_loop])


def answer(value: Any) -> Call:
    """A call that returns a value, or raises an exception."""

    def synchronous() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    async def asynchronous() -> Any:
        await asyncio.sleep(0)
        return synchronous()

    return Call(asynchronous, synchronous)


@given(st.lists(st.integers() | st.just("fail"), max_size=6))
def test_both_drivers_agree(script: list[Any]) -> None:
    def procedure() -> Steps[list[Any]]:
        seen: list[Any] = []
        for item in script:
            try:
                seen.append((yield answer(OSError(item) if item == "fail" else item)))
            except OSError as error:
                seen.append(str(error))
        return seen

    assert run_sync(procedure()) == run_in_loop(procedure()) == script


@BOTH
def test_no_calls(run: Run) -> None:
    def procedure() -> Steps[int]:
        if not run:
            yield answer(0)
        return 7

    assert run(procedure()) == 7


@BOTH
def test_errors_of_calls_reach_the_caller(run: Run) -> None:
    closed = []

    def procedure() -> Steps[None]:
        try:
            yield answer(OSError("gone"))
        finally:
            closed.append(True)

    with pytest.raises(OSError, match="gone"):
        run(procedure())
    assert closed == [True]


@BOTH
def test_errors_of_the_procedure_reach_the_caller(run: Run) -> None:
    def procedure() -> Steps[None]:
        yield answer(1)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        run(procedure())


@BOTH
def test_errors_can_be_replaced_and_answered(run: Run) -> None:
    def procedure() -> Steps[str]:
        try:
            yield answer(OSError("gone"))
        except OSError as error:
            text: str = yield answer(f"instead of {error}")
        return text

    assert run(procedure()) == "instead of gone"


@BOTH
def test_interruption_closes_the_procedure(run: Run) -> None:
    seen: list[str] = []

    def procedure() -> Steps[None]:
        try:
            yield answer(KeyboardInterrupt())
        except Exception:
            seen.append("caught")
        finally:
            seen.append("closed")

    with pytest.raises(KeyboardInterrupt):
        run(procedure())
    assert seen == ["closed"]


async def test_cancellation_closes_the_procedure() -> None:
    seen: list[str] = []

    def procedure() -> Steps[None]:
        try:
            yield Call(lambda: asyncio.sleep(60), lambda: None)
        finally:
            seen.append("closed")

    task = asyncio.create_task(run_async(procedure()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["closed"]


async def test_a_failure_cancels_the_calls_that_still_run() -> None:
    cancelled: list[int] = []

    async def call(number: int) -> int:
        if number == 1:
            raise ValueError("failed")
        try:
            await asyncio.sleep(60 * number)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    results = in_order((lambda number=number: call(number) for number in range(4)), 3)
    with pytest.raises(ValueError, match="failed"):
        assert [result async for result in results] == []
    assert cancelled == [2]  # the last one had not begun
