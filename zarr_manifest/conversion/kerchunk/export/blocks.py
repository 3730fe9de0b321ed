"""Manifest entries as kerchunk references: columns, and URLs in fsspec's form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.urls import kerchunk_url
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import format_canonical, format_last_modified, grid_index
from zarr_manifest.locations import Location, StoreLocation, UrlLocation
from zarr_manifest.manifest import EMPTY, TO_THE_END, Extras, References
from zarr_manifest.stores import object_url

__all__ = ["Block", "ChunkNumbers", "Exporter", "distinct", "in_column"]

type ChunkNumbers = npt.NDArray[np.int64] | range
type _Integers = npt.NDArray[np.int64]
type _Indices = npt.NDArray[np.int32 | np.int64]


class Block(NamedTuple):
    """References of one block of the chunk grid, in C order of the chunks.

    Attributes
    ----------
    numbers : ndarray of int64, sorted, or range
        C-order number of each row's chunk in the whole grid.
    url_numbers : ndarray of int32 or int64
        Index of each row's URL; -1 where the chunk is inline.
    offsets, sizes : ndarray of int64
        In bytes; both 0 for a whole object.
    urls : sequence of str
        In fsspec's form.
    data : dict of int to bytes
        Inline chunks, by chunk number.
    """

    numbers: ChunkNumbers
    url_numbers: _Indices
    offsets: _Integers
    sizes: _Integers
    urls: Sequence[str]
    data: dict[int, bytes]

    @property
    def stated_bytes(self) -> int:
        """Sum of the sizes, and of the inline chunks."""
        return int(self.sizes.sum()) + sum(len(self.data[number]) for number in self.inline())

    def inline(self) -> list[int]:
        """Return the numbers of the chunks that are inline."""
        return _at(self.numbers, np.flatnonzero(self.url_numbers < 0).tolist())


@dataclass(slots=True)
class Exporter:
    """Turns the entries of one array into references.

    Parameters
    ----------
    roots : sequence of UrlLocation
        Locations of the root of the hierarchy's store.
    encoded_fill_value : callable
        Returns the bytes of a chunk of fill values; None to leave out explicitly empty
        chunks.
    dropped : Counter
        Counts what kerchunk cannot express; ``{}`` in a text stands for the number of
        chunks.
    """

    roots: Sequence[UrlLocation]
    encoded_fill_value: Callable[[], bytes] | None = None
    dropped: Counter[str] = field(default_factory=Counter[str])

    def block(self, manifest: References, locations: Sequence[Location]) -> Block:
        """Return the references of a manifest.

        Raises
        ------
        NotConvertibleError
            kerchunk cannot express an entry.
        """
        columns = manifest.columns()
        numbers, sizes = columns.numbers, columns.lengths
        if sizes.min(initial=1) < 1:
            _require_lengths(manifest)
            sizes = np.maximum(sizes, 0)
        versions: list[str | None] = [None]
        version_rows: list[list[int]] = []
        data: dict[int, bytes] = {}
        for extras, rows in manifest.extras():
            self._count_dropped(extras, len(rows))
            if extras.data is not None:
                data.update(dict.fromkeys(_at(numbers, rows), extras.data))
            if extras.conditions.version is not None:
                version_rows.append(rows)
                versions.append(extras.conditions.version)
        empty = columns.path_numbers == EMPTY
        data |= self._encoded_fill_values(_at(numbers, np.flatnonzero(empty).tolist()))
        # A path may have several versions: each is a URL of its own.
        owners = columns.path_numbers
        if version_rows:
            owners = owners * np.int64(len(versions))
            for number, rows in enumerate(version_rows, 1):
                owners[rows] += number
        with_path = columns.path_numbers >= 0
        used, url_numbers = _distinct_from_0(owners, with_path, len(locations) * len(versions))
        urls = [
            self._url(locations[number // len(versions)], versions[number % len(versions)])
            for number in used
        ]
        if not with_path.all():
            sizes = np.where(with_path, sizes, 0)
        block = Block(numbers, url_numbers, columns.offsets, sizes, urls, data)
        return block if self.encoded_fill_value else _without(empty, block)

    def _encoded_fill_values(self, empty: Sequence[int]) -> dict[int, bytes]:
        """Return the data of explicitly empty chunks, given by number."""
        if not empty:
            return {}
        if self.encoded_fill_value is None:
            what = "{} marked as empty, now missing, which reads as fill values"
            self.dropped[what] += len(empty)
            return {}
        self.dropped["{} marked as empty, now encoded fill values"] += len(empty)
        return dict.fromkeys(empty, self.encoded_fill_value())

    def _count_dropped(self, extras: Extras, rows: int) -> None:
        if extras.checksum is not None:
            self.dropped["the checksums of {} were left out"] += rows
        if extras.conditions.etag is not None:
            self.dropped["the entity tags of {} were left out"] += rows
        if format_last_modified(extras.conditions) is not None:
            self.dropped["the modification times of {} were left out"] += rows
        if extras.conditions.size is not None:
            self.dropped["the object sizes of {} were left out"] += rows

    def _url(self, location: Location, version: str | None) -> str:
        if isinstance(location, StoreLocation):
            if version is not None:
                self.dropped["the object versions of {} were left out"] += 1
            return kerchunk_url(object_url(self.roots, location.key))
        return kerchunk_url(location, version)


def distinct(numbers: _Indices, count: int) -> tuple[_Indices, _Indices]:
    """Return the distinct numbers, sorted, and which of them each one is.

    Parameters
    ----------
    numbers : ndarray of int32 or int64
        From 0. Returned if they are all numbers from 0 to `count`.
    count : int
        All of them are smaller.

    Examples
    --------
    >>> distinct(np.array([5, 3, 5]), 6)
    (array([3, 5]), array([1, 0, 1]))
    """
    if len(numbers) and (numbers[1:] >= numbers[:-1]).all():
        starts = np.concatenate([[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1])
        used = numbers[starts]
        if used[-1] - used[0] < len(used):
            return used, numbers - used[0] if used[0] else numbers
        return used, np.repeat(np.arange(len(used)), np.diff(starts, append=len(numbers)))
    if count > 4 * len(numbers):
        return np.unique(numbers, return_inverse=True)
    # No need to sort a million numbers.
    is_used = np.zeros(count, np.bool_)
    is_used[numbers] = True
    used = np.flatnonzero(is_used)
    return used, numbers if len(used) == count else (np.cumsum(is_used) - 1)[numbers]


def _distinct_from_0(
    numbers: _Indices, where: npt.NDArray[np.bool_], count: int
) -> tuple[list[int], _Indices]:
    """Return the same for some of the numbers; the others are none of them, but -1."""
    if where.all():
        used, which = distinct(numbers, count)
        return used.tolist(), which
    used, selected = distinct(numbers[where], count)
    which = np.full(len(numbers), -1, np.int64)
    which[where] = selected
    return used.tolist(), which


def _at(numbers: ChunkNumbers, rows: Sequence[int]) -> list[int]:
    """Return the chunk numbers of some of the rows."""
    if isinstance(numbers, range):
        return [numbers[row] for row in rows]
    selected: list[int] = numbers[rows].tolist()
    return selected


def in_column(numbers: ChunkNumbers) -> _Integers:
    """Return chunk numbers as a column.

    Examples
    --------
    >>> in_column(range(2, 4))
    array([2, 3])
    """
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers


def _require_lengths(manifest: References) -> None:
    """Refuse ranges from an offset to the end of an object: kerchunk cannot express them."""
    columns = manifest.columns()
    open_ended = (columns.lengths == TO_THE_END) & (columns.offsets > 0)
    if open_ended.any():
        row = int(open_ended.argmax())
        raise NotConvertibleError(
            "an entry runs from an offset to the end of its object, but kerchunk needs a length",
            chunk=format_canonical(grid_index(manifest.grid_shape, int(columns.numbers[row]))),
            location=manifest.paths[int(columns.path_numbers[row])],
            remedy="Add 'length' to such entries in the manifest.",
        )


def _without(rows: npt.NDArray[np.bool_], block: Block) -> Block:
    if not rows.any():
        return block
    kept = ~rows
    return block._replace(
        numbers=in_column(block.numbers)[kept],
        url_numbers=block.url_numbers[kept],
        offsets=block.offsets[kept],
        sizes=block.sizes[kept],
    )
