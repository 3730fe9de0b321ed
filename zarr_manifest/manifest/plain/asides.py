"""What is kept aside of entries that are all written alike: checksums and conditions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.errors import ManifestError
from zarr_manifest.format import Conditions, parse_checksum, parse_conditions
from zarr_manifest.manifest.entry_columns import Shared
from zarr_manifest.manifest.plain.strings import Strings
from zarr_manifest.manifest.reference import Aside

__all__ = ["asides_of"]

_NAMES = ("checksum", "etag", "last_modified", "version")

type _Given = str | int | msgspec.UnsetType


def asides_of(
    strings: Mapping[str, Strings],
    sizes: npt.NDArray[np.int64] | None,
    count: int,
    shared: Shared,
) -> dict[int, Aside] | None:
    """Return what is kept aside of each row; None if it is not valid.

    Parameters
    ----------
    strings : mapping of str to Strings
        The members that are strings.
    sizes : ndarray of int64, optional
        The sizes of the objects, one a row.
    count : int
        Number of rows.
    shared : Shared
        Updated with new asides.
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
        asides = _distinct(zip(*columns, strict=False), shared)
    except ManifestError:
        return None
    if len(runs) == count:
        return dict(enumerate(asides))
    lengths = np.diff(runs, append=count).tolist()
    rows = itertools.chain.from_iterable(map(itertools.repeat, asides, lengths))
    return dict(enumerate(rows))


def _at(runs: npt.NDArray[np.int64], strings: Strings | None) -> Iterable[_Given]:
    """Return the string of each run, which may be shorter than those of the column."""
    if strings is None:
        return itertools.repeat(msgspec.UNSET)
    numbers = strings.numbers
    if len(runs) > len(strings.starts):
        owners = np.searchsorted(strings.starts, runs, "right") - 1
        numbers = np.array(numbers)[owners].tolist()
    return map(strings.values.__getitem__, numbers)


def _distinct(rows: Iterable[tuple[_Given, ...]], shared: Shared) -> list[Aside]:
    known, conditions = shared.asides, dict[tuple[_Given, ...], Conditions]()
    asides: list[Aside] = []
    for row in rows:
        said = (msgspec.UNSET, *row)
        aside = known.get(said)
        if aside is None:
            given: list[Any] = [None if value is msgspec.UNSET else value for value in row]
            checksum, *condition = given
            if checksum is not None:
                parse_checksum(checksum)
            found = conditions.get(row[1:])
            if found is None:
                found = conditions[row[1:]] = parse_conditions(*condition)
            aside = known[said] = Aside(None, checksum, found)
        asides.append(aside)
    return asides
