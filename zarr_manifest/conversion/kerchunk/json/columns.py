"""References by key, in columns: URLs with byte ranges become numbers, others are kept for later.

There may be millions, so nothing here is done one by one for references to objects.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json.decoding import TOO_LARGE, UsualReference
from zarr_manifest.manifest import PathNumbers

__all__ = ["KeyText", "KeyedReferences", "as_list"]

type _Integers = npt.NDArray[np.int64]

_URL = operator.attrgetter("url")
_OFFSET = operator.attrgetter("offset")
_LENGTH = operator.attrgetter("length")

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
        usual, rows, others = _divided(values)
        count = len(usual)
        urls = np.fromiter(map(numbers.__getitem__, map(_URL, usual)), np.int32, count)
        offsets = np.fromiter(map(_OFFSET, usual), np.int64, count)
        lengths = np.fromiter(map(_LENGTH, usual), np.int64, count)
        incomplete = (offsets < 0) != (lengths < 0)
        for place in np.flatnonzero(incomplete).tolist():
            row = place if rows is None else int(rows[place])
            others[row] = as_list(usual[place])
        urls[incomplete] = -1
        offsets[lengths < 0] = 0
        lengths[incomplete] = -1
        found = cls(KeyText.of(keys), urls, offsets, lengths, others)
        return found if rows is None else found._spread(rows, len(keys))

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

    def _spread(self, rows: _Integers, count: int) -> KeyedReferences:
        """Return columns with these values in some rows, and none in the others."""
        urls = np.full(count, -1, np.int32)
        offsets, lengths = np.zeros(count, np.int64), np.full(count, -1, np.int64)
        urls[rows], offsets[rows], lengths[rows] = self.urls, self.offsets, self.lengths
        return self._replace(urls=urls, offsets=offsets, lengths=lengths)


def as_list(reference: UsualReference) -> list[object]:
    """Return a decoded reference as it was written."""
    parts: list[object] = [reference.url, reference.offset, reference.length]
    return [part for part in parts if part != -1]


def _divided(
    values: Sequence[object],
) -> tuple[Sequence[UsualReference], _Integers | None, dict[int, object]]:
    """Return the references to objects, their rows (None: all), and the other values."""
    kinds = set(map(type, values))
    if list in kinds:
        values = _with_lists_decoded(values)
        kinds = set(map(type, values))
    if kinds == {UsualReference}:
        return cast("Sequence[UsualReference]", values), None, {}
    is_usual = np.array([type(value) is UsualReference for value in values], np.bool_)
    usual = list(itertools.compress(values, is_usual.tolist()))
    others = {row: values[row] for row in np.flatnonzero(~is_usual).tolist()}
    return cast("list[UsualReference]", usual), np.flatnonzero(is_usual), others


def _with_lists_decoded(values: Sequence[object]) -> list[object]:
    found = list(values)
    places = [place for place, value in enumerate(values) if type(value) is list]
    lists = cast("list[list[Any]]", [values[place] for place in places])
    try:
        decoded: Sequence[object] = msgspec.convert(lists, list[UsualReference])
    except msgspec.ValidationError:
        decoded = [_parsed(parts) or parts for parts in lists]
    for place, value in zip(places, decoded, strict=True):
        found[place] = value
    return found


def _parsed(parts: list[Any]) -> UsualReference | None:
    if len(parts) not in (1, 3) or type(parts[0]) is not str:
        return None
    if len(parts) == 1:
        return UsualReference(parts[0])
    url, offset, length = parts
    is_usual = type(offset) is int and type(length) is int
    is_usual = is_usual and 0 <= offset < TOO_LARGE and 0 < length < TOO_LARGE
    return UsualReference(url, offset, length) if is_usual else None
