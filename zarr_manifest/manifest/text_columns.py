"""Lines of text from columns, without a Python object per line. Pure.

A line is a record of fixed width: numbers and texts that are shorter than their field are
padded with NUL, and all NUL are removed at the end. A text that many lines share, one after the
other, is one byte in each of them, which the text replaces last. No text may contain NUL or
these bytes: in JSON, they are written as escapes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["TextColumns"]

# A text of a table is put in last if so many lines share it, on average.
_SHARED = 128

# The bytes that stand for the texts of a table: where another one begins, and where it goes on.
_MARKS = ((0x0E, 0x0F), (0x10, 0x11), (0x12, 0x13), (0x14, 0x15))

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
        # A line, with NUL where lines differ.
        self._line = bytearray()
        self._columns: list[tuple[int, npt.NDArray[Any]]] = []
        self._left_out: list[tuple[slice, _Mask]] = []
        self._put_in_last: list[list[bytes]] = []

    def constant(self, text: bytes, where: _Mask | None = None) -> None:
        """Add a text that is the same in all lines, or in some."""
        start = len(self._line)
        self._line += text
        if where is not None:
            self._left_out.append((slice(start, len(self._line)), ~where))

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
        start = len(self._line)
        for group in reversed(groups):
            self._column(group)
        if where is not None:
            self._left_out.append((slice(start, len(self._line)), ~where))

    def texts(self, table: Sequence[bytes], numbers: npt.NDArray[np.integer]) -> None:
        """Add a text of each line, given by its number in a table."""
        starts = (numbers[1:] != numbers[:-1]).nonzero()[0] + 1
        if len(starts) * _SHARED >= self._count or len(self._put_in_last) == len(_MARKS):
            column = np.array(table)
            if column.dtype.itemsize:
                self._column(column[numbers])
            return
        begins, goes_on = _MARKS[len(self._put_in_last)]
        marks = np.full(self._count, goes_on, np.uint8)
        marks[0] = marks[starts] = begins
        self._column(marks)
        used: list[int] = [int(numbers[0]), *numbers[starts].tolist()]
        self._put_in_last.append([table[number] for number in used])

    def _column(self, values: npt.NDArray[Any]) -> None:
        self._columns.append((len(self._line), values))
        self._line += bytes(values.itemsize)

    def text(self) -> bytes:
        """Return all lines."""
        width = len(self._line)
        # Bytes without a type are only copied, which takes no time for each of them.
        lines = np.empty(self._count, f"V{width}")
        lines[...] = np.void(bytes(self._line))
        for place, values in self._columns:
            np.ndarray(self._count, values.dtype, lines.data, place, width)[...] = values
        for places, rows in self._left_out:
            lines.view(np.uint8).reshape(self._count, width)[rows, places] = 0
        text = lines.tobytes().translate(None, b"\0")
        for marks, texts in zip(_MARKS, self._put_in_last, strict=False):
            text = _put_in(text, marks, texts)
        return text


def _put_in(text: bytes, marks: tuple[int, int], texts: Sequence[bytes]) -> bytes:
    """Replace marks by the texts for which they stand, in their order."""
    begins, goes_on = (bytes([mark]) for mark in marks)
    end = text.index(begins)
    pieces = [text[:end]]
    for own in texts:
        # Splitting at a byte takes ten times as long as finding it.
        start, end = end + 1, text.find(begins, end + 1)
        run = text[start:] if end < 0 else text[start:end]
        pieces += (own, run.replace(goes_on, own))
    return b"".join(pieces)
