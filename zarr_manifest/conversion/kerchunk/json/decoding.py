"""The text of a reference set as columns of references, so many at a time.

A million values take less memory as JSON than as Python objects, and a small part of a document
is decoded several times as fast as the whole, because it stays in the processor's cache. URLs with
byte ranges become numbers, not one by one; other values are kept for later.
"""

from __future__ import annotations

import itertools
import json
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.errors import InvalidJSONError
from zarr_manifest.manifest import PathNumbers

# The smallest integer too large for a manifest (specification, "Manifest document").
TOO_LARGE = 2**53

# Number of references, and of bytes of a document, that are parsed at a time.
_BATCH_SIZE = 2**14
_PART = 2**18

# Where a part may end: between a reference and the next key, unless it is within a text.
_BOUNDARY = re.compile(rb'\]\s*(,)\s*"')


class UsualReference(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """A reference to a byte range or, with neither offset nor length, to a whole object.

    With only one of them, it has another form.
    """

    url: str
    offset: Annotated[int, msgspec.Meta(ge=0, lt=TOO_LARGE)] = -1
    length: Annotated[int, msgspec.Meta(ge=1, lt=TOO_LARGE)] = -1

    def as_list(self) -> list[object]:
        """Return the reference as it was written."""
        return [part for part in (self.url, self.offset, self.length) if part != -1]


# Keys and their values.
type Batch = tuple[list[str], list[object]]

# A set of references: as text, or by key.
type Members = msgspec.Raw | Mapping[str, object]

type _Usual = UsualReference | str | dict[str, Any]

_UNPARSED_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_UNPARSED_SETS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_USUAL_MEMBERS = msgspec.json.Decoder(dict[str, _Usual])
_ANY_MEMBERS = msgspec.json.Decoder(dict[str, Any])
_USUAL_VALUES = msgspec.json.Decoder(list[_Usual])
_VALUE: msgspec.json.Decoder[object] = msgspec.json.Decoder()
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def parsed_members(content: bytes | msgspec.Raw) -> object:
    """Return a document with the values of its members unparsed: of a set, or of each set.

    Raises
    ------
    InvalidJSONError
        It is not JSON.
    """
    is_list = bytes(memoryview(content)[:1024]).lstrip()[:1] == b"["
    return _decoded(content, _UNPARSED_SETS if is_list else _UNPARSED_MEMBERS)


def parsed(value: object) -> object:
    """Return a member of a document, parsing it if necessary.

    Raises
    ------
    InvalidJSONError
        It is not JSON.
    """
    return _decoded(value, _VALUE) if type(value) is msgspec.Raw else value


def _decoded(content: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[Any]) -> object:
    try:
        found: object = decoder.decode(content)
    except _UNDECODABLE:
        # It has another type, or kerchunk's bare NaNs, which Python's own parser accepts.
        try:
            found = json.loads(bytes(content))
        except (ValueError, RecursionError) as error:
            raise InvalidJSONError(f"the reference set is not JSON: {error}") from error
    return found


def batches(members: Members) -> Iterator[Batch]:
    """Yield the members of a set in batches, with references to byte ranges decoded.

    Of members with the same name, all may be yielded; the last one counts.

    Raises
    ------
    InvalidJSONError
        The text is not JSON.

    Examples
    --------
    >>> list(batches({"a/0": ["f.nc", 0, 5], "a/1": "text"}))
    [(['a/0', 'a/1'], [['f.nc', 0, 5], 'text'])]
    >>> list(batches(msgspec.Raw(b'{"a/0": ["f.nc"]}')))
    [(['a/0'], [UsualReference(url='f.nc', offset=-1, length=-1)])]
    """
    if isinstance(members, msgspec.Raw):
        yield from _parts(members)
        return
    for batch in itertools.batched(members.items(), _BATCH_SIZE):
        yield [key for key, _ in batch], _values([value for _, value in batch])


def _parts(text: msgspec.Raw) -> Iterator[Batch]:
    """Yield the members of an object part by part.

    If a part is a JSON object then so is what was cut off before it, and the cuts are correct:
    one within a text or a list leaves it open.
    """
    view = memoryview(text)
    start, opening = 0, b""
    while True:
        found = _BOUNDARY.search(view, start + _PART)
        end, closing = (len(view), b"") if found is None else (found.start(1), b"}")
        batch = _usual_part(b"".join((opening, view[start:end], closing)))
        if batch is None:
            yield from batches(_remainder(text, opening + bytes(view[start:])))
            return
        yield batch
        if found is None:
            return
        start, opening = found.end(1), b"{"


def _usual_part(part: bytes) -> Batch | None:
    """Return the members of a part; None if it is no JSON object, or one for Python's parser."""
    for decoder in (_USUAL_MEMBERS, _ANY_MEMBERS):
        try:
            members: dict[str, Any] = decoder.decode(part)
        except _UNDECODABLE:
            continue
        return list(members), list(members.values())
    return None


def _remainder(whole: msgspec.Raw, text: bytes) -> Mapping[str, object]:
    try:
        found = parsed_members(text)
    except InvalidJSONError:
        parsed_members(whole)  # raises, with the position of the mistake in the whole
        raise
    return cast("Mapping[str, object]", found)


def _values(values: Sequence[object]) -> list[object]:
    """Return the values of references, parsing them if necessary: together if all are usual."""
    kinds = set(map(type, values))
    if msgspec.Raw not in kinds:
        return list(values)
    if len(kinds) == 1:
        document = b"[%b]" % b",".join(cast("Sequence[msgspec.Raw]", values))
        try:
            return list[object](_USUAL_VALUES.decode(document))
        except _UNDECODABLE:
            pass  # some have another form
    return [parsed(value) for value in values]


# ------------------------------------------------------------ columns


type _Integers = npt.NDArray[np.int64]

_URL = operator.attrgetter("url")
_OFFSET = operator.attrgetter("offset")
_LENGTH = operator.attrgetter("length")

# In place of a value in another form.
_NOTHING = UsualReference("")

_LINE = "\n"


@dataclass(frozen=True, slots=True)
class KeyText:
    r"""Keys as texts with one on each line: a tenth of the memory of as many strings.

    Parameters
    ----------
    texts : tuple of str or of list of str
        The keys; in a list where one of them contains a line break.

    Examples
    --------
    >>> keys = KeyText.of(["a/0", "a/1"])
    >>> keys.texts, keys.all_below("a/"), keys.without("a/")
    (('a/0\na/1',), True, ['0\n1'])
    """

    texts: tuple[str | list[str], ...]

    @classmethod
    def of(cls, keys: list[str]) -> KeyText:
        """Return some keys, at least one, as a text."""
        text = _LINE.join(keys)
        return cls((text if text.count(_LINE) == len(keys) - 1 else keys,))

    @classmethod
    def joined(cls, parts: Iterable[KeyText]) -> KeyText:
        """Return the keys of several parts, in order."""
        return cls(tuple(text for part in parts for text in part.texts))

    def listed(self) -> list[str]:
        """Return the keys as strings."""
        found: list[str] = []
        for text in self.texts:
            found += text.split(_LINE) if isinstance(text, str) else text
        return found

    def first(self) -> str:
        """Return the first key."""
        text = self.texts[0]
        return text.partition(_LINE)[0] if isinstance(text, str) else text[0]

    def all_below(self, prefix: str) -> bool:
        """Whether it is certain that all keys have a prefix."""
        return all(
            isinstance(text, str)
            and text.startswith(prefix)
            and text.count(_LINE + prefix) == text.count(_LINE)
            for text in self.texts
        )

    def without(self, prefix: str) -> list[str] | None:
        """Return the texts without a prefix that all keys have; None if some are lists."""
        found: list[str] = []
        for text in self.texts:
            if not isinstance(text, str):
                return None
            found.append(text.replace(_LINE + prefix, _LINE)[len(prefix) :] if prefix else text)
        return found


class KeyedReferences(NamedTuple):
    """References by key, in columns, in the order of the document.

    Attributes
    ----------
    keys : KeyText
        Their keys.
    urls : ndarray of int32
        The number of each URL; -1 for a value that does not name an object in the usual form.
    offsets, lengths : ndarray of int64
        In bytes; 0 and -1 for a whole object.
    others : dict of int to object
        The values in other forms, by row.
    """

    keys: KeyText
    urls: npt.NDArray[np.int32]
    offsets: _Integers
    lengths: _Integers
    others: dict[int, object]

    @classmethod
    def of(cls, keys: list[str], values: Sequence[object], numbers: PathNumbers) -> KeyedReferences:
        """Return references in columns; `numbers` are those of the URLs of a whole set.

        Examples
        --------
        >>> values = [["f.nc", 8, 2], "text", ["f.nc"], ["g.nc", 0]]
        >>> found = KeyedReferences.of(["0", "1", "2", "3"], values, PathNumbers())
        >>> found.urls, found.lengths, found.others
        (array([ 0, -1,  0, -1], dtype=int32), array([ 2, -1, -1, -1]), {1: 'text', 3: ['g.nc', 0]})
        """
        usual = cast("list[UsualReference]", _with_lists_decoded(values))
        others: dict[int, object] = {}
        if set(map(type, usual)) != {UsualReference}:
            for row, value in enumerate(usual):
                if type(value) is not UsualReference:
                    others[row], usual[row] = value, _NOTHING
        count = len(usual)
        urls = np.fromiter(map(numbers.__getitem__, map(_URL, usual)), np.int32, count)
        offsets = np.fromiter(map(_OFFSET, usual), np.int64, count)
        lengths = np.fromiter(map(_LENGTH, usual), np.int64, count)
        for row in np.flatnonzero((offsets < 0) != (lengths < 0)).tolist():
            others[row] = usual[row].as_list()
        unusual = list(others)
        urls[unusual], lengths[unusual] = -1, -1
        offsets[lengths < 0] = 0
        return cls(KeyText.of(keys), urls, offsets, lengths, others)

    @classmethod
    def joined(cls, parts: Sequence[KeyedReferences]) -> KeyedReferences:
        """Return the references of several parts, in order."""
        if len(parts) == 1:
            return parts[0]
        others: dict[int, object] = {}
        start = 0
        for part in parts:
            others.update({start + row: value for row, value in part.others.items()})
            start += len(part.urls)
        return cls(
            KeyText.joined([part.keys for part in parts]),
            np.concatenate([np.empty(0, np.int32), *(part.urls for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.offsets for part in parts)]),
            np.concatenate([np.empty(0, np.int64), *(part.lengths for part in parts)]),
            others,
        )

    def rows(self, rows: _Integers, keys: list[str]) -> KeyedReferences:
        """Return the references of some rows, at least one; `keys` are those of all rows."""
        urls = self.urls[rows]
        places: list[int] = np.flatnonzero(urls < 0).tolist()
        return KeyedReferences(
            KeyText.of([keys[row] for row in rows.tolist()]),
            urls,
            self.offsets[rows],
            self.lengths[rows],
            {place: self.others[int(rows[place])] for place in places},
        )

    def value(self, row: int, urls: Sequence[str]) -> object:
        """Return a reference as it was written; `urls` are those of the whole set."""
        if self.urls[row] < 0:
            return self.others[row]
        url, offset, length = urls[self.urls[row]], self.offsets.item(row), self.lengths.item(row)
        return [url] if length < 0 else [url, offset, length]


def _with_lists_decoded(values: Sequence[object]) -> list[object]:
    """Return the values of references; lists as usual references, if all are usual."""
    found = list(values)
    places = [place for place, value in enumerate(values) if type(value) is list]
    lists = cast("list[list[Any]]", [values[place] for place in places])
    try:
        decoded: Sequence[object] = msgspec.convert(lists, list[UsualReference])
    except msgspec.ValidationError:
        return found
    for place, value in zip(places, decoded, strict=True):
        found[place] = value
    return found
