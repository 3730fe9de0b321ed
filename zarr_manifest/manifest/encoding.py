"""Columns of references -> a manifest document, without an object per chunk.

For manifests with millions of entries. Writes exactly what
:func:`zarr_manifest.format.manifest_document.encode_document` would. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import SEEK_END, BytesIO

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.format import Entry

__all__ = ["canonical_keys", "encode_rows"]

# Number of rows encoded at a time.
_AT_ONCE = 2**14


def encode_rows(
    indices: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    path_numbers: npt.NDArray[np.int32],
    paths: Sequence[str],
    special: Mapping[int, Entry],
) -> bytes:
    """Encode rows as a manifest document, one entry per line.

    Parameters
    ----------
    indices : ndarray of shape (rows, dimensions)
        Grid index of each row's chunk.
    offsets, lengths, path_numbers : ndarray
        One value per row; a negative length means the rest of the object.
    paths : sequence of str
        The paths to which the path numbers refer.
    special : mapping of int to Entry
        Entries of the rows that are not just a path and a range.

    Examples
    --------
    >>> columns = np.array([[0], [2]]), np.array([0, 9]), np.array([-1, 5]), np.array([0, 0])
    >>> print(encode_rows(*columns, ["f.nc"], {}).decode())
    {
    "0":{"path":"f.nc"},
    "2":{"path":"f.nc","offset":9,"length":5}
    }
    <BLANKLINE>
    """
    if not len(offsets):
        return b"{}\n"
    encode = msgspec.json.Encoder().encode
    # The entry's JSON without its closing brace, so that a range can follow; used paths only.
    begun = {
        number: encode({"path": paths[number]})[:-1].decode()
        for number in np.unique(path_numbers).tolist()
        if number >= 0
    }
    document = BytesIO(b"{")
    document.seek(0, SEEK_END)
    separator = b"\n"
    for start in range(0, len(offsets), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        columns = (path_numbers[rows], offsets[rows], lengths[rows])
        lines = [
            f'"{key}":{begun[number]},"offset":{offset},"length":{length}}}'
            if number >= 0 and length >= 0
            else f'"{key}":{_to_the_end(begun.get(number, ""), offset)}'
            for key, number, offset, length in zip(
                canonical_keys(indices[rows]), *(column.tolist() for column in columns), strict=True
            )
        ]
        for row in special.keys() & range(start, start + len(lines)):
            key = lines[row - start].partition(":")[0]
            lines[row - start] = f"{key}:{encode(special[row]).decode()}"
        document.write(separator + ",\n".join(lines).encode())
        separator = b",\n"
    document.write(b"\n}\n")
    return document.getvalue()


def _to_the_end(begun: str, offset: int) -> str:
    return f'{begun},"offset":{offset}}}' if offset else f"{begun}}}"


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
