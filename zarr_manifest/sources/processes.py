"""What threads mean for processes: imports before a fork, no work in a fork, and a quiet end.

A process that is forked while another thread imports a module waits for that thread for ever as
soon as it needs the module: the thread does not exist there. Nor do the threads of obstore.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import time
from collections.abc import Collection
from concurrent.futures import TimeoutError as NotInTime
from importlib import import_module
from types import FrameType

from zarr_manifest.errors import SourceError
from zarr_manifest.locations import Files, WebServers, kind_of
from zarr_manifest.zarr_internals import io_loop

# Imports before the first read -------------------------------------------------

_FOR_STORES = ("obstore", "obstore.store", "obstore.exceptions")

_FOR_OBJECTS = (*_FOR_STORES, "zarr_manifest.sources.object_reader", "urllib.request")

_FOR_WEB = (
    "zarr_manifest.sources.web.web_reader",
    "zarr_manifest.sources.web.connections",
    "urllib.request",
    "encodings.idna",  # for names of servers
)

_FOR_BULK = (
    "zarr_manifest.pipeline",
    "zarr_manifest.manifest.scanner",
    "zarr_manifest.hierarchy.located_chunks",
    "zarr_manifest.sources.range_reading",
)

# Seconds after which the requests that begin together are on their way. In a new process, the
# first chunk of a server comes an answer's latency earlier than if the imports came after it.
_ONCE_SENT = 0.005

_importing = threading.RLock()


def _import_all(modules: tuple[str, ...]) -> None:
    """Import modules; other threads cannot fork meanwhile."""
    with _importing:
        for module in modules:
            import_module(module)


def import_for_bulk() -> None:
    """Import what reading arrays in bulk needs."""
    _import_all(_FOR_BULK)


def import_meanwhile() -> None:
    """Import what reading arrays in bulk needs, while the answers to requests are awaited."""
    if _FOR_BULK[0] not in sys.modules:
        asyncio.get_running_loop().call_later(_ONCE_SENT, import_for_bulk)


def import_for_reading(urls: Collection[str], *, is_object_store: bool = False) -> None:
    """Import what reading needs.

    Parameters
    ----------
    urls : collection of str
        What may be read: URLs, or prefixes of URLs, and paths.
    is_object_store : bool
        Whether the hierarchy is in a store of obstore.
    """
    found = [kind_of(url.partition(":")[0].lower()) for url in urls if ":" in url]
    if any(isinstance(kind, WebServers) for kind in found):
        _import_all(_FOR_WEB)
    if is_object_store or not all(isinstance(kind, Files | WebServers) for kind in found):
        _import_all(_FOR_OBJECTS)
    elif any(isinstance(kind, Files) for kind in found) or len(found) < len(urls):
        _import_all(_FOR_STORES)


def _forked() -> None:
    global _importing, _has_threads
    _importing = threading.RLock()
    _has_threads = None if "obstore" in sys.modules else True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _importing.acquire(),
        after_in_parent=lambda: _importing.release(),
        after_in_child=_forked,
    )


# Forks -------------------------------------------------------------------------


# Of a fork whose parent had not used obstore, which takes a moment.
_LONGEST_ANSWER = 3.0

# Whether obstore answers; None if that is to be found out.
_has_threads: bool | None = True


def require_obstore_threads() -> None:
    """Let a fork fail that lacks the threads of obstore, and would wait for them forever.

    Whether its parent has started them, only asking obstore tells.

    Raises
    ------
    SourceError
        It does not answer.
    """
    global _has_threads
    if _has_threads is None:
        _has_threads = _has_answered()
    if not _has_threads:
        raise SourceError(
            "objects cannot be read in this process: it is a fork of one that had read some, and "
            "lacks the threads of obstore",
            remedy="Spawn processes, in multiprocessing's words, instead of forking them.",
        )


def _has_answered() -> bool:
    from zarr_manifest.sources.object_reader import use_threads

    answered = threading.Event()

    def ask() -> None:
        asyncio.run(use_threads())
        answered.set()

    threading.Thread(target=ask, daemon=True).start()
    return answered.wait(_LONGEST_ANSWER)


# The end -----------------------------------------------------------------------

_HANDING_OVER = asyncio.BaseEventLoop.call_soon_threadsafe.__code__

# The threads need microseconds; one that is stuck must not keep the process.
_LONGEST_WAIT = 2.0
_PAUSE = 0.0005

# For a thread to see that its request was cancelled, which it does without a frame of Python.
# With obstore 0.9, an interrupted read of a bucket else ends in a panic that fills the terminal.
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
    """Cancel all other tasks of the running loop; return whether there were any.

    Those of other stores, too: zarr closes the loop next, in which none of them could end.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return bool(tasks)


def _any_handing_over() -> bool:
    # Else reading a bucket aborts the process now and then, after all is done: with signal 6 or 11.
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    return any(map(_hands_over, frames.values()))


def _hands_over(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is _HANDING_OVER:
            return True
        frame = frame.f_back
    return False


# Before zarr's own, which closes the loop: the last one registered is called first.
atexit.register(finish_requests)
