"""Columns of references -> a manifest document, without an object per chunk.

For manifests of millions of entries. What it writes is what
:func:`zarr_manifest._document.encode_document` would write. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest._document import Entry

__all__ = ["encode_rows"]


def encode_rows(
    indices: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    path_numbers: npt.NDArray[np.int32],
    paths: Sequence[str],
    special: Mapping[int, Entry],
) -> bytes:
    """Encode rows as a manifest document, one entry in a line.

    Parameters
    ----------
    indices : ndarray of shape (rows, dimensions)
        Grid index of each row's chunk.
    offsets, lengths, path_numbers : ndarray
        One value per row; a negative length is the rest of the object.
    paths : sequence of str
        What the path numbers count.
    special : mapping of int to Entry
        Entries of the rows that are more, or other, than a path and a range.

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
    encode = msgspec.json.Encoder().encode
    # "...}" without the brace, so that a range can follow; of paths that are in use only.
    begun = {
        number: encode({"path": paths[number]})[:-1].decode()
        for number in np.unique(path_numbers).tolist()
        if number >= 0
    }
    columns = (path_numbers.tolist(), offsets.tolist(), lengths.tolist())
    entries = [
        begun[number] + _range(offset, length) if number >= 0 else ""
        for number, offset, length in zip(*columns, strict=True)
    ]
    for row, entry in special.items():
        entries[row] = encode(entry).decode()
    if not entries:
        return b"{}\n"
    lines = (f'"{key}":{entry}' for key, entry in zip(_keys(indices), entries, strict=True))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _range(offset: int, length: int) -> str:
    if length >= 0:
        return f',"offset":{offset},"length":{length}}}'
    return f',"offset":{offset}}}' if offset else "}"


def _keys(indices: npt.NDArray[np.int64]) -> Iterable[str]:
    count, ndim = indices.shape
    if ndim == 0:
        return ["0"] * count
    return map(".".join, zip(*(map(str, column) for column in indices.T.tolist()), strict=True))
