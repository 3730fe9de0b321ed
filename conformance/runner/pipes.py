"""Named pipes that nobody writes to, and readers that wait for somebody who does."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

__all__ = ["WatchedPipes", "make_pipes"]

# Longer than a reader that does not wait has a pipe open.
_PATIENCE = 2.0
_BETWEEN_LOOKS = 0.1


def make_pipes(paths: Sequence[Path]) -> bool:
    """Make named pipes; return False where there are none."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.mkfifo(path)
        except (AttributeError, NotImplementedError, OSError):
            # Windows has no such function, and some file systems no such files.
            return False
    return True


class WatchedPipes:
    """Ends the waiting of whoever has opened one of the pipes, as a context manager.

    So a reader that waits fails one case, and need not be restarted.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self.had_to_wait = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if self.paths:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self.paths:
            self._thread.join()

    def _watch(self) -> None:
        pause = _PATIENCE
        while not self._stopping.wait(pause):
            pause = _BETWEEN_LOOKS
            for path in self.paths:
                self.had_to_wait |= _release(path)


def _release(path: Path) -> bool:
    """Let readers of a pipe meet its end; return whether there were any."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False  # ENXIO: nobody has opened it
    return True
