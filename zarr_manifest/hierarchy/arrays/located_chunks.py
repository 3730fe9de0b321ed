"""Where the bytes of the chunks of a whole selection are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec import Struct

if TYPE_CHECKING:
    from zarr_manifest.sources import ManyRanges

__all__ = ["LocatedChunks"]


class LocatedChunks(Struct):
    """Where the bytes of chunks are. Chunks are told by their positions in the selection.

    Parameters
    ----------
    ranged : ndarray of int64
        The chunks whose bytes are ranges of objects.
    ranges : ManyRanges
        The ranges, one for each of those.
    inline : dict of int to memoryview
        The chunks whose bytes the manifest holds.
    missing, empty : list of int
        The chunks that the manifest does not name, and those that it declares empty.
    alone : list of int
        The chunks that cannot be read with others: their entry does not say where it ends, or
        has more bytes than are accepted without looking at the chunk.
    checksums : dict of int to str
        What the bytes of chunks must match.
    """

    ranged: npt.NDArray[np.int64]
    ranges: ManyRanges
    inline: dict[int, memoryview]
    missing: list[int]
    empty: list[int]
    alone: list[int]
    checksums: dict[int, str]
