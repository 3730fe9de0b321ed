"""Manifest: the entries of one array, immutable, held in columns.

Offsets, lengths and path numbers are arrays of numbers, not one object per
chunk; inline data, checksums and conditions, which few entries have, are kept
aside by row. Look-up is by grid index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from zarr_manifest.errors import InvalidEntryError
from zarr_manifest.format import (
    Findings,
    Limits,
    Partitions,
    format_canonical,
    grid_index,
    grid_indices,
    number_chunks,
    parse_checksum,
    strict,
)
from zarr_manifest.manifest.author_columns import (
    TO_THE_END,
    Columns,
    NumberedPaths,
    path_rows,
    with_rows_without_path,
)
from zarr_manifest.manifest.decoding import interpret_columns, interpret_conditions
from zarr_manifest.manifest.encoding import encode_rows
from zarr_manifest.manifest.keys import Grid, KeyParser
from zarr_manifest.manifest.reference import (
    EMPTY,
    INLINE,
    NOTHING_ASIDE,
    OBJECT_BYTES,
    Aside,
    Reference,
)

__all__ = ["Manifest", "Reference", "interpret_manifest"]


class Manifest:
    """The chunk references of one array.

    Create one with :meth:`loads` or :meth:`from_columns`. Implements "Manifest
    document", "Chunk keys" and "Entries" of the specification.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along each dimension.
    chunk_numbers : ndarray of int64, sorted
        C-order number of each row's chunk in the grid.
    offsets, lengths, path_numbers : ndarray
        One value per row; see :class:`Reference`.
    paths : tuple of str
        Every distinct path, as written.
    aside : dict of int to Aside
        Inline data, checksums and conditions, by row.

    Examples
    --------
    >>> manifest = Manifest.loads(
    ...     b'{"0.1": {"path": "f.nc", "offset": 100, "length": 20}, "0.0": {}}', grid_shape=(1, 2)
    ... )
    >>> len(manifest), manifest.paths
    (2, ('f.nc',))
    >>> manifest[0, 1].offset
    100
    >>> manifest[0, 0].is_empty
    True
    """

    __slots__ = (
        "_aside",
        "_chunk_numbers",
        "_lengths",
        "_offsets",
        "_path_numbers",
        "grid_shape",
        "paths",
    )

    def __init__(
        self,
        grid_shape: tuple[int, ...],
        chunk_numbers: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        path_numbers: npt.NDArray[np.int32],
        paths: tuple[str, ...],
        aside: dict[int, Aside],
    ) -> None:
        self.grid_shape = grid_shape
        self.paths = paths
        # A manifest that names every chunk needs no column of chunk numbers.
        dense = len(chunk_numbers) > 0 and int(chunk_numbers[-1]) == len(chunk_numbers) - 1
        self._chunk_numbers = None if dense else chunk_numbers
        self._offsets = offsets
        self._lengths = lengths
        self._path_numbers = path_numbers
        self._aside = aside

    @classmethod
    def loads(
        cls,
        document: bytes,
        *,
        ndim: int | None = None,
        grid_shape: tuple[int, ...] | None = None,
        parse_key: KeyParser | None = None,
        region: Sequence[range] | None = None,
        limits: Limits | None = None,
    ) -> Manifest:
        """Read a manifest document.

        Parameters
        ----------
        document : bytes
            UTF-8 JSON.
        ndim : int, optional
            Number of dimensions; not needed if `grid_shape` is given.
        grid_shape : tuple of int, optional
            Number of chunks along each dimension. Entries outside are ignored.
            By default, the grid is just large enough for the keys.
        parse_key : callable, optional
            Parses the array's own relative chunk keys; returns None for other keys.
        region : sequence of range, optional
            Grid indices of the chunks that this document of a partitioned manifest
            covers, one range per dimension. Other chunks of the grid are rejected.
        limits : Limits, optional
            Larger documents are rejected.

        Raises
        ------
        ManifestError
            One of ``invalid_json``, ``invalid_manifest``, ``invalid_chunk_key``,
            ``invalid_entry``, ``unsupported_checksum``, ``limit_exceeded``.
        """
        if grid_shape is not None:
            ndim = len(grid_shape)
        if ndim is None:
            raise TypeError("either 'grid_shape' or 'ndim' is needed")
        grid = Grid(ndim, grid_shape, region, parse_key)
        return strict(interpret_manifest(document, grid, Limits() if limits is None else limits))

    @classmethod
    def from_columns(
        cls,
        grid_shape: tuple[int, ...],
        *,
        paths: str | npt.ArrayLike | NumberedPaths,
        offsets: npt.ArrayLike | None = None,
        lengths: npt.ArrayLike | None = None,
        chunks: npt.ArrayLike | None = None,
        data: Mapping[tuple[int, ...], bytes] | None = None,
        empty: Iterable[tuple[int, ...]] = (),
        checksums: Mapping[tuple[int, ...], str] | None = None,
        conditions: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Manifest:
        """Make a manifest from columns of numbers.

        Parameters
        ----------
        grid_shape : tuple of int
            Number of chunks along each dimension.
        paths : str or array of str
            URL references, one per row or one for all; ``""`` for a chunk without one.
        offsets : array of int, optional
            First byte of each chunk in its object; 0 by default.
        lengths : array of int, optional
            Size of each chunk in bytes; -1, the default, means the rest of the object.
        chunks : array of int, optional
            Grid index of each row, of shape (rows, dimensions). By default, the rows
            are all chunks of the grid, in C order.
        data : mapping of grid index to bytes, optional
            Encoded chunks to hold inline.
        empty : iterable of grid index
            Explicitly empty chunks. A chunk that has no path and is in neither
            `empty` nor `data` is missing.
        checksums : mapping of grid index to str, optional
            ``"<algorithm>:<hex>"`` for chunks with a path or inline data.
        conditions : mapping of str to mapping, optional
            ``etag``, ``last_modified`` and ``version`` of an object, by path.

        Raises
        ------
        ManifestError
            One of ``invalid_chunk_key``, ``invalid_entry``, ``unsupported_checksum``.

        Examples
        --------
        >>> manifest = Manifest.from_columns(
        ...     (2, 2), paths="f.nc", offsets=[[0, 10], [20, 30]], lengths=10
        ... )
        >>> manifest[1, 0].offset
        20
        """
        rows = path_rows(grid_shape, paths, offsets, lengths, chunks)
        inline = {} if data is None else dict(data)
        for index, encoded in inline.items():
            if not encoded:
                raise InvalidEntryError("'data' must not be empty", chunk=format_canonical(index))
        without_path = [*inline, *empty]
        if without_path:
            kinds = [INLINE] * len(inline) + [EMPTY] * (len(without_path) - len(inline))
            sizes = [len(encoded) for encoded in inline.values()]
            sizes += [TO_THE_END] * (len(without_path) - len(inline))
            rows = with_rows_without_path(grid_shape, rows, without_path, kinds, sizes)
        manifest = cls(
            grid_shape, rows.numbers, rows.offsets, rows.lengths, rows.path_numbers, rows.paths, {}
        )
        manifest._put_aside(inline, checksums or {}, conditions or {})
        return manifest

    def _put_aside(
        self,
        data: Mapping[tuple[int, ...], bytes],
        checksums: Mapping[tuple[int, ...], str],
        conditions: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Set inline data, checksums and conditions, while the manifest is being built."""
        by_path = {path: interpret_conditions(path, given) for path, given in conditions.items()}
        for number, path in enumerate(self.paths):
            if path in by_path:
                extra = Aside(conditions=by_path[path])
                rows: list[int] = np.flatnonzero(self._path_numbers == number).tolist()
                self._aside.update(dict.fromkeys(rows, extra))
        for index in {**data, **checksums}:
            row = self._row(index)
            if row is None or self._path_numbers[row] == EMPTY:
                raise InvalidEntryError(
                    "'checksum' requires a path or data", chunk=format_canonical(index)
                )
            before = self._aside.get(row, NOTHING_ASIDE)
            checksum = checksums.get(index)
            if checksum is not None:
                parse_checksum(checksum)
            self._aside[row] = Aside(data.get(index), checksum, before.conditions)

    def with_paths(self, paths: Sequence[str]) -> Manifest:
        """Return a manifest with different paths.

        Parameters
        ----------
        paths : sequence of str
            A replacement for each of :attr:`paths`; equal ones become one path.

        Examples
        --------
        >>> manifest = Manifest.from_columns((2,), paths=["file:///d/a.nc", "b.nc"])
        >>> manifest.with_paths(["a.nc", "b.nc"]).paths
        ('a.nc', 'b.nc')
        """
        numbers: dict[str, int] = {}
        table = [numbers.setdefault(path, len(numbers)) for path in paths]
        if len(table) != len(self.paths):
            raise ValueError(f"got {len(table)} paths to replace {len(self.paths)}")
        # Rows without a path have negative numbers, which index from the end.
        column = np.array([*table, EMPTY, INLINE], np.int32)[self._path_numbers]
        return Manifest(
            self.grid_shape,
            self._numbers(),
            self._offsets,
            self._lengths,
            column,
            tuple(numbers),
            self._aside,
        )

    def blocks(self, shape: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Manifest]]:
        """Split the manifest into blocks of the chunk grid, and yield those with entries.

        Parameters
        ----------
        shape : sequence of int
            Number of chunks in a block along each dimension.

        Yields
        ------
        index, manifest
            Index of the block, in C order, and its part of the manifest, which keeps
            the grid of the whole.

        Examples
        --------
        >>> manifest = Manifest.from_columns((3,), paths="f.nc", offsets=[0, 10, 20], lengths=10)
        >>> [(index, len(part)) for index, part in manifest.blocks((2,))]
        [((0,), 2), ((1,), 1)]
        """
        partitions = Partitions(self.grid_shape, tuple(shape))
        numbers = self._numbers()
        owners = number_chunks(
            grid_indices(self.grid_shape, numbers) // np.array(shape, np.int64), partitions.counts
        )
        order = np.argsort(owners, kind="stable")
        starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
        for rows in np.split(order, starts[1:]) if len(starts) else ():
            aside = {}
            if self._aside:
                aside = {i: self._aside[r] for i, r in enumerate(rows.tolist()) if r in self._aside}
            part = Manifest(
                self.grid_shape,
                numbers[rows],
                self._offsets[rows],
                self._lengths[rows],
                self._path_numbers[rows],
                self.paths,
                aside,
            )
            yield grid_index(partitions.counts, int(owners[rows[0]])), part

    def _numbers(self) -> npt.NDArray[np.int64]:
        """Return the C-order number of each row's chunk."""
        if self._chunk_numbers is None:
            return np.arange(len(self), dtype=np.int64)
        return self._chunk_numbers

    def dumps(self) -> bytes:
        """Encode the manifest as a document: canonical keys in C order, one entry per line.

        Unknown members of entries are not kept. Equal manifests give equal bytes.

        Examples
        --------
        >>> manifest = Manifest.loads(b'{"c/1": {}, "0": {"length": 2, "path": "f"}}', ndim=1,
        ...                           parse_key=lambda key: (int(key[2:]),))
        >>> print(manifest.dumps().decode())
        {
        "0":{"path":"f","offset":0,"length":2},
        "1":{}
        }
        <BLANKLINE>
        """
        # Few rows are more than a path and a range.
        special = set(self._aside) | set(np.flatnonzero(self._path_numbers < 0).tolist())
        return encode_rows(
            grid_indices(self.grid_shape, self._numbers()),
            self._offsets,
            self._lengths,
            self._path_numbers,
            self.paths,
            {row: self._reference(row).entry() for row in special},
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
            return number if number < len(self) else None
        row = int(np.searchsorted(self._chunk_numbers, number))
        if row < len(self) and int(self._chunk_numbers[row]) == number:
            return row
        return None

    def get(self, index: Sequence[int]) -> Reference | None:
        """Return the reference to a chunk, or None if the manifest does not name it.

        Parameters
        ----------
        index : sequence of int
            Grid index of the chunk.
        """
        row = self._row(index)
        return None if row is None else self._reference(row)

    def __getitem__(self, index: Sequence[int]) -> Reference:
        reference = self.get(index)
        if reference is None:
            raise KeyError(format_canonical(index))
        return reference

    def _reference(self, row: int) -> Reference:
        number = int(self._path_numbers[row])
        length = int(self._lengths[row])
        extra = self._aside.get(row, NOTHING_ASIDE)
        return Reference(
            path=self.paths[number] if number >= 0 else None,
            path_number=number,
            offset=int(self._offsets[row]),
            length=None if length == TO_THE_END else length,
            data=extra.data,
            checksum=extra.checksum,
            conditions=extra.conditions,
        )

    def columns(self) -> Columns:
        """Return the references as columns of numbers, which must not be modified.

        Examples
        --------
        >>> manifest = Manifest.from_columns((3,), paths="f.nc", chunks=[[2]], offsets=9)
        >>> numbers, offsets, lengths, path_numbers = manifest.columns()
        >>> numbers, offsets, lengths
        (array([2]), array([9]), array([-1]))
        """
        return Columns(self._numbers(), self._offsets, self._lengths, self._path_numbers)

    def asides(self) -> Iterator[tuple[Aside, list[int]]]:
        """Yield inline data, checksums and conditions, each with the rows that have them."""
        rows: dict[int, list[int]] = {}
        # Many rows share one. By identity: equality would compare whole chunks.
        for row, extra in self._aside.items():
            rows.setdefault(id(extra), []).append(row)
        for own in rows.values():
            yield self._aside[own[0]], own

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield the grid index of every chunk in the manifest, in C order."""
        return self._indices(range(len(self)))

    def _indices(self, rows: Sequence[int]) -> Iterator[tuple[int, ...]]:
        for row in rows:
            number = row if self._chunk_numbers is None else int(self._chunk_numbers[row])
            yield grid_index(self.grid_shape, number)

    def items(self) -> Iterator[tuple[tuple[int, ...], Reference]]:
        """Yield the grid index and reference of every chunk in the manifest, in C order."""
        for row, index in enumerate(self.indices()):
            yield index, self._reference(row)

    @property
    def known_bytes(self) -> int:
        """Total of the lengths given in entries, and of inline data, in bytes."""
        return int(self._lengths[self._lengths != TO_THE_END].sum())

    @property
    def inline_bytes(self) -> int:
        """Total size of inline data, in bytes."""
        return int(self._lengths[self._path_numbers == INLINE].sum())

    @property
    def nbytes(self) -> int:
        """Memory used by the columns, in bytes, without paths and what is kept aside."""
        nbytes = self._offsets.nbytes + self._lengths.nbytes + self._path_numbers.nbytes
        return nbytes if self._chunk_numbers is None else nbytes + self._chunk_numbers.nbytes

    @property
    def memory(self) -> int:
        """Estimated memory used by the whole manifest, in bytes."""
        aside = sum(OBJECT_BYTES + len(extra.data or b"") for extra in self._aside.values())
        return self.nbytes + aside + sum(OBJECT_BYTES + len(path) for path in self.paths)

    def open_ended(self) -> Iterator[Reference]:
        """Yield the references without a length, whose size only their source knows."""
        rows = np.flatnonzero((self._lengths == TO_THE_END) & (self._path_numbers >= 0))
        for row in rows.tolist():
            yield self._reference(row)

    def with_path(self, path_number: int) -> Iterator[tuple[int, ...]]:
        """Yield the grid index of every chunk that refers to a path, in C order."""
        return self._indices(np.flatnonzero(self._path_numbers == path_number).tolist())

    def statistics(self) -> list[tuple[str, int, int]]:
        """Return the path, number of references and known bytes of every distinct path."""
        with_path = self._path_numbers >= 0
        numbers = self._path_numbers[with_path]
        counts = np.bincount(numbers, minlength=len(self.paths))
        sizes = np.zeros(len(self.paths), np.int64)
        np.add.at(sizes, numbers, np.maximum(self._lengths[with_path], 0))
        return list(zip(self.paths, counts.tolist(), sizes.tolist(), strict=True))


def interpret_manifest(
    document: bytes, grid: Grid, limits: Limits, *, validating: bool = False
) -> Findings[Manifest]:
    """Yield the problems of a manifest document, and return a manifest of its valid entries.

    Parameters
    ----------
    document : bytes
        UTF-8 JSON.
    grid : Grid
        The chunks that keys may name.
    limits : Limits
        Larger documents are rejected.
    validating : bool
        Also report duplicate members and keys outside the grid, which readers ignore.
    """
    columns, paths = yield from interpret_columns(document, grid, limits, validating=validating)
    return Manifest(*columns[:5], paths, columns.aside)
