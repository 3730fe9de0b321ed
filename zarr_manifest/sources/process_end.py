"""The end of the process: obstore's threads must have handed over their answers by then.

A thread of obstore wakes the event loop that waits for an answer, and then wants the
interpreter once more. If that is ending, CPython before 3.14 ends the thread instead, which
Rust takes for a fatal error: the process is aborted after its work was done. So wait.
"""

from __future__ import annotations

import asyncio
import sys
import time
from types import FrameType

__all__ = ["wait_for_answers"]

_HANDING_OVER = asyncio.BaseEventLoop.call_soon_threadsafe.__code__

# The threads need microseconds; one that is stuck must not keep the process.
_LONGEST_WAIT = 2.0
_PAUSE = 0.0005


def wait_for_answers() -> None:
    """Wait until no thread is handing an answer to an event loop; at most two seconds."""
    deadline = time.monotonic() + _LONGEST_WAIT
    while _any_handing_over() and time.monotonic() < deadline:
        time.sleep(_PAUSE)  # which lets them have the interpreter


def _any_handing_over() -> bool:
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    return any(map(_hands_over, frames.values()))


def _hands_over(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is _HANDING_OVER:
            return True
        frame = frame.f_back
    return False
