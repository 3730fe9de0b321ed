"""The references of a flat set, as columns, by the array that they belong to.

There may be millions, so they are processed in batches: plain ones, ``[url, offset, length]``,
become numbers at once; others are kept for later.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import msgspec

from zarr_manifest.conversion.zarr2 import find_owner

__all__ = ["TOO_LARGE", "Batch", "Members", "PlainReference", "distribute"]

# The smallest integer too large for a manifest (specification, "Manifest document").
TOO_LARGE = 2**53


class PlainReference(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """A reference to a byte range, as decoded from JSON."""

    url: str
    offset: Annotated[int, msgspec.Meta(ge=0, lt=TOO_LARGE)]
    length: Annotated[int, msgspec.Meta(ge=1, lt=TOO_LARGE)]


# Keys and their values.
type Batch = tuple[Sequence[str], Sequence[object]]


@dataclass
class Members:
    """The references below one array.

    Attributes
    ----------
    path : str
        Path of the array.
    keys : list of str
        Whole keys.
    urls, offsets, lengths : array of int
        One value per key. The number of the URL is negative for a value that is not a
        plain reference, which is in `others`.
    others : dict of int to object
        The values of such keys, by position.
    """

    path: str
    keys: list[str] = field(default_factory=list[str])
    urls: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    lengths: array[int] = field(default_factory=lambda: array("q"))
    others: dict[int, object] = field(default_factory=dict[int, object])

    @property
    def _start(self) -> int:
        return len(self.path) + 1 if self.path else 0

    def name(self, place: int) -> str:
        """Return the key at a position, relative to the array."""
        return self.keys[place][self._start :]

    def names(self) -> list[str]:
        """Return all keys, relative to the array."""
        start = self._start
        return [key[start:] for key in self.keys]

    def extend(self, keys: Sequence[str], values: Sequence[object], urls: dict[str, int]) -> None:
        """Add references; their URLs get a number in `urls`."""
        if set(map(type, values)) != {PlainReference}:
            self._extend_one_by_one(keys, values, urls)
            return
        plain = cast("Sequence[PlainReference]", values)
        self.keys += keys
        self.urls.extend([urls.setdefault(reference.url, len(urls)) for reference in plain])
        self.offsets.extend([reference.offset for reference in plain])
        self.lengths.extend([reference.length for reference in plain])

    def _extend_one_by_one(
        self, keys: Sequence[str], values: Sequence[object], urls: dict[str, int]
    ) -> None:
        for key, value in zip(keys, values, strict=True):
            url, offset, length = _plain(value)
            if url is None:
                self.others[len(self.keys)] = value
            self.keys.append(key)
            self.urls.append(-1 if url is None else urls.setdefault(url, len(urls)))
            self.offsets.append(offset)
            self.lengths.append(length)


def _plain(value: object) -> tuple[str | None, int, int]:
    """Return URL, offset and length; no URL unless it is a plain reference."""
    if type(value) is PlainReference:
        return value.url, value.offset, value.length
    parts: list[Any] = []
    if type(value) is list:
        parts = value  # pyright: ignore[reportUnknownVariableType]
    if len(parts) == 3:
        url, offset, length = parts
        plain = type(url) is str and type(offset) is int and type(length) is int
        if plain and 0 <= offset < TOO_LARGE and 0 < length < TOO_LARGE:
            return url, offset, length
    return None, 0, -1


def distribute(
    batches: Iterable[Batch], paths: Iterable[str]
) -> tuple[dict[str, Members], list[str], list[str]]:
    """Assign every reference to its array.

    Parameters
    ----------
    batches : iterable of Batch
        All references.
    paths : iterable of str
        Paths of the arrays.

    Returns
    -------
    members : dict of str to Members
        The references of each array.
    urls : list of str
        The URLs, by number.
    strays : list of str
        Keys that belong to no array.
    """
    arrays = {path: Members(path) for path in paths}
    # Many keys, few directories: each directory is looked up once.
    owners: dict[str, str | None] = {}
    urls: dict[str, int] = {}
    strays: list[str] = []
    for keys, values in batches:
        directories = [key.rpartition("/")[0] for key in keys]
        for directory in set(directories) - owners.keys():
            found = find_owner(directory, arrays)
            owners[directory] = None if found is None else found[1].path
        for owner, own, of_own in _by_owner(keys, values, [owners[d] for d in directories]):
            if owner is None:
                strays += own
            else:
                arrays[owner].extend(own, of_own, urls)
    return arrays, list(urls), strays


def _by_owner(
    keys: Sequence[str], values: Sequence[object], owners: Sequence[str | None]
) -> Iterator[tuple[str | None, Sequence[str], Sequence[object]]]:
    """Yield every owner with its keys and values."""
    if len(set(owners)) == 1:  # the usual case
        yield owners[0], keys, values
        return
    rows: dict[str | None, list[int]] = {}
    for row, owner in enumerate(owners):
        rows.setdefault(owner, []).append(row)
    for owner, own in rows.items():
        yield owner, [keys[row] for row in own], [values[row] for row in own]
