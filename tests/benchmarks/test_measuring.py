"""Times and memory of actions whose cost is known; processes that fail."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.effort import Effort
from benchmarks.measuring import Measured, measure, repeat
from benchmarks.processes import FailedInProcess, in_fresh_process

pytestmark = pytest.mark.slow

MEBIBYTE = 1 << 20


def measured(action: Callable[[], object]) -> Measured:
    # What is used for the first time takes memory of its own.
    measure(lambda: np.ones(1, np.uint8).sum())
    return measure(action)


def allocate() -> object:
    np.ones(64 * MEBIBYTE, np.uint8).sum()
    return np.ones(16 * MEBIBYTE, np.uint8)


def spin() -> None:
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass


def test_peak_and_kept_memory_are_told_apart() -> None:
    found = in_fresh_process(measured, allocate)
    assert 60 < found["peak"] / MEBIBYTE < 90
    assert 15 < found["kept"] / MEBIBYTE < 20


def test_waiting_takes_time_but_no_processor() -> None:
    found = in_fresh_process(measured, sleep)
    assert found["wall"] >= 0.2
    assert found["cpu"] < 0.1


def sleep() -> None:
    time.sleep(0.2)


def test_processor_seconds_are_counted() -> None:
    assert in_fresh_process(measured, spin)["cpu"] >= 0.2


def test_the_least_of_a_few_rounds_counts() -> None:
    assert in_fresh_process(repeated)["wall"] < 0.05


def repeated() -> Measured:
    lengths = iter([0.1, 0.001, 0.05])
    return repeat(lambda: time.sleep(next(lengths)), range(3))


def fail() -> Measured:
    raise ValueError("this is\nwhy")


def test_what_fails_elsewhere_says_why_and_where() -> None:
    with pytest.raises(FailedInProcess, match="ValueError: this is") as caught:
        in_fresh_process(fail)
    assert "in fail" in caught.value.traceback


def test_rounds_end_when_they_take_long() -> None:
    rounds = Effort(quick=True).rounds()
    next(rounds)
    time.sleep(0.4)
    assert list(rounds) == []
