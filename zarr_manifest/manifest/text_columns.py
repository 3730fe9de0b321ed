"""Lines of text from columns, without a Python object per line. Pure.

A line is a record of fixed width: numbers and texts that are shorter than their field are
padded with NUL, and all NUL are removed at the end: one by one if there are few, otherwise while
every byte is looked at. Then it pays to leave out a text that many lines share, one after the
other: it is one byte in each of them, which the text replaces last. No text may contain NUL or
these bytes: in JSON, they are written as escapes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

__all__ = ["TextColumns", "distinct_numbers"]

# A text of a table is a field of its own kind if so many lines share it, on average.
_SHARED = 128

# The bytes that stand for such texts: where another one begins, and where it goes on.
_MARKS = ((0x0E, 0x0F), (0x10, 0x11), (0x12, 0x13), (0x14, 0x15))

type _Numbers = npt.NDArray[np.signedinteger]
type _Mask = npt.NDArray[np.bool_]

# Of one width. Bytes without a type are only copied, which takes no time for each of them.
type _Texts = npt.NDArray[np.void]

# If a line has more NUL, on average, every byte is looked at to remove them.
_FEW = 2

# Numbers are written four digits at a time.
_DIGITS = 4
_BASE = 10**_DIGITS


class _LineField(Struct, frozen=True):
    """Bytes at the same position in each line.

    Attributes
    ----------
    line : bytes
        That of all lines, with NUL where they differ.
    padding : int
        Number of NUL in all lines.
    where : ndarray of bool, or None
        The lines that have it; None if all do.
    """

    line: bytes
    padding: int
    where: _Mask | None

    def put(self, places: _Texts) -> None:
        """Write what differs from line to line."""


class _Constant(_LineField, frozen=True):
    """A text of all lines, or of some."""

    @classmethod
    def of(cls, text: bytes, where: _Mask | None) -> _Constant:
        absent = 0 if where is None else len(where) - int(np.count_nonzero(where))
        return cls(text, len(text) * absent, where)


class _Column(_LineField, frozen=True):
    """Bytes of each line, or of some."""

    values: _Texts

    @classmethod
    def of(cls, values: _Texts, where: _Mask | None = None) -> _Column:
        padding = values.nbytes - int(np.count_nonzero(values.view(np.uint8)))
        return cls(bytes(values.itemsize), padding, where, values)

    def put(self, places: _Texts) -> None:
        places[...] = self.values


class _Runs(_LineField, frozen=True):
    """Texts that lines share, one after the other.

    Attributes
    ----------
    texts : sequence of bytes
        The texts.
    starts : sequence of int
        The first line of each, and the number of lines.
    """

    texts: Sequence[bytes]
    starts: Sequence[int]

    @classmethod
    def of(cls, texts: Sequence[bytes], starts: Sequence[int]) -> _Runs:
        lengths = list(map(len, texts))
        width = max(lengths)
        padding = int((np.diff(starts) * (width - np.array(lengths))).sum())
        return cls(bytes(width), padding, None, texts, starts)

    def put(self, places: _Texts) -> None:
        for text, run in zip(self.texts, itertools.pairwise(self.starts), strict=True):
            places[slice(*run)] = np.void(text.ljust(len(self.line), b"\0"))

    def marks(self, begins: int, goes_on: int) -> _Column:
        """Return a byte of each line that stands for its text."""
        marks = np.full(self.starts[-1], goes_on, np.uint8)
        marks[self.starts[:-1]] = begins
        return _Column.of(marks.view("V1"))


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
            self._fields.append(_Constant.of(text, where))

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
        self._fields += [_Column.of(group, where) for group in reversed(groups)]

    def texts(self, table: Sequence[bytes], numbers: npt.NDArray[np.integer]) -> None:
        """Add a text of each line, given by its number in a table."""
        starts = (numbers[1:] != numbers[:-1]).nonzero()[0] + 1
        if len(starts) * _SHARED < self._count:
            used: list[int] = [int(numbers[0]), *numbers[starts].tolist()]
            texts = [table[number] for number in used]
            if any(texts):
                self._fields.append(_Runs.of(texts, [0, *starts.tolist(), self._count]))
            return
        column: npt.NDArray[np.bytes_] = np.array(table)
        if width := column.dtype.itemsize:
            self._fields.append(_Column.of(column[numbers].view(f"V{width}")))

    def text(self) -> bytes | bytearray:
        """Return all lines."""
        if sum([field.padding for field in self._fields]) <= _FEW * self._count:
            return _in_lines(self._fields, self._count).replace(b"\0", b"")
        fields = list(self._fields)
        runs = [(n, field) for n, field in enumerate(fields) if isinstance(field, _Runs)]
        marked = list(zip(_MARKS, runs, strict=False))  # there may be more of either
        for marks, (place, field) in marked:
            fields[place] = field.marks(*marks)
        text: bytes | bytearray = _in_lines(fields, self._count).translate(None, b"\0")
        for marks, (_, field) in marked:
            text = _put_in(text, marks, field.texts)
        return text


def _in_lines(fields: Sequence[_LineField], count: int) -> bytearray:
    """Return the fields side by side."""
    line = b"".join([field.line for field in fields])
    lines, total = bytearray(line) * count, len(line)
    place = 0
    for field in fields:
        width = len(field.line)
        places: _Texts = np.ndarray(count, f"V{width}", lines, place, total)
        field.put(places)
        if field.where is not None:
            places[~field.where] = np.void(bytes(width))
        place += width
    return lines


def _put_in(text: bytes | bytearray, marks: tuple[int, int], texts: Sequence[bytes]) -> bytes:
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
