"""GRIB2 messages: where they are in a file, and which of them would be read incorrectly.

gribberish reads the numbers of a message in rows, as stored, whatever the message says about
their order. Octets count from 1, as in the WMO manual (FM 92).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

# What users of ecCodes can do.
TO_EDITION_2 = "ecCodes converts it: grib_set -s edition=2 IN OUT."
ONE_BY_ONE = "ecCodes makes a message of each: grib_copy IN OUT."

_END = b"7777"
_DATA = 7
_NEEDED = {1, 3, 4, 5, 6, _DATA, 8}

# The number of octets of a section that matter here.
_FIRST = 256

_DAMAGED = "it is damaged: no sections fill its bytes"
_MISSING = 0xFFFFFFFF

# Millionths of a degree.
_TURN = 360 * 10**6

# Octets of the scanning mode, and of the flags for the reference of vectors, by grid template.
_SCANNING = {0: 72, 10: 60, 20: 65, 30: 65}
_VECTORS = {0: 55, 10: 47, 20: 47, 30: 47}

# Bits of the scanning mode.
_WESTWARD = 0x80
_NORTHWARD = 0x40
_BY_COLUMN = 0x20
_ROWS_TURN = 0x10
_ROWS_SHIFTED = 0x0F

# Product templates with the forecast time in octets 18 to 22; those that also state an end time.
_FORECASTS = (*range(16), 60, 61)
_WITH_END = (*range(8, 15), 61)
# Seconds of the units of forecast times, and the units of varying length: months and years.
_SECONDS = {0: 60, 1: 3600, 2: 86400, 10: 3 * 3600, 11: 6 * 3600, 12: 12 * 3600, 13: 1}
_LONG_UNITS = (3, 4, 5, 6, 7)


@dataclass(frozen=True, slots=True)
class GribMessage:
    """A message of a file.

    Parameters
    ----------
    start, length : int
        Its position, in bytes.
    edition : int
        The edition of GRIB.
    fields : int
        Number of fields: a message may repeat sections for further ones.
    sections : dict of int to bytes
        The first octets of the sections of the first field, by number.
    product : int
        Position of its section 4, in bytes.
    problem : str or None
        Why it cannot be read, or would be read incorrectly.
    """

    start: int
    length: int
    edition: int
    fields: int = 1
    sections: dict[int, bytes] = field(default_factory=dict[int, bytes])
    product: int = 0
    problem: str | None = None

    @property
    def reference_time(self) -> datetime:
        """Its reference time.

        Raises
        ------
        ValueError
            There is no such time.
        """
        stated: tuple[int, ...] = struct.unpack(">HBBBBB", self.sections[1][12:19])
        year, month, day, hour, minute, second = stated
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)

    @property
    def before_reference(self) -> timedelta | None:
        """How long before its reference time it is valid, if its forecast time is negative."""
        product = self.sections[4]
        time = _number(product, 19, 22)
        if _number(product, 8, 9) not in _FORECASTS or not time >> 31:
            return None
        return timedelta(seconds=(time & 0x7FFFFFFF) * _SECONDS[_number(product, 18, 18)])

    @property
    def grid(self) -> bytes:
        """The description of its grid: the same bytes for the same grid."""
        section = bytearray(self.sections[3])
        section[_VECTORS[_number(section, 13, 14)] - 1] = 0
        return bytes(section)

    @property
    def packing(self) -> int:
        """Number of the template that packs its values."""
        return _number(self.sections[5], 10, 11)


def messages(data: bytes) -> Iterator[GribMessage]:
    """Yield every message, skipping whatever lies between them.

    Examples
    --------
    >>> message = b"GRIB" + bytes([0, 0, 0, 1]) + bytes(16)
    >>> [found.start for found in messages(b"junk" + message)]
    []
    >>> message = b"GRIB" + bytes([0, 0, 28, 1]) + bytes(16) + b"7777"
    >>> [(found.start, found.problem) for found in messages(b"junk" + message)]
    ... # doctest: +ELLIPSIS
    [(4, 'it is GRIB edition 1, and only edition 2 is read. ecCodes converts it: ...')]
    """
    position = data.find(b"GRIB")
    while position >= 0:
        found = _message(data, position)
        # The length of a damaged message does not tell where the next one starts.
        skipped = 4 if found is None or found.problem == _DAMAGED else found.length
        if found is not None:
            yield found
        position = data.find(b"GRIB", position + skipped)


def without_negative_times(data: bytes, found: Iterable[GribMessage]) -> tuple[bytes, set[int]]:
    """Return a file in which messages before their reference time have that as reference time.

    gribberish takes a negative forecast time for a huge one. Its coordinates have only valid times,
    which stay the same.

    Returns
    -------
    data : bytes
        The file.
    changed : set of int
        Offsets of the changed messages.
    """
    changed: dict[int, GribMessage] = {}
    body = bytearray(data)
    for message in found:
        before = None if message.problem is not None else message.before_reference
        if before is None:
            continue
        try:
            valid = message.reference_time - before
        except (ValueError, OverflowError):
            continue  # gribberish will refuse it
        fields = valid.year, valid.month, valid.day, valid.hour, valid.minute, valid.second
        struct.pack_into(">HBBBBB", body, message.start + 16 + 12, *fields)
        struct.pack_into(">I", body, message.product + 18, 0)
        changed[message.start] = message
    return bytes(body) if changed else data, set(changed)


def _message(data: bytes, start: int) -> GribMessage | None:
    head = data[start : start + 16]
    edition = head[7] if len(head) == 16 else 0
    length = int.from_bytes(head[8:] if edition == 2 else head[4:7], "big")
    if length < 16 or edition not in (1, 2):
        return None
    if edition == 1:
        problem = f"it is GRIB edition 1, and only edition 2 is read. {TO_EDITION_2}"
        return GribMessage(start, length, edition, problem=problem)
    sections = list(_sections(data, start + 16, start + length))
    fields = sum(number == _DATA for number, _, _ in sections)
    # The first of repeated sections.
    first = {number: section for number, section, _ in reversed(sections)}
    positions = {number: position for number, _, position in reversed(sections)}
    if not first.keys() >= _NEEDED:
        return GribMessage(start, length, edition, problem=_DAMAGED)
    try:
        found = GribMessage(start, length, edition, fields, first, positions[4], _problem(first))
        if found.problem is None:
            _ = found.grid, found.packing, found.before_reference  # they need octets, too
        return found
    except IndexError:
        return GribMessage(start, length, edition, problem=_DAMAGED)


def _sections(data: bytes, position: int, end: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield number, first octets and position of every section, and number 8 for the end marker."""
    while position < end - len(_END):
        size = int.from_bytes(data[position : position + 4], "big")
        if size < 5:
            return
        yield data[position + 4], data[position : position + min(size, _FIRST)], position
        position += size
    if position == end - len(_END) and data[position:end] == _END:
        yield 8, _END, position


def _number(section: bytes | bytearray, first: int, last: int) -> int:
    """Return the number in some octets of a section."""
    if last > len(section):
        raise IndexError
    return int.from_bytes(section[first - 1 : last], "big")


def _problem(sections: dict[int, bytes]) -> str | None:
    grid, product = sections[3], sections[4]
    template = _number(grid, 13, 14)
    if template not in _SCANNING:
        known = ", ".join(map(str, _SCANNING))
        return f"its grid has template {template}, and only these are read: {known}"
    if _number(grid, 7, 10) != _number(grid, 31, 34) * _number(grid, 35, 38):
        return "the rows of its grid differ in length (a reduced grid)"
    scanning = _number(grid, _SCANNING[template], _SCANNING[template])
    if scanning & _BY_COLUMN:
        return f"its values are stored by column, not by row (scanning mode {scanning})"
    if scanning & _ROWS_TURN:
        return f"every other row of its values runs backwards (scanning mode {scanning})"
    if scanning & _ROWS_SHIFTED:
        return f"its rows are offset against each other (scanning mode {scanning})"
    if template == 0 and (problem := _degrees_problem(grid)):
        return problem
    bitmap = _number(sections[6], 6, 6)
    if bitmap not in (0, 255):
        return f"its bitmap is not part of the message (bitmap indicator {bitmap})"
    return _time_problem(product)


def _degrees_problem(grid: bytes) -> str | None:
    """Return why gribberish would compute the wrong latitudes and longitudes, or None."""
    angle, parts = _number(grid, 39, 42), _number(grid, 43, 46)
    if angle not in (0, 1, _MISSING) or parts not in (0, 10**6, _MISSING):
        return "its coordinates are in custom units, not in millionths of a degree"
    scanning = _number(grid, 72, 72)
    # Octets of the number, the first, the last and the step.
    for what, octets, sign in (
        ("latitudes", (35, 47, 56, 68), 1 if scanning & _NORTHWARD else -1),
        ("longitudes", (31, 51, 60, 64), -1 if scanning & _WESTWARD else 1),
    ):
        count, first, last, step = (_number(grid, at, at + 3) for at in octets)
        off = _signed(first) + sign * (count - 1) * step - _signed(last)
        off = abs((off + _TURN // 2) % _TURN - _TURN // 2)
        # Half a step off, values would be assigned to neighbouring coordinates.
        if count > 1 and (step == _MISSING or 2 * off > step):
            return f"the step between its {what} does not lead from the first to the last"
    return None


def _signed(number: int) -> int:
    """Return a 32-bit number whose first bit is the sign."""
    return -(number & 0x7FFFFFFF) if number >> 31 else number


def _time_problem(product: bytes) -> str | None:
    template = _number(product, 8, 9)
    if template not in _FORECASTS:
        return None
    unit, time = _number(product, 18, 18), _number(product, 19, 22)
    if time >> 31 and unit not in _SECONDS:
        return "its forecast time is negative, in months or years, which vary in length"
    if time and unit in _LONG_UNITS and template not in _WITH_END:
        return "its forecast time is in months or years, which vary in length"
    return None
