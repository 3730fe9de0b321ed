"""As many threads as there are processors: local files are read, and chunks decoded, in them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from zarr_manifest.sources.bulk.waiting import until_done

__all__ = ["in_decoding_thread", "thread_count"]

_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def thread_count() -> int:
    """Return the number of threads."""
    return os.cpu_count() or 1


async def in_decoding_thread[**P](
    call: Callable[P, None], *args: P.args, **kwargs: P.kwargs
) -> None:
    """Call a function in one of the threads.

    If this is cancelled, a call that has begun is waited for: nobody else may use what it writes
    to before that.
    """
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(thread_count(), thread_name_prefix="zarr-manifest-bulk")
        running = _pool.submit(call, *args, **kwargs)
    waiting = asyncio.wrap_future(running)
    try:
        await asyncio.wait([waiting])
    except asyncio.CancelledError:
        running.cancel()
        await until_done([waiting])
        raise
    waiting.result()


def _forget_pool() -> None:
    """Start without the threads of the parent, which a forked process does not have."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
