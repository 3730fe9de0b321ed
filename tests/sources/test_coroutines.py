"""Running coroutines: failures, cancellation, and loops within loops."""

from __future__ import annotations

import asyncio

import pytest

from zarr_manifest.sources import in_order, in_own_loop


def test_a_coroutine_runs_with_and_without_a_loop_around_it() -> None:
    async def number() -> int:
        await asyncio.sleep(0)
        return 1

    async def within() -> int:
        return in_own_loop(number())

    async def failing() -> None:
        raise KeyError("k")

    assert in_own_loop(number()) == asyncio.run(within()) == 1
    with pytest.raises(KeyError):
        in_own_loop(failing())


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
