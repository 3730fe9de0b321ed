"""Bodies received piece by piece.

To collect a large body first takes twice the time: the system has to clear memory for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from zarr_manifest.format import Conditions
from zarr_manifest.sources.byte_ranges import SourceRange

__all__ = ["PieceReader", "Take"]

type Take = Callable[[int, memoryview], None]
"""Takes some of the bytes that are read, after so many others. None before: from the beginning."""


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
