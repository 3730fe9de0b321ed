"""The table of references: the entries of a manifest, immutable, held in columns.

Offsets, lengths and path numbers are arrays of numbers, not one object per
chunk; what only a few entries have (inline data, checksums, conditions) is held
by row, as extras. Look-up is by grid index. :class:`zarr_manifest.Manifest` is the
public class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from zarr_manifest.errors import InvalidEntryError
from zarr_manifest.format import (
    Body,
    Conditions,
    Findings,
    Limits,
    Partitions,
    format_canonical,
    grid_index,
    parse_checksum,
)
from zarr_manifest.manifest.author_columns import TO_THE_END, Columns
from zarr_manifest.manifest.block_rows import BlockRows, rows_of_blocks
from zarr_manifest.manifest.decoding import Resolve, interpret_columns, interpret_conditions
from zarr_manifest.manifest.encoding import encode_rows
from zarr_manifest.manifest.keys import Grid
from zarr_manifest.manifest.reference import (
    EMPTY,
    INLINE,
    NO_EXTRAS,
    OBJECT_BYTES,
    Extras,
    Reference,
    Row,
)

__all__ = ["Ranges", "References", "interpret_manifest"]


class Ranges(Struct, frozen=True):
    """Where the bytes of chunks are, one a row; see :class:`Row`.

    Attributes
    ----------
    offsets, lengths : ndarray of int64
        In bytes; a length of ``TO_THE_END`` is that of an entry without one.
    path_numbers : ndarray of int32
        Index in the table of paths; ``INLINE`` or ``EMPTY`` without one.
    """

    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path_numbers: npt.NDArray[np.int32]


class References:
    """The chunk references of one array, or of one of its documents.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along each dimension.
    chunk_numbers : ndarray of int64, sorted, or None
        C-order number of each row's chunk in the grid; None if that is the number of the row.
    offsets, lengths, path_numbers : ndarray
        One value per row; see :class:`Row`.
    paths : tuple of str
        Every distinct path, as written.
    extras : dict of int to Extras
        What only some rows have.
    """

    __slots__ = (
        "_chunk_numbers",
        "_extras",
        "_lengths",
        "_offsets",
        "_path_numbers",
        "grid_shape",
        "paths",
    )

    def __init__(
        self,
        grid_shape: tuple[int, ...],
        chunk_numbers: npt.NDArray[np.int64] | None,
        offsets: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        path_numbers: npt.NDArray[np.int32],
        paths: tuple[str, ...],
        extras: dict[int, Extras],
    ) -> None:
        self.grid_shape = grid_shape
        self.paths = paths
        # A manifest that names every chunk needs no column of chunk numbers.
        if chunk_numbers is not None and len(chunk_numbers) > 0:
            dense = int(chunk_numbers[-1]) == len(chunk_numbers) - 1
            chunk_numbers = None if dense else chunk_numbers
        self._chunk_numbers = chunk_numbers
        self._offsets = offsets
        self._lengths = lengths
        self._path_numbers = path_numbers
        self._extras = extras

    def put_extras(
        self,
        data: Mapping[tuple[int, ...], bytes],
        checksums: Mapping[tuple[int, ...], str],
        conditions: Mapping[str, Mapping[str, str | int]],
    ) -> None:
        """Set inline data, checksums and conditions, while a manifest is being built."""
        by_path = {path: interpret_conditions(path, given) for path, given in conditions.items()}
        for number, path in enumerate(self.paths):
            if path in by_path:
                extra = Extras(conditions=by_path[path])
                rows: list[int] = np.flatnonzero(self._path_numbers == number).tolist()
                self._extras.update(dict.fromkeys(rows, extra))
        for index in {**data, **checksums}:
            row = self._row(index)
            if row is None or self._path_numbers[row] == EMPTY:
                raise InvalidEntryError(
                    "'checksum' requires a path or data", chunk=format_canonical(index)
                )
            before = self._extras.get(row, NO_EXTRAS)
            checksum = checksums.get(index)
            if checksum is not None:
                parse_checksum(checksum)
            self._extras[row] = Extras(data.get(index), checksum, before.conditions)

    def with_paths(self, paths: Sequence[str]) -> References:
        """Return the references with other paths: one for each of the present ones."""
        numbers: dict[str, int] = {}
        table = [numbers.setdefault(path, len(numbers)) for path in paths]
        if len(table) != len(self.paths):
            raise ValueError(f"got {len(table)} paths to replace {len(self.paths)}")
        column = self._path_numbers
        if table != list(range(len(table))):
            # Rows without a path have negative numbers, which index from the end.
            column = np.array([*table, EMPTY, INLINE], np.int32)[column]
        return References(
            self.grid_shape,
            self._chunk_numbers,
            self._offsets,
            self._lengths,
            column,
            tuple(numbers),
            self._extras,
        )

    def without_conditions(self) -> References:
        """Return the references without conditions, but for which version is read."""
        known: dict[int, Extras] = {}
        for extra in self._extras.values():
            if id(extra) not in known:
                known[id(extra)] = replace(extra, conditions=extra.conditions.version_only())
        return self._with_extras({row: known[id(extra)] for row, extra in self._extras.items()})

    def with_conditions(
        self, conditions: Mapping[tuple[int, str | None], Conditions]
    ) -> References:
        """Return the references with other conditions on some objects.

        Parameters
        ----------
        conditions : mapping of (int, str or None) to Conditions
            By the number of a path, and the version that is read of its object.
        """
        numbers = {number for number, _ in conditions}
        rows = np.flatnonzero(np.isin(self._path_numbers, np.array(sorted(numbers), np.int32)))
        shared: dict[tuple[int, str | None], Extras] = {
            key: Extras(conditions=new) for key, new in conditions.items()
        }
        extras = dict(self._extras)
        for row, number in zip(rows.tolist(), self._path_numbers[rows].tolist(), strict=True):
            before = extras.get(row, NO_EXTRAS)
            new = shared.get((number, before.conditions.version))
            if new is None:
                continue
            if before.checksum is not None:
                extras[row] = replace(before, conditions=new.conditions)
            elif new.conditions:
                extras[row] = new
            else:
                extras.pop(row, None)
        return self._with_extras(extras)

    def _with_extras(self, extras: dict[int, Extras]) -> References:
        return References(
            self.grid_shape,
            self._chunk_numbers,
            self._offsets,
            self._lengths,
            self._path_numbers,
            self.paths,
            extras,
        )

    def blocks(self, shape: Sequence[int]) -> Iterator[tuple[tuple[int, ...], References]]:
        """Split the references into blocks of the chunk grid, and yield those with entries.

        Parameters
        ----------
        shape : sequence of int
            Number of chunks in a block along each dimension.

        Yields
        ------
        index, manifest
            Grid index of the block, in C order, and its references, with the grid of the whole.
        """
        partitions = Partitions(self.grid_shape, tuple(shape))
        with_extras = np.sort(np.fromiter(self._extras, np.int64, len(self._extras)))
        for index, rows in rows_of_blocks(self._chunk_numbers, len(self), partitions):
            yield index, self._part(rows, with_extras)

    def _part(self, rows: BlockRows, with_extras: npt.NDArray[np.int64]) -> References:
        """Return some of the rows: a slice shares the columns, and numbers select from them."""
        own = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows.astype(np.int64)
        # Most parts have no extras.
        first, last = np.searchsorted(with_extras, [own[0], own[-1] + 1]).tolist()
        places = np.flatnonzero(np.isin(own, with_extras[first:last])) if first < last else own[:0]
        extra_rows: list[int] = own[places].tolist()
        extras = map(self._extras.__getitem__, extra_rows)
        return References(
            self.grid_shape,
            own if self._chunk_numbers is None else self._chunk_numbers[rows],
            self._offsets[rows],
            self._lengths[rows],
            self._path_numbers[rows],
            self.paths,
            dict(zip(places.tolist(), extras, strict=True)),
        )

    def _numbers(self) -> npt.NDArray[np.int64]:
        """Return the C-order number of each row's chunk."""
        if self._chunk_numbers is None:
            return np.arange(len(self), dtype=np.int64)
        return self._chunk_numbers

    def dumps(self) -> bytes:
        """Return the references as a document; see :meth:`Manifest.dumps`."""
        return encode_rows(
            self.grid_shape,
            self._chunk_numbers,
            self._offsets,
            self._lengths,
            self._path_numbers,
            self.paths,
            self._extras,
            self.reference,
        )

    def most_encoded_bytes(self) -> int:
        """Return a number of bytes that :meth:`dumps` does not exceed, without encoding."""
        # What a character may become in JSON, and the longest numbers with their members.
        character, numbers = 6, 25 * len(self.grid_shape) + 100
        longest = max(map(len, self.paths), default=0)
        return (
            len(self) * (longest * character + numbers)
            + sum(len(rows) * _most_encoded_bytes(extra) for extra, rows in self.extras())
            + 10
        )

    def __len__(self) -> int:
        return len(self._offsets)

    def _row(self, index: Sequence[int]) -> int | None:
        number = 0
        for i, n in zip(index, self.grid_shape, strict=True):
            if not 0 <= i < n:
                return None
            number = number * n + i
        if self._chunk_numbers is None:
            return number if number < len(self._offsets) else None
        row = int(self._chunk_numbers.searchsorted(number))
        if row < len(self._offsets) and self._chunk_numbers.item(row) == number:
            return row
        return None

    def rows(self, chunk_numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows of chunks, given by their C-order numbers in the grid; -1 without one."""
        if self._chunk_numbers is None:
            inside = (chunk_numbers >= 0) & (chunk_numbers < len(self))
            return np.where(inside, chunk_numbers, -1)
        if not len(self):
            return np.full(len(chunk_numbers), -1, np.int64)
        rows = np.searchsorted(self._chunk_numbers, chunk_numbers)
        rows[rows == len(self)] = 0
        return np.where(self._chunk_numbers[rows] == chunk_numbers, rows, -1)

    def ranges(self, rows: npt.NDArray[np.int64] | slice) -> Ranges:
        """Return where the bytes of many rows are, in columns, which must not be modified."""
        return Ranges(self._offsets[rows], self._lengths[rows], self._path_numbers[rows])

    def extras_of(self, rows: Iterable[int]) -> Iterator[tuple[int, Extras]]:
        """Yield the positions of those rows that have extras, and these."""
        if self._extras:
            for position, row in enumerate(rows):
                extra = self._extras.get(row)
                if extra is not None:
                    yield position, extra

    def get(self, index: Sequence[int]) -> Row | None:
        """Return the entry of a chunk, or None."""
        row = self._row(index)
        return None if row is None else self.row(row)

    def row(self, row: int) -> Row:
        """Return a row."""
        length = self._lengths.item(row)
        extra = self._extras.get(row, NO_EXTRAS)
        return Row(
            path_number=self._path_numbers.item(row),
            offset=self._offsets.item(row),
            length=None if length == TO_THE_END else length,
            data=extra.data,
            checksum=extra.checksum,
            conditions=extra.conditions,
        )

    def find(self, index: Sequence[int]) -> Reference | None:
        """Return the reference to a chunk, or None."""
        row = self._row(index)
        return None if row is None else self.reference(row)

    def reference(self, row: int) -> Reference:
        """Return the reference in a row, for users."""
        found = self.row(row)
        return Reference(
            path=self.paths[found.path_number] if found.path_number >= 0 else None,
            offset=found.offset,
            length=found.length,
            data=found.data,
            checksum=found.checksum,
            conditions=found.conditions,
        )

    def chunk_numbers(self) -> npt.NDArray[np.int64] | range:
        """Return the C-order number of each row's chunk, in no memory if that is its row."""
        return range(len(self)) if self._chunk_numbers is None else self._chunk_numbers

    def columns(self) -> Columns:
        """Return the references as columns of numbers, which must not be modified."""
        return Columns(self._numbers(), self._offsets, self._lengths, self._path_numbers)

    def extras(self) -> Iterator[tuple[Extras, list[int]]]:
        """Yield inline data, checksums and conditions, each with the rows that have them."""
        rows: dict[int, list[int]] = {}
        # Many rows share one. By identity: equality would compare whole chunks.
        for row, extra in self._extras.items():
            rows.setdefault(id(extra), []).append(row)
        for own in rows.values():
            yield self._extras[own[0]], own

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield the grid index of every chunk in the manifest, in C order."""
        return self._indices(range(len(self)))

    def _indices(self, rows: Sequence[int]) -> Iterator[tuple[int, ...]]:
        for row in rows:
            number = row if self._chunk_numbers is None else int(self._chunk_numbers[row])
            yield grid_index(self.grid_shape, number)

    @property
    def stated_bytes(self) -> int:
        """Total of the lengths given in entries, and of inline data, in bytes."""
        return int(self._lengths[self._lengths != TO_THE_END].sum())

    @property
    def inline_bytes(self) -> int:
        """Total size of inline data, in bytes."""
        return int(self._lengths[self._path_numbers == INLINE].sum())

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of references to objects, of inline and of empty chunks."""
        inline = int(np.count_nonzero(self._path_numbers == INLINE))
        empty = int(np.count_nonzero(self._path_numbers == EMPTY))
        return len(self) - inline - empty, inline, empty

    @property
    def nbytes(self) -> int:
        """Memory used by the columns, in bytes, without the paths and the extras."""
        nbytes = self._offsets.nbytes + self._lengths.nbytes + self._path_numbers.nbytes
        return nbytes if self._chunk_numbers is None else nbytes + self._chunk_numbers.nbytes

    @property
    def memory(self) -> int:
        """Estimated memory of the whole manifest, in bytes."""
        extras = sum(OBJECT_BYTES + len(extra.data or b"") for extra in self._extras.values())
        return self.nbytes + extras + sum(OBJECT_BYTES + len(path) for path in self.paths)

    def items(self) -> Iterator[tuple[tuple[int, ...], Row]]:
        """Yield the grid index and row of every chunk in the manifest, in C order."""
        for row, index in enumerate(self.indices()):
            yield index, self.row(row)

    def open_ended(self) -> Iterator[Row]:
        """Yield the references without a length."""
        rows = np.flatnonzero((self._lengths == TO_THE_END) & (self._path_numbers >= 0))
        for row in rows.tolist():
            yield self.row(row)

    def with_path(self, path_number: int) -> Iterator[tuple[int, ...]]:
        """Yield the grid index of every chunk that refers to a path, in C order."""
        return self._indices(np.flatnonzero(self._path_numbers == path_number).tolist())

    def statistics(self) -> list[tuple[str, int, int]]:
        """Return the path, number of references and stated bytes of every distinct path."""
        with_path = self._path_numbers >= 0
        numbers = self._path_numbers[with_path]
        counts = np.bincount(numbers, minlength=len(self.paths))
        sizes = np.zeros(len(self.paths), np.int64)
        np.add.at(sizes, numbers, np.maximum(self._lengths[with_path], 0))
        return list(zip(self.paths, counts.tolist(), sizes.tolist(), strict=True))


def _most_encoded_bytes(extras: Extras) -> int:
    conditions = extras.conditions
    texts = (extras.checksum, conditions.etag, conditions.version)
    data = len(extras.data or b"") * 4 // 3
    return data + sum(len(text or "") for text in texts) * 6 + 200


def interpret_manifest(
    document: Body, grid: Grid, limits: Limits, *, resolve: Resolve | None = None
) -> Findings[References]:
    """Yield the problems of a manifest document, and return its valid references.

    Parameters
    ----------
    document : bytes
        UTF-8 JSON.
    grid : Grid
        The chunks that keys may name.
    limits : Limits
        Larger documents are rejected.
    resolve : callable, optional
        Given by validators; see :func:`interpret_columns`.
    """
    columns, paths = yield from interpret_columns(document, grid, limits, resolve=resolve)
    return References(
        columns.grid_shape,
        columns.chunk_numbers,
        columns.offsets,
        columns.lengths,
        columns.path_numbers,
        paths,
        columns.extras,
    )
