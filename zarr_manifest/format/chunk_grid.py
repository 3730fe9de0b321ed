"""The chunk grid of an array: how many chunks there are, and which elements each holds.

Read from the array's metadata, so that a manifest can be checked and listed without
opening the array. Partitions are blocks of the grid, each with a manifest document of
its own. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from zarr_manifest.format.chunk_keys import format_canonical

__all__ = [
    "PLACEHOLDER",
    "ChunkGrid",
    "Partitions",
    "document_reference",
    "grid_index",
    "grid_indices",
    "number_chunks",
]


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """The chunks of an array, regular or rectilinear.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array, in elements.
    regular : tuple of int, optional
        Chunk shape of a regular grid.
    edges : tuple of tuple of int, optional
        Where the chunks of a rectilinear grid end along each dimension, in elements.

    Examples
    --------
    >>> grid = ChunkGrid.from_metadata(
    ...     {
    ...         "shape": [5, 4],
    ...         "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 4]}},
    ...     }
    ... )
    >>> grid.counts
    (3, 1)
    >>> grid.region((2, 0))
    (slice(4, 5, None), slice(0, 4, None))
    """

    shape: tuple[int, ...]
    regular: tuple[int, ...] | None = None
    edges: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self | None:
        """Read the chunk grid from Zarr v3 array metadata.

        Returns
        -------
        ChunkGrid or None
            None if the chunk grid is of an unknown kind, or invalid.
        """
        try:
            shape = tuple(int(n) for n in metadata["shape"])
            grid = metadata["chunk_grid"]
            configuration = grid["configuration"]
            if grid["name"] == "regular":
                chunk_shape = tuple(int(n) for n in configuration["chunk_shape"])
                if len(chunk_shape) != len(shape) or min(chunk_shape, default=1) < 1:
                    return None
                return cls(shape, regular=chunk_shape)
            if grid["name"] == "rectilinear":
                lengths = configuration["chunk_shapes"]
                edges = tuple(
                    _edges(given, size) for given, size in zip(lengths, shape, strict=True)
                )
                return cls(shape, edges=edges)
        except (KeyError, TypeError, ValueError):
            # zarr reports invalid metadata when it opens the array.
            return None
        return None

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of chunks along each dimension."""
        if self.regular is not None:
            return tuple(-(-n // c) for n, c in zip(self.shape, self.regular, strict=True))
        assert self.edges is not None
        return tuple(len(edges) for edges in self.edges)

    def contains(self, index: Sequence[int]) -> bool:
        """Whether a grid index, of numbers that are not negative, is that of a chunk."""
        return all(i < n for i, n in zip(index, self.counts, strict=True))

    def region(self, index: Sequence[int]) -> tuple[slice, ...]:
        """Return the array elements in the chunk at a grid index."""
        if self.regular is not None:
            return tuple(
                slice(i * c, min((i + 1) * c, n))
                for i, c, n in zip(index, self.regular, self.shape, strict=True)
            )
        assert self.edges is not None
        return tuple(
            slice(edges[i - 1] if i else 0, min(edges[i], n))
            for i, edges, n in zip(index, self.edges, self.shape, strict=True)
        )


def number_chunks(
    indices: npt.NDArray[np.int64], grid_shape: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return the C-order numbers of chunks from their grid indices (chunks, dimensions).

    Examples
    --------
    >>> number_chunks(np.array([[0, 2], [1, 0]]), (2, 3)).tolist()
    [2, 3]
    """
    numbers = np.zeros(len(indices), np.int64)
    for dimension, n in enumerate(grid_shape):
        numbers = numbers * n + indices[:, dimension]
    return numbers


def grid_index(grid_shape: Sequence[int], number: int) -> tuple[int, ...]:
    """Return the grid index of a chunk from its C-order number.

    Examples
    --------
    >>> grid_index((2, 3), 5)
    (1, 2)
    """
    index: list[int] = []
    for n in reversed(grid_shape):
        number, remainder = divmod(number, n)
        index.append(remainder)
    return tuple(reversed(index))


def grid_indices(
    grid_shape: Sequence[int], numbers: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the grid indices (chunks, dimensions) of chunks from their C-order numbers.

    Examples
    --------
    >>> grid_indices((2, 3), np.array([2, 3])).tolist()
    [[0, 2], [1, 0]]
    """
    indices = np.empty((len(numbers), len(grid_shape)), np.int64)
    for dimension in reversed(range(len(grid_shape))):
        numbers, indices[:, dimension] = np.divmod(numbers, grid_shape[dimension])
    return indices


def _edges(given: int | Sequence[Any], size: int) -> tuple[int, ...]:
    """Return where chunks end along a dimension, from one length or (run-length) lengths."""
    if isinstance(given, int):
        return tuple(range(given, size + given, given))
    lengths: list[int] = []
    for item in given:
        if isinstance(item, int):
            lengths.append(item)
        else:
            length, repeat = item
            lengths.extend([length] * repeat)
    return tuple(int(end) for end in np.cumsum(lengths))


PLACEHOLDER = "{partition}"


@dataclass(frozen=True, slots=True)
class Partitions:
    """A chunk grid divided into blocks.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along each dimension.
    shape : tuple of int
        Number of chunks in a block along each dimension, at least 1.

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
        """Number of blocks along each dimension."""
        return tuple(-(-n // p) for n, p in zip(self.grid_shape, self.shape, strict=True))

    @property
    def total(self) -> int:
        """Number of blocks."""
        return math.prod(self.counts)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield the index of every block, in C order."""
        counts = self.counts
        # Not itertools.product, which holds all coordinates of all dimensions in memory.
        return (grid_index(counts, number) for number in range(self.total))

    def owner(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the index of the block to which a chunk belongs."""
        return tuple(i // p for i, p in zip(index, self.shape, strict=True))

    def region(self, partition: Sequence[int]) -> tuple[range, ...]:
        """Return the grid indices of the chunks in a block, one range per dimension."""
        return tuple(
            range(i * p, min((i + 1) * p, n))
            for i, p, n in zip(partition, self.shape, self.grid_shape, strict=True)
        )


def document_reference(template: str, partition: Sequence[int]) -> str:
    """Return the URL reference of a block's manifest document.

    Examples
    --------
    >>> document_reference("./manifest/{partition}.json", (0, 3))
    './manifest/0.3.json'
    """
    return template.replace(PLACEHOLDER, format_canonical(partition))
