"""As many threads as there are processors: local files are read, and chunks decoded, in them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from zarr_manifest.sources.bulk.waiting import until_done

__all__ = ["in_decoding_thread", "thread_count"]


def thread_count() -> int:
    """Return the number of threads."""
    return os.cpu_count() or 1


class _DecodingThreads:
    """Threads that are started when they are first needed, and that a forked process makes anew."""

    def __init__(self) -> None:
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
                self._pool = ThreadPoolExecutor(thread_count(), "zarr-manifest-bulk")
            return self._pool.submit(call, *args, **kwargs)


_threads = _DecodingThreads()


async def in_decoding_thread[**P](
    call: Callable[P, None], *args: P.args, **kwargs: P.kwargs
) -> None:
    """Call a function in one of the threads.

    If this is cancelled, a call that has begun is waited for: nobody else may use what it writes
    to before that.
    """
    running = _threads.submit(call, *args, **kwargs)
    waiting = asyncio.wrap_future(running)
    try:
        await asyncio.wait([waiting])
    except asyncio.CancelledError:
        running.cancel()
        await until_done([waiting])
        raise
    waiting.result()
