"""Stops obstore's threads before the interpreter ends.

Without this, scripts that read from a bucket are now and then killed by SIGABRT after their work.

A thread of obstore that has an answer wakes the event loop that waits for it, and then wants
the interpreter once more. If that is ending, CPython before 3.14 ends the thread instead, which
Rust takes for a fatal error: the process is aborted, after its work was done. So requests that
nobody waits for any more, as after an error in another one, are cancelled, and threads that
hand over an answer are waited for.
"""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import TimeoutError as NotInTime
from types import FrameType

from zarr_manifest.zarr_internals import io_loop

_HANDING_OVER = asyncio.BaseEventLoop.call_soon_threadsafe.__code__

# The threads need microseconds; one that is stuck must not keep the process.
_LONGEST_WAIT = 2.0
_PAUSE = 0.0005

# For a thread to see that its request was cancelled, which it does without a frame of Python.
_AFTER_CANCELLING = 0.05


def finish_requests() -> None:
    """Cancel what is still requested, and wait a few seconds at most for threads with answers."""
    loop = io_loop()
    if loop is not None and loop.is_running():
        try:
            cancelled = asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(_LONGEST_WAIT)
        except NotInTime:
            cancelled = True
        if cancelled:
            time.sleep(_AFTER_CANCELLING)
    deadline = time.monotonic() + _LONGEST_WAIT
    while _any_handing_over() and time.monotonic() < deadline:
        time.sleep(_PAUSE)  # which lets them have the interpreter


async def _cancel_all() -> bool:
    """Cancel all other tasks of the running loop; return whether there were any."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return bool(tasks)


def _any_handing_over() -> bool:
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    return any(map(_hands_over, frames.values()))


def _hands_over(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is _HANDING_OVER:
            return True
        frame = frame.f_back
    return False
