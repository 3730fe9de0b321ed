"""What an action takes in this process: seconds of the clock and of the processors, memory.

Memory is that of the process, so that libraries in other languages count like our own.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

type Measured = dict[str, float]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def measure(action: Callable[[], object]) -> Measured:
    """Run an action once.

    Returns
    -------
    dict
        `wall` and `cpu` in seconds, `peak` (most memory beyond that of before) and `kept` (memory
        still in use at the end, with the result alive) in bytes.
    """
    settle()
    before = resident()
    forget_peak()
    cpu, wall = processor_seconds(), time.perf_counter()
    result = action()
    wall, cpu = time.perf_counter() - wall, processor_seconds() - cpu
    peak = highest() - before
    settle()
    kept = resident() - before
    del result
    return {"wall": wall, "cpu": cpu, "peak": max(0, peak), "kept": max(0, kept)}


def repeat(action: Callable[[], object], rounds: Iterable[object]) -> Measured:
    """Run an action several times, and return the least of each quantity."""
    return least([measure(action) for _ in rounds])


def least(measured: Iterable[Mapping[str, float]]) -> Measured:
    """Return the minimum of each quantity: whatever disturbs only adds."""
    found: Measured = {}
    for each in measured:
        for name, value in each.items():
            found[name] = min(value, found.get(name, value))
    return found


def processor_seconds() -> float:
    """Seconds of all threads of this process, and of child processes that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def settle() -> None:
    """Free what nothing uses, and give it back to the system."""
    gc.collect()
    if sys.platform == "linux":
        trim: Callable[[int], int] = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)
        trim(0)


def resident() -> int:
    """Bytes of memory that the process occupies."""
    return _status("VmRSS")


def highest() -> int:
    """Most bytes that it occupied since `forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Let `highest` start anew."""
    _CLEAR.write_text("5")


def _status(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{_STATUS} has no {name}")
