"""As many threads as there are processors: local files are read, and chunks decoded, in them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from zarr_manifest.sources.bulk.waiting import until_done
from zarr_manifest.sources.kept_threads import KeptThreads

__all__ = ["in_decoding_thread", "thread_count"]


def thread_count() -> int:
    """Return the number of threads."""
    return os.cpu_count() or 1


_threads = KeptThreads(thread_count, "zarr-manifest-bulk")


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
