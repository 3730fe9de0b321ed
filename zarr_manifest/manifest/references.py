"""The references of one array, or of one of its documents: immutable, held in columns.

Chunk numbers, offsets, lengths and path numbers are arrays of numbers, at most 24 bytes a
reference; what only few references have (inline data, checksums, conditions) is held by row, as
extras. Look-up is by grid index, or by chunk number for many. Pure.
:class:`zarr_manifest.Manifest` is the class for users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from zarr_manifest.format import NO_CONDITIONS, Conditions, Partitions, grid_index
from zarr_manifest.manifest.chunk_numbers import BlockRows, ChunkNumbers, rows_of_blocks
from zarr_manifest.manifest.encoding import encode_references
from zarr_manifest.showing import counted, without_defaults

# Path numbers of entries without a path.
INLINE = -1
EMPTY = -2

# Length of entries that run to the end of their object.
TO_THE_END = -1

# Estimated memory of a small Python object, including what refers to it.
_OBJECT_BYTES = 200


class Reference(Struct, frozen=True):
    """The entry of one chunk in a manifest.

    Parameters
    ----------
    path : str or None
        URL reference, as written; None for inline and explicitly empty chunks.
    offset : int
        First byte of the chunk in its object.
    length : int or None
        Number of bytes; None if the chunk runs to the end of its object.
    data : bytes or None
        The encoded chunk, inline.
    checksum : str or None
        ``"<algorithm>:<hex>"`` over the encoded chunk.
    conditions : Conditions
        What the source object must still match.

    Examples
    --------
    >>> Reference("s3://bucket/f.nc", offset=100, length=8)
    Reference(path='s3://bucket/f.nc', offset=100, length=8)
    """

    path: str | None
    offset: int = 0
    length: int | None = None
    data: bytes | None = None
    checksum: str | None = None
    conditions: Conditions = NO_CONDITIONS

    def __repr__(self) -> str:
        return without_defaults(self)

    @property
    def is_empty(self) -> bool:
        """Whether the chunk is explicitly empty: every element is the fill value."""
        return self.path is None and self.data is None


class Row(Struct, frozen=True):
    """The columns' values for one chunk: a :class:`Reference` with the number of its path.

    Parameters
    ----------
    path_number : int
        Index in the table of paths; ``INLINE`` or ``EMPTY`` without one.
    offset, length, data, checksum, conditions
        As of :class:`Reference`.
    """

    path_number: int
    offset: int = 0
    length: int | None = None
    data: bytes | None = None
    checksum: str | None = None
    conditions: Conditions = NO_CONDITIONS

    @property
    def is_empty(self) -> bool:
        """Whether the chunk is explicitly empty."""
        return self.path_number == EMPTY


class Extras(Struct, frozen=True):
    """The parts of a reference that only some entries have."""

    data: bytes | None = None
    checksum: str | None = None
    conditions: Conditions = NO_CONDITIONS


NO_EXTRAS = Extras()


class Columns(NamedTuple):
    """The references of a manifest: one value per row, in C order of the chunks.

    Attributes
    ----------
    numbers : ndarray of int64
        Chunk number of each row.
    offsets, lengths : ndarray of int64
        In bytes; a length of -1 means the rest of the object.
    path_numbers : ndarray of int32
        Index of each row's path; negative for a chunk that is inline or explicitly empty.
    """

    numbers: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path_numbers: npt.NDArray[np.int32]

    def __repr__(self) -> str:
        return f"<Columns: {counted(len(self.numbers), 'row')}>"


class PathNumbers(dict[str, int]):
    """The number of every path so far: a new one gets the next number.

    Examples
    --------
    >>> numbers = PathNumbers()
    >>> [numbers[path] for path in ("a", "b", "a")], list(numbers)
    ([0, 1, 0], ['a', 'b'])
    """

    def __missing__(self, path: str) -> int:
        number = self[path] = len(self)
        return number


def path_table(numbers: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return other numbers of paths, to be indexed by a column of path numbers.

    Rows without a path have negative numbers, which index from the end, and keep them.

    Examples
    --------
    >>> path_table([5, 3])[[1, INLINE, 0, EMPTY]]
    array([ 3, -1,  5, -2], dtype=int32)
    """
    return np.append(numbers, (EMPTY, INLINE)).astype(np.int32)


class References:
    """The chunk references of one array, or of one of its documents, in C order of the chunks.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along each dimension.
    chunks : ChunkNumbers
        The chunk of each row.
    offsets, lengths, path_numbers : ndarray
        One value per row; see :class:`Columns`.
    paths : tuple of str
        Every distinct path, as written.
    extras : dict of int to Extras
        What only some rows have.
    """

    __slots__ = (
        "_chunks",
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
        chunks: ChunkNumbers,
        offsets: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        path_numbers: npt.NDArray[np.int32],
        paths: tuple[str, ...],
        extras: dict[int, Extras],
    ) -> None:
        self.grid_shape = grid_shape
        self.paths = paths
        self._chunks = chunks
        self._offsets = offsets
        self._lengths = lengths
        self._path_numbers = path_numbers
        self._extras = extras

    def __len__(self) -> int:
        return len(self._offsets)

    # Look up -------------------------------------------------------------------

    def get(self, index: Sequence[int]) -> Row | None:
        """Return the row of a chunk, or None."""
        number = 0
        for i, n in zip(index, self.grid_shape, strict=True):
            if not 0 <= i < n:
                return None
            number = number * n + i
        row = self._chunks.row_of(number)
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

    def reference(self, row: Row) -> Reference:
        """Return what a row says, for users."""
        return Reference(
            path=self.paths[row.path_number] if row.path_number >= 0 else None,
            offset=row.offset,
            length=row.length,
            data=row.data,
            checksum=row.checksum,
            conditions=row.conditions,
        )

    def rows(self, chunk_numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the rows of chunks, given by their numbers; -1 for those that have none."""
        return self._chunks.rows_of(chunk_numbers)

    def columns(self, rows: npt.NDArray[np.int64] | slice = slice(None)) -> Columns:
        """Return rows, by default all, as columns of numbers, which must not be modified."""
        return Columns(
            self._chunks.numbers(rows),
            self._offsets[rows],
            self._lengths[rows],
            self._path_numbers[rows],
        )

    def extras_of(self, rows: Iterable[int]) -> list[tuple[int, Extras]]:
        """Return the positions of those rows that have extras, and these."""
        extras = self._extras
        found = enumerate(rows) if extras else ()
        return [(position, extras[row]) for position, row in found if row in extras]

    def extras(self) -> Iterator[tuple[Extras, list[int]]]:
        """Yield inline data, checksums and conditions, each with the rows that have them."""
        rows: dict[int, list[int]] = {}
        # Many rows share one. By identity: equality would compare whole chunks.
        for row, extra in self._extras.items():
            rows.setdefault(id(extra), []).append(row)
        for own in rows.values():
            yield self._extras[own[0]], own

    def extras_by_row(self) -> dict[int, Extras]:
        """Return what only some rows have."""
        return dict(self._extras)

    # Iterate -------------------------------------------------------------------

    def items(self) -> Iterator[tuple[tuple[int, ...], Row]]:
        """Yield the grid index and row of every chunk, in C order."""
        for row, index in enumerate(self.indices()):
            yield index, self.row(row)

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield the grid index of every chunk, in C order."""
        return self._indices(range(len(self)))

    def indices_with_path(self, path_number: int) -> Iterator[tuple[int, ...]]:
        """Yield the grid index of every chunk that refers to a path, in C order."""
        return self._indices(np.flatnonzero(self._path_numbers == path_number).tolist())

    def _indices(self, rows: Iterable[int]) -> Iterator[tuple[int, ...]]:
        for row in rows:
            yield grid_index(self.grid_shape, self._chunks.number(row))

    def open_ended(self) -> Iterator[Row]:
        """Yield the references without a length."""
        rows = np.flatnonzero((self._lengths == TO_THE_END) & (self._path_numbers >= 0))
        for row in rows.tolist():
            yield self.row(row)

    # Count ---------------------------------------------------------------------

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of references to objects, of inline and of empty chunks."""
        inline = int(np.count_nonzero(self._path_numbers == INLINE))
        empty = int(np.count_nonzero(self._path_numbers == EMPTY))
        return len(self) - inline - empty, inline, empty

    def statistics(
        self, rows: npt.NDArray[np.int64] | slice = slice(None)
    ) -> list[tuple[str, int, int]]:
        """Return every distinct path, its number of references, by default all, and their bytes."""
        _, _, lengths, path_numbers = self.columns(rows)
        with_path = path_numbers >= 0
        numbers = path_numbers[with_path]
        counts = np.bincount(numbers, minlength=len(self.paths))
        sizes = np.zeros(len(self.paths), np.int64)
        np.add.at(sizes, numbers, np.maximum(lengths[with_path], 0))
        return list(zip(self.paths, counts.tolist(), sizes.tolist(), strict=True))

    @property
    def stated_bytes(self) -> int:
        """Total of the lengths given in entries, and of inline data, in bytes."""
        return int(self._lengths[self._lengths != TO_THE_END].sum())

    @property
    def inline_bytes(self) -> int:
        """Total size of inline data, in bytes."""
        return int(self._lengths[self._path_numbers == INLINE].sum())

    @property
    def nbytes(self) -> int:
        """Memory used by the columns, in bytes, without the paths and the extras."""
        columns = (self._chunks, self._offsets, self._lengths, self._path_numbers)
        return sum(column.nbytes for column in columns)

    @property
    def memory(self) -> int:
        """Estimated memory of all of it, in bytes."""
        extras = sum(_OBJECT_BYTES + len(extra.data or b"") for extra in self._extras.values())
        return self.nbytes + extras + sum(_OBJECT_BYTES + len(path) for path in self.paths)

    # Encode --------------------------------------------------------------------

    def dumps(self) -> bytes:
        """Return the references as a document; see :meth:`Manifest.dumps`."""
        return encode_references(self)

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

    # Change --------------------------------------------------------------------

    def with_paths(self, paths: Sequence[str]) -> References:
        """Return the references with other paths: one for each of the present ones."""
        numbers = PathNumbers()
        table = [numbers[path] for path in paths]
        if len(table) != len(self.paths):
            raise ValueError(f"got {len(table)} paths to replace {len(self.paths)}")
        column = self._path_numbers
        if table != list(range(len(table))):
            column = path_table(table)[column]
        return self.replaced(path_numbers=column, paths=tuple(numbers))

    def replaced(
        self,
        *,
        offsets: npt.NDArray[np.int64] | None = None,
        lengths: npt.NDArray[np.int64] | None = None,
        path_numbers: npt.NDArray[np.int32] | None = None,
        paths: tuple[str, ...] | None = None,
        extras: dict[int, Extras] | None = None,
        grid_shape: tuple[int, ...] | None = None,
    ) -> References:
        """Return references to the same chunks, with other columns, paths, extras or dimensions."""
        return References(
            self.grid_shape if grid_shape is None else grid_shape,
            self._chunks,
            self._offsets if offsets is None else offsets,
            self._lengths if lengths is None else lengths,
            self._path_numbers if path_numbers is None else path_numbers,
            self.paths if paths is None else paths,
            self._extras if extras is None else extras,
        )

    def without_conditions(self) -> References:
        """Return the references without conditions, but for which version is read."""
        known: dict[int, Extras] = {}
        for extra in self._extras.values():
            if id(extra) not in known:
                known[id(extra)] = replace(extra, conditions=extra.conditions.version_only())
        return self.replaced(extras={row: known[id(extra)] for row, extra in self._extras.items()})

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
        return self.replaced(extras=extras)

    def with_checksums(self, checksums: Mapping[int, str]) -> References:
        """Return the references with other checksums, given by row."""
        extras = dict(self._extras)
        for row, checksum in checksums.items():
            extras[row] = replace(extras.get(row, NO_EXTRAS), checksum=checksum)
        return self.replaced(extras=extras)

    # Split ---------------------------------------------------------------------

    def blocks(self, shape: Sequence[int]) -> Iterator[tuple[tuple[int, ...], References]]:
        """Split the references into blocks of the chunk grid, and yield those with entries.

        Parameters
        ----------
        shape : sequence of int
            Number of chunks in a block along each dimension.

        Yields
        ------
        index, references
            Grid index of the block, in C order, and its references, with the grid of the whole.
        """
        partitions = Partitions(self.grid_shape, tuple(shape))
        for index, rows in rows_of_blocks(self._chunks, partitions):
            yield index, self._part(rows)

    def between(self, start: int, stop: int) -> References:
        """Return the references to chunks from one number up to another."""
        chunks = self._chunks
        return self._part(slice(chunks.rows_through(start - 1), chunks.rows_through(stop - 1)))

    def next_chunk(self, number: int) -> int | None:
        """Return the number of the first chunk from a number on; None if there is none."""
        row = self._chunks.rows_through(number - 1)
        return self._chunks.number(row) if row < len(self) else None

    def without_chunks(self, chunk_numbers: npt.NDArray[np.int64]) -> References:
        """Return the references without those to some chunks, by number."""
        rows = self.rows(chunk_numbers)
        return self._part(np.setdiff1d(np.arange(len(self)), rows[rows >= 0]))

    def _part(self, rows: BlockRows) -> References:
        """Return some of the rows: a slice shares the columns, and numbers select from them."""
        numbers = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        return References(
            self.grid_shape,
            self._chunks.select(rows),
            self._offsets[rows],
            self._lengths[rows],
            self._path_numbers[rows],
            self.paths,
            dict(self.extras_of(numbers) if self._extras else ()),
        )


def _most_encoded_bytes(extras: Extras) -> int:
    conditions = extras.conditions
    texts = (extras.checksum, conditions.etag, conditions.version)
    data = len(extras.data or b"") * 4 // 3
    return data + sum(len(text or "") for text in texts) * 6 + 200
