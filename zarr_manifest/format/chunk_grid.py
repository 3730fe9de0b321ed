"""The chunk grid of an array: how many chunks there are, and which elements each holds.

Read from the array's metadata, so that a manifest can be checked and listed without
opening the array. Partitions are blocks of the grid, each with a manifest document of
its own. Pure.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.errors import InvalidConfigurationError, LimitExceededError
from zarr_manifest.format.findings import Findings, collect
from zarr_manifest.format.limits import LARGEST_INTEGER
from zarr_manifest.showing import counted

# Of numpy's arrays.
_MOST_DIMENSIONS = 64

# Chunks of different lengths along one dimension.
_MOST_EDGES = 2**22


class ChunkGrid(Struct, frozen=True):
    """The chunks of an array, regular or rectilinear.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array, in elements.
    regular : tuple of int, optional
        Chunk shape of a regular grid.
    edges : tuple of sequence of int, optional
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
    edges: tuple[Sequence[int], ...] | None = None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self | None:
        """Read the chunk grid from Zarr v3 array metadata.

        Returns
        -------
        ChunkGrid or None
            None if the chunk grid is of an unknown kind, invalid, or too large for any reader.
        """
        grid, problems = collect(interpret_chunk_grid(metadata))
        return None if problems or grid is None else cls(grid.shape, grid.regular, grid.edges)

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

    def elements(self, index: Sequence[int]) -> int:
        """Return the number of elements in a chunk, including those outside the array."""
        if self.regular is not None:
            return math.prod(self.regular)
        return math.prod(part.stop - part.start for part in self.region(index))


def number_chunks(
    indices: npt.NDArray[np.int64], grid_shape: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return the numbers of chunks from their grid indices (chunks, dimensions).

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
    """Return the grid index of a chunk from its number.

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
    """Return the grid indices (chunks, dimensions) of chunks from their numbers.

    Examples
    --------
    >>> grid_indices((2, 3), np.array([2, 3])).tolist()
    [[0, 2], [1, 0]]
    """
    indices = np.empty((len(numbers), len(grid_shape)), np.int64)
    for dimension in reversed(range(1, len(grid_shape))):
        numbers, indices[:, dimension] = np.divmod(numbers, grid_shape[dimension])
    if grid_shape:
        indices[:, 0] = numbers
    return indices


def interpret_chunk_grid(metadata: Mapping[str, Any]) -> Findings[ChunkGrid | None]:
    """Yield what is wrong with the shape and the chunk grid of an array, and return the grid.

    Metadata of a few bytes may describe more chunks than there are atoms: what no reader can
    hold is refused before anything is made of it. None if the grid is of an unknown kind.
    """
    shape: Any = metadata.get("shape")
    if not isinstance(shape, list | tuple):
        yield _invalid("'shape' is not a list")
        return None
    shape = cast("Sequence[Any]", shape)
    wrong = [n for n in shape if not _is_natural(n)]
    if wrong:
        yield _invalid(f"'shape' has {wrong[0]!r:.40}, which is not an integer from 0 to 2^53-1")
        return None
    if len(shape) > _MOST_DIMENSIONS:
        yield LimitExceededError(
            f"the array has {counted(len(shape), 'dimension')}, the limit is {_MOST_DIMENSIONS}"
        )
        return None
    given: Any = metadata.get("chunk_grid")
    name: Any = cast("Any", given).get("name") if isinstance(given, dict) else given
    if not isinstance(name, str):
        yield _invalid("'chunk_grid' has no name")
        return None
    if name not in ("regular", "rectilinear"):
        return None
    try:
        grid = _parse_grid(name, tuple(map(int, shape)), cast("Any", given)["configuration"])
    except LimitExceededError as error:
        yield error
        return None
    except (KeyError, TypeError, ValueError):
        yield _invalid(f"'chunk_grid' is not a {name} chunk grid of the array's shape")
        return None
    if math.prod(grid.counts) >= 2**62:
        yield LimitExceededError(
            f"the chunk grid is too large: its shape is {list(grid.counts)}",
        )
        return None
    return grid


def _invalid(problem: str) -> InvalidConfigurationError:
    return InvalidConfigurationError(f"the array's metadata is not valid Zarr v3: {problem}")


def _parse_grid(name: str, shape: tuple[int, ...], configuration: Mapping[str, Any]) -> ChunkGrid:
    """Return a chunk grid; raise ValueError, or another built-in error, if it is not valid."""
    if name == "regular":
        if set(configuration) != {"chunk_shape"}:
            raise ValueError("other members")
        chunk_shape: Sequence[Any] = configuration["chunk_shape"]
        regular = tuple(_length(n) for n in chunk_shape)
        if len(regular) != len(shape):
            raise ValueError("another number of dimensions")
        return ChunkGrid(shape, regular=regular)
    lengths: Sequence[Any] = configuration["chunk_shapes"]
    edges = tuple(_edges(given, size) for given, size in zip(lengths, shape, strict=True))
    return ChunkGrid(shape, edges=edges)


def _is_natural(value: object) -> bool:
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and 0 <= cast("int", value) <= LARGEST_INTEGER


def _length(value: Any) -> int:
    if not _is_natural(value) or value == 0:
        raise ValueError("not the length of a chunk")
    return int(value)


def _edges(given: Any, size: int) -> Sequence[int]:
    """Return where chunks end along a dimension, from one length or (run-length) lengths."""
    if _is_natural(given):
        length = _length(given)
        return range(length, size + length, length)
    runs = [(item, 1) if _is_natural(item) else item for item in given]
    if sum(_length(count) for _, count in runs) > _MOST_EDGES:
        raise LimitExceededError(
            f"the chunk grid lists too many chunks along a dimension: the limit is {_MOST_EDGES:,}"
        )
    lengths = (_length(length) for length, count in runs for _ in range(count))
    return tuple(itertools.accumulate(lengths))


class Partitions(Struct, frozen=True, dict=True):
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

    @functools.cached_property
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

    def contains(self, partition: Sequence[int]) -> bool:
        """Whether an index, of numbers that are not negative, is that of a block."""
        return all(map(operator.lt, partition, self.counts))

    def owner(self, index: Sequence[int]) -> tuple[int, ...]:
        """Return the index of the block to which a chunk belongs."""
        return tuple(i // p for i, p in zip(index, self.shape, strict=True))

    def owner_numbers(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the blocks to which chunks belong, given by their grid indices."""
        return number_chunks(indices // np.array(self.shape, np.int64), self.counts)

    def region(self, partition: Sequence[int]) -> tuple[range, ...]:
        """Return the grid indices of the chunks in a block, one range per dimension."""
        return tuple(
            range(i * p, min((i + 1) * p, n))
            for i, p, n in zip(partition, self.shape, self.grid_shape, strict=True)
        )
