"""Columns of references -> a manifest document, without an object per chunk.

For manifests with millions of entries, one a line: it costs a byte, and lets ``diff``, ``grep`` and
people work with them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import SEEK_CUR, SEEK_END, BytesIO
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.format import (
    Conditions,
    Entry,
    format_canonical,
    format_last_modified,
    grid_indices,
)
from zarr_manifest.manifest.text_columns import TextColumns

if TYPE_CHECKING:
    from zarr_manifest.manifest.references import Columns, Extras, Reference, References

# Number of rows encoded at a time: they fit into a processor's cache.
_BATCH_SIZE = 2**13

# So few rows are encoded one by one, which takes less time than to set up columns.
_FEW = 16

# In a column of texts, all take the space of the longest; longer ones are written row by row.
_WIDEST = 512

_ENCODE = msgspec.json.Encoder().encode


def encode_references(references: References) -> bytes:
    """Encode references as a manifest document, one entry per line."""
    count = len(references)
    if not count:
        return b"{}\n"
    if count <= _FEW:
        return _one_by_one(references)
    document = BytesIO(b"{\n")
    document.seek(0, SEEK_END)
    for start in range(0, count, _BATCH_SIZE):
        columns = references.columns(slice(start, min(start + _BATCH_SIZE, count)))
        lines = TextColumns(len(columns.numbers))
        _add_keys(lines, grid_indices(references.grid_shape, columns.numbers))
        lines.constant(b'":{')
        alone = _add_paths(lines, columns.path_numbers, references.paths)
        _add_ranges(lines, columns)
        if extras := references.extras_of(range(start, start + len(columns.numbers))):
            alone |= _add_extras(lines, len(columns.numbers), extras)
        lines.constant(b"},\n")
        text = lines.text()
        document.write(_with_rows(text, start, alone, references) if alone else text)
    document.seek(-len(b",\n"), SEEK_CUR)
    document.write(b"\n}\n")
    return document.getvalue()


def _one_by_one(references: References) -> bytes:
    lines = [
        b'"%b":%b' % (format_canonical(index).encode(), _encode(references.reference(row)))
        for index, row in references.items()
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


def _add_ranges(lines: TextColumns, columns: Columns) -> None:
    offsets, lengths, has_path = columns.offsets, columns.lengths, columns.path_numbers >= 0
    has_length = has_path & (lengths >= 0)
    has_offset = has_length | (has_path & (offsets > 0))
    for name, values, where in (("offset", offsets, has_offset), ("length", lengths, has_length)):
        if where.all():
            lines.constant(b',"%b":' % name.encode())
            lines.numbers(values)
        elif where.any():
            lines.constant(b',"%b":' % name.encode(), where)
            lines.numbers(np.where(where, values, 0), where)


def _add_extras(lines: TextColumns, count: int, extras: Sequence[tuple[int, Extras]]) -> set[int]:
    """Add checksums and conditions; return the rows that have inline data or long texts."""
    own = [extra for _, extra in extras]
    # Many rows share one. By identity: equality would compare whole chunks.
    _, first, numbers = np.unique(
        np.fromiter(map(id, own), np.int64, len(own)), return_index=True, return_inverse=True
    )
    places: list[int] = first.tolist()
    distinct = [own[place] for place in places]
    table = [b"", *map(_members_after_a_path, distinct)]
    column = np.zeros(count, np.intp)
    column[[row for row, _ in extras]] = numbers + 1
    alone = [1 + number for number, extra in enumerate(distinct) if extra.data is not None]
    alone += _blank_long_texts(table)
    lines.texts(table, column)
    return set(np.flatnonzero(np.isin(column, alone)).tolist())


def _members_after_a_path(extras: Extras) -> bytes:
    if extras.data is not None:
        return b""
    members = _ENCODE(_entry(extras.checksum, extras.conditions))[1:-1]
    return b"," + members if members else b""


def _with_rows(
    text: bytes | bytearray, start: int, rows: Iterable[int], references: References
) -> bytes:
    """Replace the entries in some of the lines, by those in rows from `start`."""
    lines = bytes(text).split(b"\n")
    for row in rows:
        key = lines[row].partition(b":")[0]
        lines[row] = b"%b:%b," % (key, _encode(references.reference(references.row(start + row))))
    return b"\n".join(lines)


def _encode(reference: Reference) -> bytes:
    return _ENCODE(entry_of(reference))


def entry_of(reference: Reference) -> Entry:
    """Return a reference as an entry of a document."""
    unset = msgspec.UNSET
    path, length, data = reference.path, reference.length, reference.data
    has_range = path is not None and (reference.offset > 0 or length is not None)
    entry = _entry(reference.checksum, reference.conditions)
    return msgspec.structs.replace(
        entry,
        path=unset if path is None else path,
        offset=reference.offset if has_range else unset,
        length=unset if path is None or length is None else length,
        data=unset if data is None else data,
    )


def _entry(checksum: str | None, conditions: Conditions) -> Entry:
    unset = msgspec.UNSET
    has_time = conditions.last_modified is not None
    last_modified = format_last_modified(conditions) if has_time else None
    return Entry(
        checksum=unset if checksum is None else checksum,
        etag=unset if conditions.etag is None else conditions.etag,
        last_modified=unset if last_modified is None else last_modified,
        version=unset if conditions.version is None else conditions.version,
        size=unset if conditions.size is None else conditions.size,
    )


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
