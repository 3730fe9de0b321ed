"""Entries that are all written like the first one -> columns.

The commas between members tell where values end, as long as no string has one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from zarr_manifest.format import Limits
from zarr_manifest.manifest.author_columns import TO_THE_END
from zarr_manifest.manifest.entry_columns import EntryColumns, Shared
from zarr_manifest.manifest.keys import Grid
from zarr_manifest.manifest.parts import LazyPart
from zarr_manifest.manifest.plain.asides import asides_of
from zarr_manifest.manifest.plain.numbers import (
    leading_numbers,
    trailing_numbers,
    words_for_digits,
)
from zarr_manifest.manifest.plain.scanning import WORD, Places, Text, are_literal
from zarr_manifest.manifest.plain.strings import Strings, strings_between
from zarr_manifest.manifest.plain.template import Field, Template, template_of

__all__ = ["PlainReader"]

_END = re.compile(rb"[ \t\n\r]*+\}[ \t\n\r]*+")

# How much of a document is looked at to know how its entries are written, and that it ends after
# one: at least as long as the longest string. Where more would be needed, others read it.
_LOOKED_AT = 2**13

# What words are read of before and after any of that.
_MARGIN = _LOOKED_AT + 2 * WORD
_LIMITED = ("path", "etag", "version")

type _Integers = npt.NDArray[np.int64]


class PlainReader:
    """Reads documents whose entries are all alike, one after the other.

    Parameters
    ----------
    grid : Grid
        The chunks that keys may name.
    limits : Limits
        Of which only the lengths of strings are checked.
    shared : Shared
        Updated with new paths and asides.
    """

    def __init__(self, grid: Grid, limits: Limits, shared: Shared) -> None:
        self._grid = grid
        self._limits = limits
        self._shared = shared
        self._text = Text(_MARGIN)

    def columns(self, document: LazyPart) -> EntryColumns | None:
        """Return the columns of a document, in its order; None if its entries are not all alike.

        Also if anything else might be wrong with it. Then nothing is added to the paths.

        Parameters
        ----------
        document : LazyPart
            A part that is a manifest document too, or all of one.
        """
        shape, text = self._grid.shape, self._text
        if not shape or math.prod(shape) >= 2**62:
            return None
        text.load(document)
        template = template_of(text[text.start : min(text.end, text.start + _LOOKED_AT)])
        if template is None:
            return None
        found = _entries(text, template)
        if found is None:
            return None
        starts, commas = found
        keys = _chunk_numbers(text, starts, shape, self._grid.region)
        if keys is None:
            return None
        values = _values(text, template, keys.ends, commas)
        if values is None or any(
            name in values.strings and values.strings[name].longest > self._limits.path_length
            for name in _LIMITED
        ):
            return None
        return _columns(keys.values, values, shape, self._shared)


class _Keys(Struct, frozen=True):
    """The number of each entry's chunk, and where its key ends."""

    values: _Integers
    ends: Places


class _Values(Struct, frozen=True):
    """The members of all entries, by name."""

    numbers: dict[str, _Integers]
    strings: dict[str, Strings]


def _entries(text: Text, template: Template) -> tuple[Places, Places] | None:
    """Return where the keys of a document begin and its values end.

    What follows its last value becomes what would follow it if there was one more entry.

    Returns
    -------
    starts, commas
        `commas` has a row for each entry and a column for each member.
    """
    start, closing = text.start + template.start, template.closing
    ending = closing[: closing.index(b"}") + 1]
    tail = text[max(start, text.end - _LOOKED_AT) : text.end]
    # The last brace is that of the document.
    end = tail.rfind(b"}", 0, tail.rfind(b"}")) + 1
    if _END.fullmatch(tail, end) is None or not tail.endswith(ending, 0, end):
        return None
    text.end_with(closing, text.end - len(tail) + end - len(ending))
    commas = text.find(",")
    if len(commas) % len(template.fields):
        return None
    commas = commas.reshape(-1, len(template.fields))
    starts = np.empty(len(commas), np.int64)
    starts[0] = start
    np.add(commas[:-1, -1], len(closing) - closing.index(b","), out=starts[1:])
    return starts, commas


def _chunk_numbers(
    text: Text, starts: Places, shape: Sequence[int], region: Sequence[range] | None
) -> _Keys | None:
    """Return the numbers of the chunks that canonical keys name; None if one is outside."""
    most = sum(len(str(count)) + 1 for count in shape)
    words = text.words(starts, -(-most // WORD))
    columns = [np.ascontiguousarray(column) for column in words.T]
    numbers = np.zeros(len(starts), np.int64)
    ends = starts - 1
    for axis, count in enumerate(shape):
        found = leading_numbers(columns, "." if axis < len(shape) - 1 else '"')
        if found is None:
            return None
        indices, columns = found.values, found.rest
        within = range(count) if region is None else region[axis]
        if int(indices.min()) < within.start or int(indices.max()) >= min(within.stop, count):
            return None
        ends = ends + found.sizes
        numbers = numbers * count + indices if axis else indices
    return _Keys(numbers, ends)


def _values(text: Text, template: Template, ends: Places, commas: Places) -> _Values | None:
    """Return the members; None if they do not stand where those of the first entry do.

    `ends` is where keys end.
    """
    fields = template.fields
    values = _Values({}, {})
    if fields[0].is_number and not text.has(fields[0].before, ends):
        return None
    afters = [*(field.before for field in fields[1:]), template.closing]
    for number, (field, after) in enumerate(zip(fields, afters, strict=True)):
        starts, ends = ends, commas[:, number] - after.index(b",")
        if not _read_member(text, field, after, starts, ends, values):
            return None
    return values


def _read_member(
    text: Text, field: Field, after: bytes, starts: Places, ends: Places, values: _Values
) -> bool:
    """Read a member of all entries, if it is proper and followed by a literal."""
    if not field.is_number:
        strings = strings_between(text, field.before, after, starts, ends)
        if strings is None:
            return False
        values.strings[field.name] = strings
        return True
    lengths = ends - starts - len(field.before)
    count = words_for_digits(lengths)
    if count is None:
        return False
    words = text.words(ends - count * WORD, count + -(-len(after) // WORD))
    if not are_literal(words[:, count:], after):
        return False
    numbers = trailing_numbers(words[:, :count], lengths)
    if numbers is None:
        return False
    values.numbers[field.name] = numbers
    return True


def _path_numbers(column: Strings, count: int, paths: dict[str, int]) -> npt.NDArray[np.int32]:
    """Return the number of each row's path, and number new ones."""
    table = np.array([paths.setdefault(path, len(paths)) for path in column.values], np.int32)
    return np.repeat(table[column.numbers], np.diff(column.starts, append=count))


def _columns(
    numbers: _Integers, values: _Values, shape: tuple[int, ...], shared: Shared
) -> EntryColumns | None:
    count = len(numbers)
    offsets, lengths = values.numbers.get("offset"), values.numbers.get("length")
    if lengths is not None and not lengths.all():
        return None
    asides = asides_of(values.strings, values.numbers.get("size"), count, shared)
    if asides is None:
        return None
    if len(numbers) > 1 and not (numbers[1:] > numbers[:-1]).all():
        ordered = np.sort(numbers)
        if (ordered[1:] == ordered[:-1]).any():
            return None
    # Last, so that whoever reads the document instead finds no paths that are not used.
    path_numbers = _path_numbers(values.strings["path"], count, shared.paths)
    return EntryColumns(
        shape,
        numbers,
        np.zeros(count, np.int64) if offsets is None else offsets,
        np.full(count, TO_THE_END, np.int64) if lengths is None else lengths,
        path_numbers,
        asides,
    )
