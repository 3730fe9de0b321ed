"""Threads that are kept for many calls, and that a forked process makes anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["KeptThreads"]


class KeptThreads:
    """Threads that are started when they are first needed.

    Parameters
    ----------
    count : callable
        Returns how many there are at most; further calls wait for one another.
    name : str
        What their names begin with.
    """

    def __init__(self, count: Callable[[], int], name: str) -> None:
        self._count = count
        self._name = name
        self.forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Start without the threads of the parent, which a forked process does not have."""
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def submit[**P, T](self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in one of the threads."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._count(), thread_name_prefix=self._name)
            return self._pool.submit(call, *args, **kwargs)
