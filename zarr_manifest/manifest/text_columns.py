"""Lines of text from columns, without a Python object per line. Pure.

A line is a record of fixed width: numbers and texts that are shorter than their field are
padded with NUL, and all NUL are removed at the end. No text may contain any.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["TextColumns"]

type _Numbers = npt.NDArray[np.signedinteger]
type _Mask = npt.NDArray[np.bool_]

# Numbers are written four digits at a time.
_DIGITS = 4
_BASE = 10**_DIGITS


@functools.cache  # made when the first number is written
def _groups_of_digits(zero: bytes) -> npt.NDArray[np.uint32]:
    """Return the text of every group: first after other digits, then at the front of a number.

    `zero` is that of the number 0 at the front: nothing, or one digit if there are no others.
    """
    after = [b"%04d" % number for number in range(_BASE)]
    front = [(b"%d" % number if number else zero).rjust(_DIGITS, b"\0") for number in range(_BASE)]
    return np.frombuffer(b"".join(after + front), np.uint32)


class TextColumns:
    """The fields of lines, added from left to right.

    Parameters
    ----------
    count : int
        Number of lines, at least 1.

    Examples
    --------
    >>> lines = TextColumns(3)
    >>> lines.numbers(np.array([7, 10_000, 0]))
    >>> lines.constant(b" of ", np.array([True, False, True]))
    >>> lines.texts([b"a", b"bc"], np.array([0, 1, 1]))
    >>> lines.constant(b";")
    >>> lines.text()
    b'7 of a;10000bc;0 of bc;'
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._fields: list[tuple[npt.DTypeLike, npt.ArrayLike, _Mask | None]] = []

    def constant(self, text: bytes, where: _Mask | None = None) -> None:
        """Add a text that is the same in all lines, or in some."""
        if text:
            self._fields.append((f"S{len(text)}", text, where))

    def numbers(self, values: _Numbers, where: _Mask | None = None) -> None:
        """Add a number of each line, or of some: integers from 0 in decimal digits."""
        most = int(values.max())
        if most == int(values.min()):
            self.constant(b"%d" % most, where)
            return
        groups: list[npt.NDArray[np.uint32]] = []
        table, rest = _groups_of_digits(b"0"), values
        while most:
            higher = rest // _BASE
            group = rest - higher * _BASE
            group += (higher == 0) * _BASE
            groups.append(table[group])
            table, rest, most = _groups_of_digits(b""), higher, most // _BASE
        self._fields += [(np.uint32, group, where) for group in reversed(groups)]

    def texts(self, table: Sequence[bytes], numbers: npt.NDArray[np.integer]) -> None:
        """Add a text of each line, given by its number in a table."""
        if len(table) == 1:
            self.constant(table[0])
            return
        column = np.array(table)
        if column.dtype.itemsize:
            self._fields.append((column.dtype, column[numbers], None))

    def text(self) -> bytes:
        """Return all lines."""
        # Bytes without a type are only copied, which takes no time for each of them.
        layout = [(f"f{place}", dtype) for place, (dtype, *_) in enumerate(self._fields)]
        records = np.empty(self._count, layout)
        for place, (_, values, where) in enumerate(self._fields):
            field = records[f"f{place}"]
            field[...] = values
            if where is not None:
                field[~where] = np.zeros((), field.dtype)
        return records.tobytes().translate(None, b"\0")
