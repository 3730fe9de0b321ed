"""A manifest document -> columns, for readers and validators.

A large document is read in parts, since a million entries take ten times the memory of
their columns. If anything is wrong with it, it is read again to report the problems: as a
whole, unless it is so large that a stranger could fill the memory with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from zarr_manifest.errors import InvalidChunkKeyError, InvalidEntryError, ManifestError
from zarr_manifest.format import (
    NO_CONDITIONS,
    Conditions,
    Entry,
    Findings,
    Limits,
    Lines,
    Members,
    collect,
    count_inline_bytes,
    explain_object,
    format_canonical,
    grid_index,
    interpret_document,
    mapped,
    parse_checksum,
    parse_conditions,
    strict,
    too_much,
)
from zarr_manifest.manifest.author_columns import TO_THE_END
from zarr_manifest.manifest.keys import Grid, Rows, interpret_keys
from zarr_manifest.manifest.parts import split_document, split_members
from zarr_manifest.manifest.reference import EMPTY, INLINE, Aside

__all__ = [
    "EntryColumns",
    "Resolve",
    "Shared",
    "interpret_columns",
    "interpret_conditions",
    "interpret_rows",
]

# Size of the parts in which a document is read: a few thousand entries.
_PART_BYTES = 2**19

# Larger documents are never decoded as a whole, which takes up to thirty times their size.
_WHOLE_BYTES = 2**24

# Turns a path into a location, or raises.
type Resolve = Callable[[str], object]

# The columns, and the paths to which their path numbers refer.
type _Columns = tuple[EntryColumns, tuple[str, ...]]


def interpret_columns(
    document: bytes,
    grid: Grid,
    limits: Limits,
    *,
    resolve: Resolve | None = None,
    part_bytes: int = _PART_BYTES,
    whole_bytes: int = _WHOLE_BYTES,
) -> Findings[_Columns]:
    """Yield the problems of a manifest document, and return its valid entries as columns.

    Parameters
    ----------
    document : bytes
        UTF-8 JSON.
    grid : Grid
        The chunks that keys may name.
    limits : Limits
        Larger documents are rejected.
    resolve : callable, optional
        Given by validators, which report more than readers: duplicate members, keys outside the
        grid, and whatever is wrong with any member, be it that of a chunk or not. Problems of
        paths are reported only here.
    part_bytes : int
        Documents larger than this are read in parts of this size.
    whole_bytes : int
        Documents larger than this are read in parts even if they are invalid.
    """
    if part_bytes < len(document) <= limits.manifest_bytes and resolve is None:
        found = _read_in_parts(document, grid, limits, part_bytes, whole_bytes)
        if found is not None:
            return found
    if whole_bytes < len(document) <= limits.manifest_bytes:
        return (yield from _interpret_parts(document, grid, limits, part_bytes, resolve))
    return (yield from _interpret_whole(document, grid, limits, resolve))


def _interpret_whole(
    document: bytes, grid: Grid, limits: Limits, resolve: Resolve | None = None
) -> Findings[_Columns]:
    members = Members(document)
    refused: list[str] = []
    findings = interpret_document(document, limits, members, validating=resolve is not None)
    entries = yield from _noting_chunks(findings, refused)
    shared = Shared({}, {})
    columns = yield from _interpret_entries(entries, members, grid, shared, resolve, refused)
    return columns, tuple(shared.paths)


def _noting_chunks[T](findings: Findings[T], chunks: list[str]) -> Findings[T]:
    """Yield the same problems, and note the chunks that they name."""

    def note(problem: ManifestError) -> ManifestError:
        if problem.chunk is not None:
            chunks.append(problem.chunk)
        return problem

    return mapped(findings, note)


def _interpret_entries(
    entries: Mapping[str, Entry],
    members: Members,
    grid: Grid,
    shared: Shared,
    resolve: Resolve | None = None,
    refused: Sequence[str] = (),
) -> Findings[EntryColumns]:
    keys, values = list(entries), list(entries.values())
    findings = interpret_keys(keys, grid, report_outside=resolve is not None)
    if resolve is not None and refused:
        # The keys of refused entries are checked as well, beside all others.
        every = interpret_keys(list(members.raw), grid, report_outside=True)
        yield from mapped(every, members.locate)
        rows, _ = collect(findings)
    else:
        rows = yield from mapped(findings, members.locate)
    columns = yield from mapped(interpret_rows(rows, keys, values, shared), members.locate)
    if resolve is not None:
        foreign = set(range(len(keys))).difference(rows.members.tolist())
        for number in sorted(foreign):
            yield from mapped(_interpret_aside(values[number], keys[number]), members.locate)
        yield from mapped(_interpret_paths(entries, resolve), members.locate)
    return columns


def _interpret_paths(entries: Mapping[str, Entry], resolve: Resolve) -> Findings[None]:
    """Yield what is wrong with the paths of entries, under the names that the document uses."""
    known: dict[str, ManifestError | None] = {}
    for key, entry in entries.items():
        path = entry.path
        if isinstance(path, msgspec.UnsetType):
            continue
        if path not in known:
            try:
                resolve(path)
                known[path] = None
            except ManifestError as error:
                known[path] = error
        problem = known[path]
        if problem is not None:
            yield problem.in_context(chunk=key)


# ------------------------------------------------------------ in parts


def _read_in_parts(
    document: bytes, grid: Grid, limits: Limits, part_bytes: int, whole_bytes: int
) -> _Columns | None:
    """Return the columns of a valid document; None if it may have problems."""
    if grid.shape is None:
        return None  # each part would infer a different grid from its keys
    parts: list[EntryColumns] = []
    shared = Shared({}, {})
    count = inline_bytes = 0
    for part in split_document(document, part_bytes):
        if len(part) > whole_bytes:
            return None
        members = Members(part)
        try:
            # Not all problems: there may be one per entry.
            entries = strict(interpret_document(part, limits, members))
            count += len(entries)
            inline_bytes += count_inline_bytes(entries)
            if not entries or count > limits.entries or inline_bytes > limits.inline_bytes:
                return None
            parts.append(strict(_interpret_entries(entries, members, grid, shared)))
        except ManifestError:
            return None
    return _join(parts, shared.paths)


def _interpret_parts(
    document: bytes, grid: Grid, limits: Limits, part_bytes: int, resolve: Resolve | None
) -> Findings[_Columns]:
    """Yield the problems of a large document, in bounded memory, and return its columns."""
    nothing = _interpret_whole(b"{}", grid, limits)
    problem = explain_object(document)
    if problem is not None:
        yield problem
        return (yield from nothing)
    if grid.shape is None:
        grid = grid._replace(shape=_inferred_shape(document, grid, part_bytes))
    lines, shared = Lines(document), Shared({}, {})
    parts: list[EntryColumns] = []
    count = inline_bytes = 0
    for part, start in split_members(document, part_bytes):
        members = Members(part, lines, start)
        refused: list[str] = []
        findings = interpret_document(part, limits, members, validating=resolve is not None)
        entries = yield from _noting_chunks(findings, refused)
        count += len(entries)
        inline_bytes += count_inline_bytes(entries)
        for exceeded in too_much(count, inline_bytes, limits):
            yield exceeded
            return (yield from nothing)
        columns = _interpret_entries(entries, members, grid, shared, resolve, refused)
        parts.append((yield from columns))
    joined = _join(parts, shared.paths)
    if joined is None:
        yield from _repeated(parts)
        return (yield from nothing)
    return joined


def _inferred_shape(document: bytes, grid: Grid, part_bytes: int) -> tuple[int, ...]:
    """Return the shape of a grid that is just large enough for the keys."""
    shape = (1,) * grid.ndim
    for part, _ in split_members(document, part_bytes):
        rows, _ = collect(interpret_keys(list(Members(part).raw), grid))
        shape = tuple(map(max, shape, rows.grid_shape))
    return shape


def _repeated(parts: Sequence[EntryColumns]) -> Iterator[ManifestError]:
    """Yield the chunks that members of different parts name."""
    numbers, counts = np.unique(
        np.concatenate([part.chunk_numbers for part in parts]), return_counts=True
    )
    for number in numbers[counts > 1].tolist():
        key = format_canonical(grid_index(parts[0].grid_shape, number))
        yield InvalidChunkKeyError(
            f"the manifest has several members for the chunk {key!r}", chunk=key
        )


def _join(parts: Sequence[EntryColumns], paths: Iterable[str]) -> _Columns | None:
    """Return all rows of the parts in C order; None if two name the same chunk."""
    numbers = np.concatenate([part.chunk_numbers for part in parts])
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    if (numbers[1:] == numbers[:-1]).any():
        return None
    path_numbers = np.concatenate([part.path_numbers for part in parts])[order]
    path_numbers, ordered_paths = _renumber_paths(path_numbers, list(paths))
    columns = EntryColumns(
        parts[0].grid_shape,
        numbers,
        np.concatenate([part.offsets for part in parts])[order],
        np.concatenate([part.lengths for part in parts])[order],
        path_numbers,
        _join_aside(parts, order),
    )
    return columns, ordered_paths


def _renumber_paths(
    path_numbers: npt.NDArray[np.int32], paths: Sequence[str]
) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Renumber the paths in the order in which the rows use them."""
    backwards = np.flatnonzero(path_numbers >= 0)[::-1]
    first_rows = np.empty(len(paths), np.int64)
    first_rows[path_numbers[backwards]] = backwards  # of repeated assignments, the last one wins
    order = np.argsort(first_rows)
    table = np.empty(len(paths) + 2, np.int32)
    table[order] = np.arange(len(paths))
    # Rows without a path have negative numbers, which index from the end.
    table[[EMPTY, INLINE]] = EMPTY, INLINE
    return table[path_numbers], tuple([paths[number] for number in order.tolist()])


def _join_aside(parts: Sequence[EntryColumns], order: npt.NDArray[np.int64]) -> dict[int, Aside]:
    joined: dict[int, Aside] = {}
    start = 0
    for part in parts:
        joined.update((start + row, extra) for row, extra in part.aside.items())
        start += len(part.chunk_numbers)
    if joined and (order[1:] < order[:-1]).any():
        return {row: joined[place] for row, place in enumerate(order.tolist()) if place in joined}
    return joined


class EntryColumns(NamedTuple):
    """The columns of a manifest, without paths; see :class:`zarr_manifest.manifest.Manifest`."""

    grid_shape: tuple[int, ...]
    chunk_numbers: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    path_numbers: npt.NDArray[np.int32]
    aside: dict[int, Aside]


class Shared(NamedTuple):
    """Values that many rows share, held once.

    Attributes
    ----------
    paths : dict of str to int
        Every path, and its number.
    asides : dict of tuple to Aside
        What is kept aside, by the values that entries state.
    """

    paths: dict[str, int]
    asides: dict[tuple[object, ...], Aside]


def interpret_rows(
    rows: Rows,
    keys: Sequence[str],
    entries: Sequence[Entry],
    shared: Shared,
) -> Findings[EntryColumns]:
    """Yield the problems of individual entries, and return the entries as columns.

    Parameters
    ----------
    rows : Rows
        Which member of the document each row is, in C order of the chunks.
    keys, entries : sequence
        The members of the document.
    shared : Shared
        Updated with new paths and asides.
    """
    unset = msgspec.UNSET
    path_index = shared.paths
    aside: dict[int, Aside] = {}
    members: list[int] = rows.members.tolist()
    ordered = [entries[member] for member in members]
    # One whole column at a time: there may be millions of rows.
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
        aside[row] = yield from _aside_of(entry, keys[members[row]], shared)
    return EntryColumns(rows.grid_shape, rows.numbers, offsets, lengths, path_numbers, aside)


def interpret_conditions(path: str, given: Mapping[str, str]) -> Conditions:
    """Return the conditions, given by name, on the object of a path."""
    unknown = sorted(set(given) - {"etag", "last_modified", "version"})
    if unknown:
        raise InvalidEntryError(f"unknown condition {unknown[0]!r} for {path!r}")
    return parse_conditions(given.get("etag"), given.get("last_modified"), given.get("version"))


def _has_aside(entry: Entry) -> bool:
    unset = msgspec.UNSET
    return not (
        entry.data is unset
        and entry.checksum is unset
        and entry.etag is unset
        and entry.last_modified is unset
        and entry.version is unset
    )


def _aside_of(entry: Entry, key: str, shared: Shared) -> Findings[Aside]:
    """Yield what is wrong with what is kept aside, which is checked once if many rows share it."""
    said = (entry.data, entry.checksum, entry.etag, entry.last_modified, entry.version)
    known = shared.asides.get(said)
    if known is not None:
        return known
    aside, problems = collect(_interpret_aside(entry, key))
    yield from problems
    if not problems:
        shared.asides[said] = aside
    return aside


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
