"""Partitions: the blocks of the chunk grid that have a manifest document each.

Pure arithmetic on grid indices (specification, "Partitions").
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zarr_manifest.format.chunk_grid import grid_index
from zarr_manifest.format.chunk_keys import format_canonical

__all__ = ["PLACEHOLDER", "Partitions", "document_reference"]

PLACEHOLDER = "{partition}"


@dataclass(frozen=True, slots=True)
class Partitions:
    """A chunk grid that is cut into blocks.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along every dimension.
    shape : tuple of int
        Number of chunks of a block along every dimension, at least 1.

    Examples
    --------
    >>> partitions = Partitions((5, 3), (2, 3))
    >>> partitions.counts
    (3, 1)
    >>> partitions.owner((4, 1))
    (2, 0)
    >>> partitions.region((2, 0))
    (range(4, 5), range(0, 3))
    """

    grid_shape: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks along every dimension."""
        return tuple(-(-n // p) for n, p in zip(self.grid_shape, self.shape, strict=True))

    @property
    def total(self) -> int:
        """Number of blocks."""
        return math.prod(self.counts)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield the index of every block, in C order."""
        counts = self.counts
        # Not itertools.product, which holds every coordinate of every dimension.
        return (grid_index(counts, number) for number in range(self.total))

    def owner(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the index of the block that a chunk belongs to."""
        return tuple(i // p for i, p in zip(index, self.shape, strict=True))

    def region(self, partition: Sequence[int]) -> tuple[range, ...]:
        """Return the grid indices of the chunks of a block, one range per dimension."""
        return tuple(
            range(i * p, min((i + 1) * p, n))
            for i, p, n in zip(partition, self.shape, self.grid_shape, strict=True)
        )


def document_reference(template: str, partition: Sequence[int]) -> str:
    """Return the URL reference of the document of a block.

    Examples
    --------
    >>> document_reference("./manifest/{partition}.json", (0, 3))
    './manifest/0.3.json'
    """
    return template.replace(PLACEHOLDER, format_canonical(partition))
