"""Documents whose entries are all written like the first one, read without a step for each.

Writers format every entry alike, so that what stands between its values can be compared, and
its numbers be parsed, for thousands of entries together: seven times as fast as decoding. What is
found is certain: the text of a document is, byte for byte, what was compared and parsed. Anything
else is left to the general decoder, which also knows what is wrong with it. Pure.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import Conditions, Limits, parse_checksum, parse_conditions
from zarr_manifest.manifest.keys import Grid
from zarr_manifest.manifest.parts import LazyPart
from zarr_manifest.manifest.references import TO_THE_END, Columns, Extras, PathNumbers
from zarr_manifest.manifest.scanned_text import (
    WORD,
    Places,
    StringRuns,
    Text,
    are_literal,
    leading_numbers,
    strings_between,
    trailing_numbers,
    words_for_digits,
)

_END = re.compile(rb"[ \t\n\r]*+\}[ \t\n\r]*+")

# How much of a document is looked at to know how its entries are written, and that it ends after
# one: at least as long as the longest string. Where more would be needed, others read it.
_LOOKED_AT = 2**13

# What words are read of before and after any of that.
_MARGIN = _LOOKED_AT + 2 * WORD
_LIMITED = ("path", "etag", "version")

type _Integers = npt.NDArray[np.int64]


class Scanner:
    """Reads documents whose entries are all alike, one after the other.

    Parameters
    ----------
    grid : Grid
        The chunks that keys may name.
    limits : Limits
        Of which only the lengths of strings are checked.
    paths : PathNumbers
        Updated with new paths.
    known : dict of tuple to Extras
        Extras by what entries state; updated with new ones.
    """

    def __init__(
        self,
        grid: Grid,
        limits: Limits,
        paths: PathNumbers,
        known: dict[tuple[object, ...], Extras],
    ) -> None:
        self._grid = grid
        self._limits = limits
        self._paths = paths
        self._known = known
        self._text = Text(_MARGIN)

    def scan(self, document: LazyPart) -> tuple[Columns, dict[int, Extras]] | None:
        """Return the rows of a document, in its order; None if its entries are not all alike.

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
        template = _template_of(text[text.start : min(text.end, text.start + _LOOKED_AT)])
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
        return self._rows(keys.values, values)

    def _rows(
        self, numbers: _Integers, values: _Values
    ) -> tuple[Columns, dict[int, Extras]] | None:
        count = len(numbers)
        offsets, lengths = values.numbers.get("offset"), values.numbers.get("length")
        if lengths is not None and not lengths.all():
            return None
        extras = _extras_of(values.strings, values.numbers.get("size"), count, self._known)
        if extras is None:
            return None
        if count > 1 and not (numbers[1:] > numbers[:-1]).all():
            ordered = np.sort(numbers)
            if (ordered[1:] == ordered[:-1]).any():
                return None
        columns = Columns(
            numbers,
            np.zeros(count, np.int64) if offsets is None else offsets,
            np.full(count, TO_THE_END, np.int64) if lengths is None else lengths,
            # Last, so that the general decoder finds no paths that are not used.
            _path_numbers(values.strings["path"], count, self._paths),
        )
        return columns, extras


class _Keys(Struct, frozen=True):
    """The number of each entry's chunk, and where its key ends."""

    values: _Integers
    ends: Places


class _Values(Struct, frozen=True):
    """The members of all entries, by name."""

    numbers: dict[str, _Integers]
    strings: dict[str, StringRuns]


def _entries(text: Text, template: _Template) -> tuple[Places, Places] | None:
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


def _values(text: Text, template: _Template, ends: Places, commas: Places) -> _Values | None:
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
    text: Text, field: _Member, after: bytes, starts: Places, ends: Places, values: _Values
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


def _path_numbers(column: StringRuns, count: int, paths: PathNumbers) -> npt.NDArray[np.int32]:
    """Return the number of each row's path, and number new ones."""
    table = np.array([paths[path] for path in column.values], np.int32)
    return np.repeat(table[column.numbers], np.diff(column.starts, append=count))


# ------------------------------------------------------------ how entries are written

_SPACE = rb"[ \t\n\r]*+"
_OPENING = re.compile(rb'%b\{%b"' % (_SPACE, _SPACE))
_KEY = re.compile(rb"[0-9.]++")
_AFTER_KEY = re.compile(rb'"%b:%b\{%b' % (_SPACE, _SPACE, _SPACE))
_NAME = re.compile(
    rb'"(path|offset|length|checksum|etag|last_modified|version|size)"%b:%b' % (_SPACE, _SPACE)
)
_TEXT = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_NUMBER = re.compile(rb"[0-9]++")
_COMMA = re.compile(rb"%b,%b" % (_SPACE, _SPACE))
_CLOSING = re.compile(rb'%b\}%b,%b"' % (_SPACE, _SPACE, _SPACE))
_NUMBERS = ("offset", "length", "size")


class _Member(Struct, frozen=True):
    """A member of each entry.

    Attributes
    ----------
    name : str
        Its name.
    before : bytes
        What stands between the text of the value before it, or of the key, and that of its own:
        ``": {"path": "`` for example.
    """

    name: str
    before: bytes

    @property
    def is_number(self) -> bool:
        """Whether the value is a number, not a string."""
        return self.name in _NUMBERS


class _Template(Struct, frozen=True):
    """How the entries of a document are written, as far as they are like the first.

    Attributes
    ----------
    start : int
        Where the text of the first key begins.
    fields : tuple of _Member
        The members of each entry in order.
    closing : bytes
        What stands between the text of the last value and that of the next key: ``}, "``.
    """

    start: int
    fields: tuple[_Member, ...]
    closing: bytes


def _template_of(document: bytes) -> _Template | None:
    """Return how the first entry is written, if it has a path and another entry follows.

    None if it has members without a column: callers fall back to the general decoder.

    Examples
    --------
    >>> _template_of(b'{"0": {"path": "a", "offset": 1}, "1": {}}').fields[1]
    _Member(name='offset', before=b'", "offset": ')
    """
    opening = _OPENING.match(document)
    if opening is None:
        return None
    key = _KEY.match(document, opening.end())
    after_key = key and _AFTER_KEY.match(document, key.end())
    if key is None or after_key is None:
        return None
    fields: list[_Member] = []
    end, position = key.end(), after_key.end()
    while name := _NAME.match(document, position):
        field = _Member(name[1].decode(), b"")
        value = (_NUMBER if field.is_number else _TEXT).match(document, name.end())
        if value is None:
            return None
        within = 0 if field.is_number else 1  # the quotes belong to what stands between
        fields.append(structs.replace(field, before=document[end : value.start() + within]))
        end = value.end() - within
        comma = _COMMA.match(document, value.end())
        if comma is None:
            return _template(opening.end(), fields, document, end, value.end())
        position = comma.end()
    return None


def _template(
    start: int, fields: list[_Member], document: bytes, end: int, after: int
) -> _Template | None:
    closing = _CLOSING.match(document, after)
    names = {field.name for field in fields}
    if closing is None or len(names) < len(fields) or "path" not in names:
        return None
    return _Template(start, tuple(fields), document[end : closing.end()])


# ------------------------------------------------------------ extras

_NAMES = ("checksum", "etag", "last_modified", "version")

type _Given = str | int | msgspec.UnsetType


def _extras_of(
    strings: Mapping[str, StringRuns],
    sizes: npt.NDArray[np.int64] | None,
    count: int,
    known: dict[tuple[object, ...], Extras],
) -> dict[int, Extras] | None:
    """Return the extras of each row; None if they are not valid.

    Parameters
    ----------
    strings : mapping of str to StringRuns
        The members that are strings.
    sizes : ndarray of int64, optional
        The sizes of the objects, one a row.
    count : int
        Number of rows.
    known : dict of tuple to Extras
        Updated with new extras.
    """
    starts = [strings[name].starts for name in _NAMES if name in strings]
    if sizes is not None:
        starts.append(np.concatenate([[0], np.flatnonzero(sizes[1:] != sizes[:-1]) + 1]))
    if not starts:
        return {}
    runs = functools.reduce(np.union1d, starts)
    columns = [_at(runs, strings.get(name)) for name in _NAMES]
    columns.append(itertools.repeat(msgspec.UNSET) if sizes is None else sizes[runs].tolist())
    try:
        extras = _distinct(zip(*columns, strict=False), known)
    except ManifestError:
        return None
    if len(runs) == count:
        return dict(enumerate(extras))
    lengths = np.diff(runs, append=count).tolist()
    rows = itertools.chain.from_iterable(map(itertools.repeat, extras, lengths))
    return dict(enumerate(rows))


def _at(runs: npt.NDArray[np.int64], strings: StringRuns | None) -> Iterable[_Given]:
    """Return the string of each run, which may be shorter than those of the column."""
    if strings is None:
        return itertools.repeat(msgspec.UNSET)
    numbers = strings.numbers
    if len(runs) > len(strings.starts):
        owners = np.searchsorted(strings.starts, runs, "right") - 1
        numbers = np.array(numbers)[owners].tolist()
    return map(strings.values.__getitem__, numbers)


def _distinct(
    rows: Iterable[tuple[_Given, ...]], known: dict[tuple[object, ...], Extras]
) -> list[Extras]:
    conditions = dict[tuple[_Given, ...], Conditions]()
    found: list[Extras] = []
    for row in rows:
        said = (msgspec.UNSET, *row)
        extras = known.get(said)
        if extras is None:
            given: list[Any] = [None if value is msgspec.UNSET else value for value in row]
            checksum, *condition = given
            if checksum is not None:
                parse_checksum(checksum)
            stated = conditions.get(row[1:])
            if stated is None:
                stated = conditions[row[1:]] = parse_conditions(*condition)
            extras = known[said] = Extras(None, checksum, stated)
        found.append(extras)
    return found
