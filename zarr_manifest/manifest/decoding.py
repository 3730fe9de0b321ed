"""A manifest document -> columns, for readers and validators.

A large document is read in parts, since a million entries take ten times the memory of
their columns. If anything is wrong with it, it is read again to report the problems: as a
whole, unless it is so large that a stranger could fill the memory with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np

from zarr_manifest.errors import InvalidChunkKeyError, InvalidEntryError, ManifestError
from zarr_manifest.format import (
    LARGEST_INTEGER,
    NO_CONDITIONS,
    Body,
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
from zarr_manifest.manifest.entry_columns import EntryColumns, JoinedParts, Shared
from zarr_manifest.manifest.keys import Grid, Rows, interpret_keys
from zarr_manifest.manifest.parts import LazyPart, split_document, split_members
from zarr_manifest.manifest.reference import EMPTY, INLINE, Extras
from zarr_manifest.manifest.scanner import Scanner

__all__ = [
    "Resolve",
    "interpret_columns",
    "interpret_conditions",
    "interpret_rows",
]

# Size of the parts in which a document is read: some ten thousand entries. The smaller, the more
# of them; the larger, the less of what is computed from them stays in the cache of a processor,
# and the more memory it takes.
_PART_BYTES = 3 * 2**18
_LARGE_PART_BYTES = 3 * 2**19
_LARGE_BYTES = 2**25

# Of smaller documents, entries are interpreted one by one.
_LEAST_BYTES = 2**12

# Larger documents are never decoded as a whole, which takes up to thirty times their size.
_WHOLE_BYTES = 2**24

# Turns a path into a location, or raises.
type Resolve = Callable[[str], object]

# The columns, and the paths to which their path numbers refer.
type _Columns = tuple[EntryColumns, tuple[str, ...]]


def interpret_columns(
    document: Body,
    grid: Grid,
    limits: Limits,
    *,
    resolve: Resolve | None = None,
    part_bytes: int | None = None,
    whole_bytes: int = _WHOLE_BYTES,
    least_bytes: int = _LEAST_BYTES,
) -> Findings[_Columns]:
    """Yield the problems of a manifest document, and return its valid entries as columns.

    Parameters
    ----------
    document : bytes, memoryview or LazyBytes
        UTF-8 JSON.
    grid : Grid
        The chunks that keys may name.
    limits : Limits
        Larger documents are rejected.
    resolve : callable, optional
        Given by validators, which report more than readers: duplicate members, keys outside the
        grid, and whatever is wrong with any member, be it that of a chunk or not. Problems of
        paths are reported only here.
    part_bytes : int, optional
        Documents larger than this are read in parts of this size.
    whole_bytes : int
        Documents larger than this are read in parts even if they are invalid.
    least_bytes : int
        Smaller documents are read entry by entry, unless they are read in parts.
    """
    if part_bytes is None:
        part_bytes = _PART_BYTES if len(document) < _LARGE_BYTES else _LARGE_PART_BYTES
    found: _Columns | None = None
    if resolve is None and len(document) <= limits.manifest_bytes:
        if len(document) > part_bytes:
            found = _read_in_parts(document, grid, limits, part_bytes, whole_bytes)
        elif len(document) >= least_bytes:
            found = _read_plain(document, grid, limits)
    if found is not None:
        return found
    document = bytes(document)
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
            yield from mapped(_interpret_extras(values[number], keys[number]), members.locate)
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
    document: Body, grid: Grid, limits: Limits, part_bytes: int, whole_bytes: int
) -> _Columns | None:
    """Return the columns of a valid document; None if it may have problems."""
    if grid.shape is None:
        return None  # each part would infer a different grid from its keys
    joined, shared = JoinedParts(len(document)), Shared({}, {})
    plain = Scanner(grid, limits, shared)
    count = inline_bytes = 0
    for part in split_document(document, part_bytes):
        columns = plain.columns(part)
        if columns is not None:
            count += len(columns.offsets)
        elif len(part) > whole_bytes:
            return None
        else:
            read = bytes(part)
            members = Members(read)
            try:
                # Not all problems: there may be one per entry.
                entries = strict(interpret_document(read, limits, members))
                columns = strict(_interpret_entries(entries, members, grid, shared))
            except ManifestError:
                return None
            count += len(entries)
            inline_bytes += count_inline_bytes(entries)
            if not entries:
                return None
        if count > limits.entries or inline_bytes > limits.inline_bytes:
            return None
        joined.add(columns, len(part))
    return joined.in_order(list(shared.paths))


def _read_plain(document: Body, grid: Grid, limits: Limits) -> _Columns | None:
    """Return the columns of a document of entries that are all written alike, or None."""
    joined, shared = JoinedParts(len(document)), Shared({}, {})
    columns = Scanner(grid, limits, shared).columns(LazyPart.all_of(document))
    if columns is None or len(columns.offsets) > limits.entries:
        return None
    joined.add(columns, len(document))
    return joined.in_order(list(shared.paths))


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
        grid = msgspec.structs.replace(grid, shape=_inferred_shape(document, grid, part_bytes))
    lines, shared = Lines(document), Shared({}, {})
    joined = JoinedParts(len(document))
    count = inline_bytes = 0
    for part in split_members(document, part_bytes):
        members = Members(part.document, lines, part.start)
        refused: list[str] = []
        findings = interpret_document(
            part.document, limits, members, validating=resolve is not None
        )
        entries = yield from _noting_chunks(findings, refused)
        count += len(entries)
        inline_bytes += count_inline_bytes(entries)
        for exceeded in too_much(count, inline_bytes, limits):
            yield exceeded
            return (yield from nothing)
        columns = yield from _interpret_entries(entries, members, grid, shared, resolve, refused)
        joined.add(columns, len(part.document))
    found = joined.in_order(list(shared.paths))
    if found is None:
        yield from _repeated(joined)
        return (yield from nothing)
    return found


def _inferred_shape(document: bytes, grid: Grid, part_bytes: int) -> tuple[int, ...]:
    """Return the shape of a grid that is just large enough for the keys."""
    shape = (1,) * grid.ndim
    for part in split_members(document, part_bytes):
        rows, _ = collect(interpret_keys(list(Members(part.document).raw), grid))
        shape = tuple(map(max, shape, rows.grid_shape))
    return shape


def _repeated(parts: JoinedParts) -> Iterator[ManifestError]:
    """Yield the chunks that members of different parts name."""
    for number in parts.repeated():
        key = format_canonical(grid_index(parts.grid_shape, number))
        yield InvalidChunkKeyError(
            f"the manifest has several members for the chunk {key!r}", chunk=key
        )


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
        Updated with new paths and extras.
    """
    unset = msgspec.UNSET
    path_index = shared.paths
    extras: dict[int, Extras] = {}
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
    for row in [row for row, entry in enumerate(ordered) if _has_extras(entry)]:
        entry = ordered[row]
        if entry.data is not unset:
            path_numbers[row], lengths[row] = INLINE, len(entry.data)
        extras[row] = yield from _extras_of(entry, keys[members[row]], shared)
    return EntryColumns(rows.grid_shape, rows.numbers, offsets, lengths, path_numbers, extras)


def interpret_conditions(path: str, given: Mapping[str, str | int]) -> Conditions:
    """Return the conditions, given by name, on the object of a path."""
    unknown = sorted(set(given) - set(_Conditions.__struct_fields__))
    if unknown:
        raise InvalidEntryError(f"unknown condition {unknown[0]!r} for {path!r}")
    try:
        stated = msgspec.convert(given, _Conditions)
    except msgspec.ValidationError as error:
        raise InvalidEntryError(f"a condition for {path!r} is invalid: {error}") from None
    return parse_conditions(stated.etag, stated.last_modified, stated.version, stated.size)


class _Conditions(msgspec.Struct):
    """Conditions as their writer gives them."""

    etag: str | None = None
    last_modified: str | None = None
    version: str | None = None
    size: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INTEGER)] | None = None


def _has_extras(entry: Entry) -> bool:
    unset = msgspec.UNSET
    return not (
        entry.data is unset
        and entry.checksum is unset
        and entry.etag is unset
        and entry.last_modified is unset
        and entry.version is unset
        and entry.size is unset
    )


def _extras_of(entry: Entry, key: str, shared: Shared) -> Findings[Extras]:
    """Yield what is wrong with extras, which are checked once if many rows share them."""
    said = (
        entry.data, entry.checksum, entry.etag, entry.last_modified, entry.version, entry.size,
    )  # fmt: skip
    known = shared.extras.get(said)
    if known is not None:
        return known
    extras, problems = collect(_interpret_extras(entry, key))
    yield from problems
    if not problems:
        shared.extras[said] = extras
    return extras


def _interpret_extras(entry: Entry, key: str) -> Findings[Extras]:
    checksum = _or_none(entry.checksum)
    conditions = NO_CONDITIONS
    try:
        if checksum is not None:
            parse_checksum(checksum)
    except ManifestError as error:
        yield error.in_context(chunk=key)
    try:
        conditions = parse_conditions(
            _or_none(entry.etag),
            _or_none(entry.last_modified),
            _or_none(entry.version),
            _or_none(entry.size),
        )
    except ManifestError as error:
        yield error.in_context(chunk=key)
    return Extras(_or_none(entry.data), checksum, conditions)


def _or_none[T](value: T | msgspec.UnsetType) -> T | None:
    return None if isinstance(value, msgspec.UnsetType) else value
