"""Columns of references -> a manifest document, without an object per chunk.

For manifests with millions of entries. Writes exactly what
:func:`zarr_manifest.format.manifest_document.encode_document` would. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from io import SEEK_CUR, SEEK_END, BytesIO

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.format import format_canonical, grid_index, grid_indices
from zarr_manifest.manifest.reference import Extras, Reference, entry_of
from zarr_manifest.manifest.text_columns import TextColumns

__all__ = ["canonical_keys", "encode_rows"]

# Number of rows encoded at a time: they fit into a processor's cache.
_AT_ONCE = 2**13

# So few rows are encoded one by one, which takes less time than to set up columns.
_FEW = 16

# In a column of texts, all take the space of the longest; longer ones are written row by row.
_WIDEST = 512

_ENCODE = msgspec.json.Encoder().encode


def encode_rows(
    grid_shape: Sequence[int],
    numbers: npt.NDArray[np.int64] | None,
    offsets: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    path_numbers: npt.NDArray[np.int32],
    paths: Sequence[str],
    extras: Mapping[int, Extras],
    reference: Callable[[int], Reference],
    *,
    at_once: int = _AT_ONCE,
    few: int = _FEW,
) -> bytes:
    """Encode rows as a manifest document, one entry per line.

    Parameters
    ----------
    grid_shape : sequence of int
        Number of chunks along each dimension.
    numbers : ndarray or None
        C-order number of each row's chunk; None if that is the number of the row.
    offsets, lengths, path_numbers : ndarray
        One value per row; a negative length means the rest of the object.
    paths : sequence of str
        The paths to which the path numbers refer.
    extras : mapping of int to Extras
        What only some rows have.
    reference : callable
        Returns the reference in a row, for those that are written one by one.
    at_once : int
        Number of rows encoded at a time.
    few : int
        Up to so many rows are encoded one by one.

    Examples
    --------
    >>> columns = np.array([0, 2]), np.array([0, 9]), np.array([-1, 5]), np.array([0, 0])
    >>> print(encode_rows((3,), *columns, ["f.nc"], {}, Reference, few=0).decode())
    {
    "0":{"path":"f.nc"},
    "2":{"path":"f.nc","offset":9,"length":5}
    }
    <BLANKLINE>
    """
    if not len(offsets):
        return b"{}\n"
    if len(offsets) <= few:
        return _one_by_one(grid_shape, numbers, len(offsets), reference)
    document = BytesIO(b"{\n")
    document.seek(0, SEEK_END)
    for start in range(0, len(offsets), at_once):
        rows = slice(start, min(start + at_once, len(offsets)))
        chunks = np.arange(start, rows.stop) if numbers is None else numbers[rows]
        lines = TextColumns(len(chunks))
        _add_keys(lines, grid_indices(grid_shape, chunks))
        lines.constant(b'":{')
        alone = _add_paths(lines, path_numbers[rows], paths)
        _add_ranges(lines, offsets[rows], lengths[rows], path_numbers[rows] >= 0)
        if extras:
            alone |= _add_extras(lines, range(start, rows.stop), extras)
        lines.constant(b"},\n")
        text = lines.text()
        document.write(_with_rows(text, start, alone, reference) if alone else text)
    document.seek(-len(b",\n"), SEEK_CUR)
    document.write(b"\n}\n")
    return document.getvalue()


def _one_by_one(
    grid_shape: Sequence[int],
    numbers: npt.NDArray[np.int64] | None,
    count: int,
    reference: Callable[[int], Reference],
) -> bytes:
    chunks: Iterable[int] = range(count) if numbers is None else numbers.tolist()
    keys = (format_canonical(grid_index(grid_shape, number)) for number in chunks)
    lines = [
        b'"%b":%b' % (key.encode(), _ENCODE(entry_of(reference(row))))
        for row, key in enumerate(keys)
    ]
    return b"{\n%b\n}\n" % b",\n".join(lines)


def _add_keys(lines: TextColumns, indices: npt.NDArray[np.int64]) -> None:
    ndim = indices.shape[1]
    lines.constant(b'"' if ndim else b'"0')
    for dimension in range(ndim):
        lines.numbers(indices[:, dimension])
        lines.constant(b"." if dimension < ndim - 1 else b"")


def _add_paths(
    lines: TextColumns, numbers: npt.NDArray[np.int32], paths: Sequence[str]
) -> set[int]:
    """Add the paths of rows that have one; return the rows whose path is too long."""
    used = np.unique(numbers)
    with_path: list[int] = used[used >= 0].tolist()
    names = [paths[number] for number in with_path]
    table = [b""] * (len(used) - len(names)) + [b'"path":"%b"' % text for text in _in_json(names)]
    column = np.searchsorted(used, numbers)
    too_long = _blank_long_texts(table)
    lines.texts(table, column)
    return set(np.flatnonzero(np.isin(column, too_long)).tolist()) if too_long else set()


def _in_json(texts: Sequence[str]) -> list[bytes]:
    """Return how JSON writes texts, without the quotation marks."""
    encoded = _ENCODE(texts)
    if b"\\" in encoded:
        return [_ENCODE(text)[1:-1] for text in texts]
    # Nothing was escaped, so that no text has a quotation mark.
    return encoded[2:-2].split(b'","') if texts else []


def _blank_long_texts(table: list[bytes]) -> list[int]:
    """Replace texts that are too long for a column, and return their numbers."""
    too_long = [number for number, text in enumerate(table) if len(text) > _WIDEST]
    for number in too_long:
        table[number] = b""
    return too_long


def _add_ranges(
    lines: TextColumns,
    offsets: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    has_path: npt.NDArray[np.bool_],
) -> None:
    has_length = has_path & (lengths >= 0)
    has_offset = has_length | (has_path & (offsets > 0))
    for name, values, where in (("offset", offsets, has_offset), ("length", lengths, has_length)):
        if where.all():
            lines.constant(b',"%b":' % name.encode())
            lines.numbers(values)
        elif where.any():
            lines.constant(b',"%b":' % name.encode(), where)
            lines.numbers(np.where(where, values, 0), where)


def _add_extras(lines: TextColumns, rows: range, extras: Mapping[int, Extras]) -> set[int]:
    """Add checksums and conditions; return the rows that have inline data or long texts."""
    own = list(extras.keys() & rows)
    own_extras = [extras[row] for row in own]
    # Many rows share one. By identity: equality would compare whole chunks.
    _, first, numbers = np.unique(
        np.fromiter(map(id, own_extras), np.int64, len(own)), return_index=True, return_inverse=True
    )
    places: list[int] = first.tolist()
    distinct = [own_extras[place] for place in places]
    table = [b"", *map(_members_after_a_path, distinct)]
    column = np.zeros(len(rows), np.intp)
    column[np.array(own, np.intp) - rows.start] = numbers + 1
    alone = [1 + number for number, extra in enumerate(distinct) if extra.data is not None]
    alone += _blank_long_texts(table)
    lines.texts(table, column)
    return set(np.flatnonzero(np.isin(column, alone)).tolist())


def _members_after_a_path(extras: Extras) -> bytes:
    if extras.data is not None:
        return b""
    entry = entry_of(Reference(None, checksum=extras.checksum, conditions=extras.conditions))
    members = _ENCODE(entry)[1:-1]
    return b"," + members if members else b""


def _with_rows(
    text: bytes | bytearray, start: int, rows: Iterable[int], reference: Callable[[int], Reference]
) -> bytes:
    """Replace the entries in some of the lines, by those in rows from `start`."""
    lines = bytes(text).split(b"\n")
    for row in rows:
        key = lines[row].partition(b":")[0]
        lines[row] = b"%b:%b," % (key, _ENCODE(entry_of(reference(start + row))))
    return b"\n".join(lines)


def canonical_keys(indices: npt.NDArray[np.int64]) -> Iterable[str]:
    """Return the canonical chunk keys of grid indices of shape (chunks, dimensions).

    Examples
    --------
    >>> list(canonical_keys(np.array([[0, 3], [1, 0]])))
    ['0.3', '1.0']
    """
    count, ndim = indices.shape
    if ndim == 0:
        return ["0"] * count
    if not count:
        return []
    columns = [_digits(column) for column in indices.T.tolist()]
    return columns[0] if ndim == 1 else map(".".join, zip(*columns, strict=True))


def _digits(numbers: list[int]) -> Iterable[str]:
    most = max(numbers)
    if most > len(numbers):
        return map(str, numbers)
    # Along most dimensions of a grid, the same few numbers repeat.
    return map([str(number) for number in range(most + 1)].__getitem__, numbers)
