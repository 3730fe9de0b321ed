"""The body of an answer, taken piece by piece as it arrives, in a thread that waits for it.

To collect a large body first takes twice the time: the system has to clear memory for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from zarr_manifest.errors import ShortReadError
from zarr_manifest.format import Conditions
from zarr_manifest.showing import counted
from zarr_manifest.sources.byte_ranges import SourceRange
from zarr_manifest.sources.kept_threads import KeptThreads

if TYPE_CHECKING:
    from obstore import GetResult

__all__ = ["LARGE", "ArrivingBody", "PieceReader", "Take"]

type Take = Callable[[int, memoryview], None]
"""Takes some of the bytes that are read, after so many others. None before: from the beginning."""

# Number of bytes from which on a body is worth a thread.
LARGE = 1024 * 1024

# Smaller pieces take more calls, larger ones more memory.
_LEAST_PIECE = 256 * 1024

# More bodies than that wait for one another.
_MOST_THREADS = 128

_threads = KeptThreads(lambda: _MOST_THREADS, "zarr-manifest-arriving")


@runtime_checkable
class PieceReader(Protocol):
    """Reads ranges of objects, large ones piece by piece."""

    async def read_pieces(
        self, key: str, span: SourceRange, conditions: Conditions, take: Take
    ) -> memoryview | None:
        """Return the bytes of a range of an object; None if they were taken as they arrived.

        After a failure, they may be taken again from the beginning.
        """
        ...


class ArrivingBody:
    """The body of an answer that obstore has the head of.

    Parameters
    ----------
    answer : GetResult
        The answer.
    take : Take
        Takes the pieces.
    """

    def __init__(self, answer: GetResult, take: Take) -> None:
        self._answer = answer
        self._take = take
        self._lock = threading.Lock()
        self._is_stopped = False

    async def taken(self) -> None:
        """Wait until everything is taken.

        If this is cancelled, nothing more is taken, and what has not arrived is not waited for.

        Raises
        ------
        ShortReadError
            The body has not the announced length.
        """
        try:
            await asyncio.wrap_future(_threads.submit(self.take_all))
        finally:
            with self._lock:
                self._is_stopped = True

    def take_all(self) -> None:
        """Have everything taken in the calling thread; see :meth:`taken`."""
        first, last = self._answer.range
        announced, arrived = last - first, 0
        for piece in self._answer.stream(min_chunk_size=_LEAST_PIECE):
            view = memoryview(piece)
            before, arrived = arrived, arrived + len(view)
            with self._lock:
                if self._is_stopped:
                    return
                if arrived <= announced:
                    self._take(before, view)
        if arrived != announced:
            raise ShortReadError(
                f"the source announced {counted(announced, 'byte')}, but {arrived:,} arrived"
            )
