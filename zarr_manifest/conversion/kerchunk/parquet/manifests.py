"""Columns of references as manifests: one for a whole array, or one for each of its partitions.

The references of an array come in C order of its chunks. Each partition is a contiguous run
in that order, so that files are read one after the other, each only once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json import chunks_of
from zarr_manifest.conversion.kerchunk.parquet.files import ReferenceRows, RefsFiles, two_versions
from zarr_manifest.errors import ManifestError
from zarr_manifest.format import grid_indices, number_chunks
from zarr_manifest.manifest import Manifest, NumberedPaths

__all__ = ["RefsPartitions", "contiguous_partition_shape", "whole_manifest"]


def contiguous_partition_shape(grid_shape: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the shape of blocks that are contiguous runs of chunks in C order.

    Parameters
    ----------
    grid_shape : sequence of int
        Number of chunks along every dimension.
    most : int
        Maximum number of chunks in a block.

    Examples
    --------
    >>> contiguous_partition_shape((365, 10, 20), 1000)
    (5, 10, 20)
    >>> contiguous_partition_shape((365, 10, 20), 50)
    (1, 2, 20)
    """
    shape: list[int] = []
    for n in reversed(grid_shape):
        along = max(1, min(n, most))
        # Before a dimension that is split, only one row: more would not be contiguous.
        most = most // along if along == n else 1
        shape.append(along)
    return tuple(reversed(shape))


def whole_manifest(
    grid_shape: tuple[int, ...], files: RefsFiles
) -> tuple[Manifest, frozenset[str]]:
    """Return the references of an array, and the relative file paths among them.

    Raises
    ------
    ManifestError
        They cannot be read, or no manifest can express them.
    """
    parts = list(files.rows())
    return _manifest(grid_shape, parts), frozenset[str]().union(*(p.relative for p in parts))


@dataclass(slots=True)
class RefsPartitions:
    """The references of an array as one manifest per partition; can be iterated repeatedly.

    Parameters
    ----------
    path : str
        Path of the array, for messages.
    grid_shape : tuple of int
        Number of chunks along every dimension.
    partition_shape : tuple of int
        As :func:`contiguous_partition_shape` returns it.
    files : RefsFiles
        The files with the references.

    Attributes
    ----------
    was_read : bool
        Whether it has been iterated to the end.
    """

    path: str
    grid_shape: tuple[int, ...]
    partition_shape: tuple[int, ...]
    files: RefsFiles
    was_read: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[Manifest]:
        """Yield the partitions that have references, in C order."""
        try:
            pending: list[ReferenceRows] = []
            owner = -1
            for rows in self.files.rows():
                for number, piece in self._pieces(rows):
                    if number != owner and pending:
                        yield _manifest(self.grid_shape, pending)
                        pending = []
                    owner = number
                    pending.append(piece)
            if pending:
                yield _manifest(self.grid_shape, pending)
            self.was_read = True
        except ManifestError as error:
            raise error.in_context(array=self.path) from error.__cause__

    def first_relative(self) -> frozenset[str]:
        """Return the relative file paths among the first references."""
        return next((rows.relative for rows in self.files.rows()), frozenset[str]())

    def _pieces(self, rows: ReferenceRows) -> Iterator[tuple[int, ReferenceRows]]:
        """Split rows where the partition changes; yield its number with each piece."""
        shape = np.array(self.partition_shape, np.int64)
        counts = tuple(-(-n // p) for n, p in zip(self.grid_shape, shape.tolist(), strict=True))
        blocks = grid_indices(self.grid_shape, rows.numbers) // shape
        owners = number_chunks(blocks, counts)
        cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
        for start, stop in itertools.pairwise(cuts):
            if start < stop:
                yield int(owners[start]), rows.part(start, stop)


def _manifest(grid_shape: tuple[int, ...], parts: Sequence[ReferenceRows]) -> Manifest:
    data: dict[tuple[int, ...], bytes] = {}
    table: dict[str, int] = {}
    path_numbers = [np.empty(0, np.int32)]
    for part in parts:
        # Inline rows have the last number, which stands for no path.
        by_number = [table.setdefault(path, len(table)) for path in part.paths]
        path_numbers.append(np.array([*by_number, -1], np.int32)[part.path_numbers])
        inline = part.numbers[part.path_numbers < 0]
        indices: list[list[int]] = grid_indices(grid_shape, inline).tolist()
        for number, index in zip(inline.tolist(), indices, strict=True):
            data[tuple(index)] = part.data[number]
    return Manifest.from_columns(
        grid_shape,
        paths=NumberedPaths(np.concatenate(path_numbers), tuple(table)),
        offsets=_joined([part.offsets for part in parts]),
        lengths=_joined([part.lengths for part in parts]),
        indices=chunks_of(grid_shape, _joined([part.numbers for part in parts])),
        data=data,
        conditions=_conditions(parts),
    )


def _joined(columns: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *columns])


def _conditions(parts: Sequence[ReferenceRows]) -> dict[str, dict[str, str]]:
    """Return the object versions of paths as conditions."""
    versions: dict[str, str] = {}
    for part in parts:
        versions.update(part.versions)
    for part in parts if versions else ():
        used: list[int] = np.unique(part.path_numbers[part.path_numbers >= 0]).tolist()
        for path in {part.paths[number] for number in used} & versions.keys():
            if part.versions.get(path) != versions[path]:
                raise two_versions(path)
    return {path: {"version": version} for path, version in versions.items()}
