"""Lines of text from columns, without a Python object per line. Pure.

A line is a record of fixed width: numbers and texts that are shorter than their field are
padded with NUL, and all NUL are removed at the end. No text may contain one: in JSON, it is written
as an escape.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

# Texts are written run by run if so many lines share one, on average.
_SHARED = 128

type _Numbers = npt.NDArray[np.signedinteger]
type _Mask = npt.NDArray[np.bool_]

# Of one width. Bytes without a type are only copied, which takes no time for each of them.
type _Texts = npt.NDArray[np.void]

# Numbers are written four digits at a time.
_DIGITS = 4
_BASE = 10**_DIGITS


class _LineField(Struct, frozen=True):
    """Bytes at the same position in each line.

    Attributes
    ----------
    line : bytes
        Those of all lines, with NUL where they differ.
    where : ndarray of bool, or None
        The lines that have them; None if all do.
    values : ndarray, or None
        Those of each line, if they differ from one to the next.
    runs : sequence of (int, int, bytes)
        Those that lines share, one after the other: the first line, one past the last, and a text.
    """

    line: bytes
    where: _Mask | None = None
    values: _Texts | None = None
    runs: Sequence[tuple[int, int, bytes]] = ()


@functools.cache  # made when the first number is written
def _groups_of_digits(zero: bytes) -> _Texts:
    """Return the text of every group: first after other digits, then at the front of a number.

    `zero` is that of the number 0 at the front: nothing, or one digit if there are no others.
    """
    after = [b"%04d" % number for number in range(_BASE)]
    front = [(b"%d" % number if number else zero).rjust(_DIGITS, b"\0") for number in range(_BASE)]
    return np.frombuffer(b"".join(after + front), f"V{_DIGITS}")


@functools.cache
def _digits_in_front(zero: bytes, width: int) -> _Texts:
    """Return the text of every group of so many digits at the front of a number."""
    bytewise = _groups_of_digits(zero)[_BASE:].view(np.uint8).reshape(-1, _DIGITS)
    return np.ascontiguousarray(bytewise[: 10**width, -width:]).view(f"V{width}").reshape(-1)


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
    >>> bytes(lines.text())
    b'7 of a;10000bc;0 of bc;'
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._fields: list[_LineField] = []

    def constant(self, text: bytes, where: _Mask | None = None) -> None:
        """Add a text that is the same in all lines, or in some."""
        if text:
            self._fields.append(_LineField(text, where))

    def numbers(self, values: _Numbers, where: _Mask | None = None) -> None:
        """Add a number of each line, or of some: integers from 0 in decimal digits."""
        most = int(values.max())
        if most == int(values.min()):
            self.constant(b"%d" % most, where)
            return
        groups: list[_Texts] = []
        zero, rest = b"0", values
        while most >= _BASE:
            higher: _Numbers = rest // _BASE
            group: _Numbers = rest - higher * _BASE
            group += (higher == 0) * _BASE
            table = _groups_of_digits(zero)
            groups.append(table.take(group))
            zero, rest, most = b"", higher, most // _BASE
        table = _digits_in_front(zero, len(str(most)))
        groups.append(table.take(rest))
        for column in reversed(groups):
            self._fields.append(_LineField(bytes(column.itemsize), where, column))

    def texts(self, table: Sequence[bytes], numbers: npt.NDArray[np.integer]) -> None:
        """Add a text of each line, given by its number in a table."""
        starts = (numbers[1:] != numbers[:-1]).nonzero()[0] + 1
        if len(starts) * _SHARED < self._count:
            used: list[int] = [int(numbers[0]), *numbers[starts].tolist()]
            texts = [table[number] for number in used]
            width = max(map(len, texts))
            padded = [text.ljust(width, b"\0") for text in texts]
            edges = itertools.pairwise([0, *starts.tolist(), self._count])
            runs = [(*edge, text) for edge, text in zip(edges, padded, strict=True)]
            self._fields.append(_LineField(bytes(width), runs=runs))
            return
        column: npt.NDArray[np.bytes_] = np.array(table)
        width = column.dtype.itemsize
        self._fields.append(_LineField(bytes(width), values=column[numbers].view(f"V{width}")))

    def text(self) -> bytearray:
        """Return all lines."""
        line = b"".join([field.line for field in self._fields])
        lines, place = bytearray(line) * self._count, 0
        for field in self._fields:
            width = len(field.line)
            places: _Texts = np.ndarray(self._count, f"V{width}", lines, place, len(line))
            if field.values is not None:
                places[...] = field.values
            for start, stop, text in field.runs:
                places[start:stop] = np.void(text)
            if field.where is not None:
                places[~field.where] = np.void(bytes(width))
            place += width
        return lines.replace(b"\0", b"")


def distinct_numbers(numbers: _Numbers, count: int) -> tuple[_Numbers, _Numbers]:
    """Return the distinct numbers, sorted, and which of them each one is.

    Parameters
    ----------
    numbers : ndarray of int
        From 0. Returned if they are all numbers from 0 to `count`.
    count : int
        All of them are smaller.

    Examples
    --------
    >>> distinct_numbers(np.array([5, 3, 5]), 6)
    (array([3, 5]), array([1, 0, 1]))
    """
    if len(numbers) and (numbers[1:] >= numbers[:-1]).all():
        starts = np.concatenate([[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1])
        used = numbers[starts]
        if used[-1] - used[0] < len(used):
            return used, numbers - used[0] if used[0] else numbers
        return used, np.repeat(np.arange(len(used)), np.diff(starts, append=len(numbers)))
    if count > 4 * len(numbers):
        return np.unique(numbers, return_inverse=True)
    # No need to sort a million numbers.
    is_used = np.zeros(count, np.bool_)
    is_used[numbers] = True
    used = np.flatnonzero(is_used)
    return used, numbers if len(used) == count else (np.cumsum(is_used) - 1)[numbers]
