"""Manifest: the entries of one array, immutable, held in columns.

Offsets, lengths and path numbers are arrays of numbers, not one object per
chunk; what only few entries have (inline data, checksums, conditions) is kept
aside, by row. Look-up is by grid index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest._checksums import parse_checksum
from zarr_manifest._chunk_keys import format_canonical, parse_canonical
from zarr_manifest._conditions import NO_CONDITIONS, Conditions, parse_conditions
from zarr_manifest._document import Entry, Limits, at_member, decode_document
from zarr_manifest.errors import InvalidChunkKeyError, LimitExceededError, ManifestError

__all__ = ["Manifest", "Reference"]

type KeyParser = Callable[[str], tuple[int, ...] | None]

# Values of the path number column for entries without a path.
_INLINE = -1
_EMPTY = -2

# Value of the length column for entries that run to the end of their object.
_TO_THE_END = -1


@dataclass(frozen=True, slots=True)
class Reference:
    """What a manifest says of one chunk.

    Parameters
    ----------
    path : str or None
        URL reference, as written; None for inline and for explicitly empty chunks.
    path_number : int
        Index of the path in :attr:`Manifest.paths`; negative without a path.
    offset : int
        First byte of the chunk in its object.
    length : int or None
        Number of bytes; None when the chunk runs to the end of its object.
    data : bytes or None
        The encoded chunk, inline.
    checksum : str or None
        ``"<algorithm>:<hex>"`` over the encoded chunk.
    conditions : Conditions
        What the source object must still match.
    """

    path: str | None
    path_number: int
    offset: int = 0
    length: int | None = None
    data: bytes | None = None
    checksum: str | None = None
    conditions: Conditions = NO_CONDITIONS

    @property
    def is_empty(self) -> bool:
        """Whether the chunk is explicitly empty: every element is the fill value."""
        return self.path_number == _EMPTY


class _Aside(msgspec.Struct, frozen=True):
    """What only some entries have."""

    data: bytes | None = None
    checksum: str | None = None
    conditions: Conditions = NO_CONDITIONS


_NOTHING_ASIDE = _Aside()


class Manifest:
    """The chunk references of one array.

    Create one with :meth:`loads`. Implements the specification's "Manifest
    document", "Chunk keys" and "Entries".

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along every dimension.
    chunk_numbers : ndarray of int64, sorted
        C-order number of each row's chunk in the grid.
    offsets, lengths, path_numbers : ndarray
        One value per row; see :class:`Reference`.
    paths : tuple of str
        Every distinct path, as written.
    aside : dict of int to _Aside
        What only some rows have.

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
        aside: dict[int, _Aside],
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
        limits: Limits | None = None,
    ) -> Manifest:
        """Read a manifest document.

        Parameters
        ----------
        document : bytes
            UTF-8 JSON.
        ndim : int, optional
            Number of dimensions; taken from `grid_shape` when that is given.
        grid_shape : tuple of int, optional
            Number of chunks along every dimension. Entries outside are ignored.
            Without it, the grid is as large as the keys say.
        parse_key : callable, optional
            Reads the array's own relative chunk keys; returns None for what is none.
        limits : Limits, optional
            Larger documents are refused.

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
        entries = decode_document(document, Limits() if limits is None else limits)
        try:
            return cls._from_entries(entries, ndim, grid_shape, parse_key)
        except ManifestError as error:
            if error.chunk is None:
                raise
            raise at_member(document, error.chunk, error) from None

    @classmethod
    def _from_entries(
        cls,
        entries: dict[str, Entry],
        ndim: int,
        grid_shape: tuple[int, ...] | None,
        parse_key: KeyParser | None,
    ) -> Manifest:
        indices = _parse_keys(list(entries), ndim, parse_key)
        if grid_shape is None:
            grid_shape = tuple(int(n) + 1 for n in indices.max(axis=0, initial=0))
        inside = (indices < np.array(grid_shape, dtype=np.int64)).all(axis=1)
        rows = [e for e, keep in zip(entries.values(), inside.tolist(), strict=True) if keep]
        keys = [k for k, keep in zip(entries, inside.tolist(), strict=True) if keep]
        numbers = _number_chunks(indices[inside], grid_shape)
        order = np.argsort(numbers, kind="stable")
        _require_distinct(numbers[order], keys, order)
        return cls._from_rows(grid_shape, numbers[order], order, rows, keys)

    @classmethod
    def _from_rows(
        cls,
        grid_shape: tuple[int, ...],
        numbers: npt.NDArray[np.int64],
        order: npt.NDArray[np.int64],
        rows: list[Entry],
        keys: list[str],
    ) -> Manifest:
        unset = msgspec.UNSET
        path_index: dict[str, int] = {}
        count = len(rows)
        offsets = np.zeros(count, np.int64)
        lengths = np.full(count, _TO_THE_END, np.int64)
        path_numbers = np.full(count, _EMPTY, np.int32)
        aside: dict[int, _Aside] = {}
        interned: dict[_Aside, _Aside] = {}
        source_rows: list[int] = order.tolist()
        for row, source in enumerate(source_rows):
            entry = rows[source]
            if entry.path is not unset:
                path_numbers[row] = path_index.setdefault(entry.path, len(path_index))
                if entry.offset is not unset:
                    offsets[row] = entry.offset
                if entry.length is not unset:
                    lengths[row] = entry.length
            elif entry.data is not unset:
                path_numbers[row] = _INLINE
                lengths[row] = len(entry.data)
            extra = _take_aside(entry, keys[source])
            if extra is not None:
                aside[row] = interned.setdefault(extra, extra)
        return cls(grid_shape, numbers, offsets, lengths, path_numbers, tuple(path_index), aside)

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
        """Return what the manifest says of a chunk, or None when it does not name it.

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
        extra = self._aside.get(row, _NOTHING_ASIDE)
        return Reference(
            path=self.paths[number] if number >= 0 else None,
            path_number=number,
            offset=int(self._offsets[row]),
            length=None if length == _TO_THE_END else length,
            data=extra.data,
            checksum=extra.checksum,
            conditions=extra.conditions,
        )

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield the grid index of every chunk that the manifest names, in C order."""
        numbers = range(len(self)) if self._chunk_numbers is None else self._chunk_numbers.tolist()
        for number in numbers:
            index: list[int] = []
            for n in reversed(self.grid_shape):
                number, remainder = divmod(number, n)
                index.append(remainder)
            yield tuple(reversed(index))

    def items(self) -> Iterator[tuple[tuple[int, ...], Reference]]:
        """Yield grid index and reference of every chunk that the manifest names, in C order."""
        for row, index in enumerate(self.indices()):
            yield index, self._reference(row)

    @property
    def known_bytes(self) -> int:
        """Sum of the lengths that entries state, and of inline data, in bytes."""
        return int(self._lengths[self._lengths != _TO_THE_END].sum())

    @property
    def nbytes(self) -> int:
        """Memory that the columns take, in bytes, without paths and what is kept aside."""
        nbytes = self._offsets.nbytes + self._lengths.nbytes + self._path_numbers.nbytes
        return nbytes if self._chunk_numbers is None else nbytes + self._chunk_numbers.nbytes

    def open_ended(self) -> Iterator[Reference]:
        """Yield the references whose number of bytes only their source can tell."""
        rows = np.flatnonzero((self._lengths == _TO_THE_END) & (self._path_numbers >= 0))
        for row in rows.tolist():
            yield self._reference(row)

    def statistics(self) -> list[tuple[str, int, int]]:
        """Return path, number of references and stated bytes, for every distinct path."""
        with_path = self._path_numbers >= 0
        numbers = self._path_numbers[with_path]
        counts = np.bincount(numbers, minlength=len(self.paths))
        sizes = np.zeros(len(self.paths), np.int64)
        np.add.at(sizes, numbers, np.maximum(self._lengths[with_path], 0))
        return list(zip(self.paths, counts.tolist(), sizes.tolist(), strict=True))


def _take_aside(entry: Entry, key: str) -> _Aside | None:
    data, checksum = _or_none(entry.data), _or_none(entry.checksum)
    try:
        if checksum is not None:
            parse_checksum(checksum)
        conditions = parse_conditions(
            _or_none(entry.etag), _or_none(entry.last_modified), _or_none(entry.version)
        )
    except ManifestError as e:
        raise e.in_context(chunk=key) from None
    extra = _Aside(data, checksum, conditions)
    return None if extra == _NOTHING_ASIDE else extra


def _or_none[T](value: T | msgspec.UnsetType) -> T | None:
    return None if isinstance(value, msgspec.UnsetType) else value


def _parse_keys(keys: list[str], ndim: int, parse_key: KeyParser | None) -> npt.NDArray[np.int64]:
    """Grid index of every key, as an array of shape (keys, dimensions)."""
    # Up to 15 digits are below the largest integer; whether 16 are is for the slow way to say.
    number = "(?:0|[1-9][0-9]{0,14})"
    canonical = r"\.".join([number] * ndim) if ndim else "0"
    joined = ",".join(keys)
    # One pass over one string: a million keys are not worth a million calls.
    if keys and ndim and re.fullmatch(f"(?:{canonical},)*+{canonical}", joined):
        flat = np.array(joined.replace(".", ",").split(","), dtype=np.int64)
        if len(flat) == len(keys) * ndim:  # and no key has a comma
            return flat.reshape(len(keys), ndim)
    indices = np.zeros((len(keys), ndim), np.int64)
    for row, key in enumerate(keys):
        index = parse_canonical(key, ndim)
        if index is None and parse_key is not None:
            index = parse_key(key)
        if index is None:
            raise InvalidChunkKeyError(
                f"the member {key!r} of the manifest is not a chunk key of this array",
                chunk=key,
                remedy=f"Its keys have {ndim} number(s) joined with '.', such as "
                f"{format_canonical((0,) * ndim)!r}.",
            )
        indices[row] = index
    return indices


def _number_chunks(
    indices: npt.NDArray[np.int64], grid_shape: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    chunks = 1
    for n in grid_shape:
        chunks *= n
    if chunks >= 2**62:
        raise LimitExceededError(f"the chunk grid has {chunks} chunks, more than can be numbered")
    numbers = np.zeros(len(indices), np.int64)
    for dimension, n in enumerate(grid_shape):
        numbers = numbers * n + indices[:, dimension]
    return numbers


def _require_distinct(
    numbers: npt.NDArray[np.int64], keys: list[str], order: npt.NDArray[np.int64]
) -> None:
    twice = np.flatnonzero(numbers[1:] == numbers[:-1])
    if len(twice):
        first, second = (keys[int(order[int(twice[0]) + i])] for i in (0, 1))
        raise InvalidChunkKeyError(
            f"the members {first!r} and {second!r} of the manifest name the same chunk",
            chunk=second,
        )
