"""Entries of a manifest document -> columns of numbers, and what only some entries have.

The checks of an entry that need no array: forms of checksums and of conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.errors import InvalidEntryError, ManifestError
from zarr_manifest.format import (
    NO_CONDITIONS,
    Conditions,
    Entry,
    Findings,
    parse_checksum,
    parse_conditions,
)
from zarr_manifest.manifest.author_columns import TO_THE_END
from zarr_manifest.manifest.keys import Rows
from zarr_manifest.manifest.reference import EMPTY, INLINE, Aside

__all__ = ["EntryColumns", "Shared", "interpret_conditions", "interpret_rows"]


class EntryColumns(NamedTuple):
    """What a manifest is made of, beside paths; see :class:`zarr_manifest.manifest.Manifest`."""

    grid_shape: tuple[int, ...]
    chunk_numbers: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path_numbers: npt.NDArray[np.int32]
    aside: dict[int, Aside]


class Shared(NamedTuple):
    """What many rows have in common, and is held once.

    Attributes
    ----------
    paths : dict of str to int
        Every path, and its number.
    asides : dict of Aside to Aside
        Everything that is kept aside.
    """

    paths: dict[str, int]
    asides: dict[Aside, Aside]


def interpret_rows(
    rows: Rows,
    keys: Sequence[str],
    entries: Sequence[Entry],
    shared: Shared,
) -> Findings[EntryColumns]:
    """Yield what is wrong with entries by themselves, and return them as columns.

    Parameters
    ----------
    rows : Rows
        Which member of the document each row is, in C order of the chunks.
    keys, entries : sequence
        The members of the document.
    shared : Shared
        What is not yet in it is added.
    """
    unset = msgspec.UNSET
    path_index = shared.paths
    aside: dict[int, Aside] = {}
    members: list[int] = rows.members.tolist()
    ordered = [entries[member] for member in members]
    # Column by column, and all at once: there may be millions.
    path_numbers = np.array(
        [
            EMPTY if entry.path is unset else path_index.setdefault(entry.path, len(path_index))
            for entry in ordered
        ],
        np.int32,
    )
    offsets = np.array([entry.offset or 0 for entry in ordered], np.int64)
    lengths = np.array([entry.length or TO_THE_END for entry in ordered], np.int64)
    for row in [row for row, entry in enumerate(ordered) if _has_aside(entry)]:
        entry = ordered[row]
        if entry.data is not unset:
            path_numbers[row], lengths[row] = INLINE, len(entry.data)
        extra = yield from _interpret_aside(entry, keys[members[row]])
        aside[row] = shared.asides.setdefault(extra, extra)
    return EntryColumns(rows.grid_shape, rows.numbers, offsets, lengths, path_numbers, aside)


def interpret_conditions(path: str, stated: Mapping[str, str]) -> Conditions:
    """Return the conditions that are stated by name, of the object of a path."""
    unknown = sorted(set(stated) - {"etag", "last_modified", "version"})
    if unknown:
        raise InvalidEntryError(f"there is no condition {unknown[0]!r}, stated for {path!r}")
    return parse_conditions(stated.get("etag"), stated.get("last_modified"), stated.get("version"))


def _has_aside(entry: Entry) -> bool:
    unset = msgspec.UNSET
    return not (
        entry.data is unset
        and entry.checksum is unset
        and entry.etag is unset
        and entry.last_modified is unset
        and entry.version is unset
    )


def _interpret_aside(entry: Entry, key: str) -> Findings[Aside]:
    checksum = _or_none(entry.checksum)
    conditions = NO_CONDITIONS
    try:
        if checksum is not None:
            parse_checksum(checksum)
    except ManifestError as error:
        yield error.in_context(chunk=key)
    try:
        conditions = parse_conditions(
            _or_none(entry.etag), _or_none(entry.last_modified), _or_none(entry.version)
        )
    except ManifestError as error:
        yield error.in_context(chunk=key)
    return Aside(_or_none(entry.data), checksum, conditions)


def _or_none[T](value: T | msgspec.UnsetType) -> T | None:
    return None if isinstance(value, msgspec.UnsetType) else value
