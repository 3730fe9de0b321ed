"""References in columns: plain ones become numbers at once, others are kept for later.

There may be millions, so nothing here is done one by one for plain references.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json.decoding import TOO_LARGE, PlainReference

__all__ = ["KeyText", "References", "UrlNumbers", "as_list"]

type _Integers = npt.NDArray[np.int64]

_URL = operator.attrgetter("url")
_OFFSET = operator.attrgetter("offset")
_LENGTH = operator.attrgetter("length")

_LINE = "\n"


@dataclass(frozen=True, slots=True)
class KeyText:
    r"""Keys as a single text, one on each line: a tenth of the memory of as many strings.

    Parameters
    ----------
    text : str or None
        The keys; None if one of them contains a line break.
    separate : list of str
        The keys in that case.
    count : int
        Number of keys, at least 1.

    Examples
    --------
    >>> keys = KeyText.of(["a/0", "a/1"])
    >>> keys.all_below("a/"), keys.without("a/")
    (True, '0\n1')
    """

    text: str | None
    separate: list[str]
    count: int

    @classmethod
    def of(cls, keys: list[str]) -> KeyText:
        """Return some keys as a text."""
        text = _LINE.join(keys)
        if text.count(_LINE) == len(keys) - 1:
            return cls(text, [], len(keys))
        return cls(None, keys, len(keys))

    @classmethod
    def joined(cls, parts: Sequence[KeyText]) -> KeyText:
        """Return the keys of several texts, in order."""
        texts = [part.text for part in parts if part.text is not None]
        if len(texts) < len(parts):
            return cls.of([key for part in parts for key in part.listed()])
        return cls(_LINE.join(texts), [], sum(part.count for part in parts))

    def listed(self) -> list[str]:
        """Return the keys as strings."""
        return self.separate if self.text is None else self.text.split(_LINE)

    def first(self) -> str:
        """Return the first key."""
        return self.separate[0] if self.text is None else self.text.partition(_LINE)[0]

    def all_below(self, prefix: str) -> bool:
        """Whether it is certain that all keys have a prefix."""
        if self.text is None or not self.text.startswith(prefix):
            return False
        return self.text.count(_LINE + prefix) == self.count - 1

    def without(self, prefix: str) -> str | None:
        """Return the text without a prefix that all keys have; None if there is no text."""
        if self.text is None or not prefix:
            return self.text
        return self.text.replace(_LINE + prefix, _LINE)[len(prefix) :]


class UrlNumbers:
    """Numbers the URLs of a set, in order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, urls: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the number of each URL."""
        numbers = self._numbers
        fresh = [url for url in dict.fromkeys(urls) if url not in numbers]
        numbers.update(zip(fresh, itertools.count(len(numbers)), strict=False))
        return np.fromiter(map(numbers.__getitem__, urls), np.int32, len(urls))

    def urls(self) -> list[str]:
        """Return the URLs by number."""
        return list(self._numbers)


class References(NamedTuple):
    """References in columns, in the order of the document.

    Attributes
    ----------
    keys : KeyText
        Their keys.
    urls : ndarray of int32
        The number of each URL; -1 for a value that is not a plain reference.
    offsets, lengths : ndarray of int64
        In bytes; 0 and -1 for a whole object.
    others : dict of int to object
        The values that are not plain references, by row.
    """

    keys: KeyText
    urls: npt.NDArray[np.int32]
    offsets: _Integers
    lengths: _Integers
    others: dict[int, object]

    @classmethod
    def of(cls, keys: list[str], values: Sequence[object], number: UrlNumbers) -> References:
        """Return references in columns; `number` is for the URLs of a whole set.

        Examples
        --------
        >>> values = [["f.nc", 8, 2], "text", ["f.nc"], ["g.nc", 0]]
        >>> found = References.of(["0", "1", "2", "3"], values, UrlNumbers())
        >>> found.urls, found.lengths, found.others
        (array([ 0, -1,  0, -1], dtype=int32), array([ 2, -1, -1, -1]), {1: 'text', 3: ['g.nc', 0]})
        """
        plain, rows, others = _divided(values)
        count = len(plain)
        urls = number(list(map(_URL, plain)))
        offsets = np.fromiter(map(_OFFSET, plain), np.int64, count)
        lengths = np.fromiter(map(_LENGTH, plain), np.int64, count)
        incomplete = (offsets < 0) != (lengths < 0)
        for place in np.flatnonzero(incomplete).tolist():
            row = place if rows is None else int(rows[place])
            others[row] = as_list(plain[place])
        urls[incomplete] = -1
        offsets[lengths < 0] = 0
        lengths[incomplete] = -1
        found = cls(KeyText.of(keys), urls, offsets, lengths, others)
        return found if rows is None else found._spread(rows, len(keys))

    def _spread(self, rows: _Integers, count: int) -> References:
        """Return columns with these values in some rows, and none in the others."""
        urls = np.full(count, -1, np.int32)
        offsets, lengths = np.zeros(count, np.int64), np.full(count, -1, np.int64)
        urls[rows], offsets[rows], lengths[rows] = self.urls, self.offsets, self.lengths
        return self._replace(urls=urls, offsets=offsets, lengths=lengths)


def as_list(reference: PlainReference) -> list[object]:
    """Return a decoded reference as it was written."""
    parts: list[object] = [reference.url, reference.offset, reference.length]
    return [part for part in parts if part != -1]


def _divided(
    values: Sequence[object],
) -> tuple[Sequence[PlainReference], _Integers | None, dict[int, object]]:
    """Return the plain references, in which rows they are (None: all), and the other values."""
    kinds = set(map(type, values))
    if list in kinds:
        values = _with_lists_decoded(values)
        kinds = set(map(type, values))
    if kinds == {PlainReference}:
        return cast("Sequence[PlainReference]", values), None, {}
    is_plain = np.array([type(value) is PlainReference for value in values], np.bool_)
    plain = list(itertools.compress(values, is_plain.tolist()))
    others = {row: values[row] for row in np.flatnonzero(~is_plain).tolist()}
    return cast("list[PlainReference]", plain), np.flatnonzero(is_plain), others


def _with_lists_decoded(values: Sequence[object]) -> list[object]:
    found = list(values)
    places = [place for place, value in enumerate(values) if type(value) is list]
    lists = cast("list[list[Any]]", [values[place] for place in places])
    try:
        decoded: Sequence[object] = msgspec.convert(lists, list[PlainReference])
    except msgspec.ValidationError:
        decoded = [_plain(parts) or parts for parts in lists]
    for place, value in zip(places, decoded, strict=True):
        found[place] = value
    return found


def _plain(parts: list[Any]) -> PlainReference | None:
    if len(parts) == 3:
        url, offset, length = parts
        is_plain = type(url) is str and type(offset) is int and type(length) is int
        if is_plain and 0 <= offset < TOO_LARGE and 0 < length < TOO_LARGE:
            return PlainReference(url, offset, length)
    return None
