"""A manifest document -> references, for readers and validators.

A large document is read in parts, since a million entries take ten times the memory of
their columns. If anything is wrong with it, it is read again to report the problems: as a
whole, unless it is so large that a stranger could fill the memory with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from zarr_manifest.errors import InvalidChunkKeyError, ManifestError
from zarr_manifest.format import (
    NO_CONDITIONS,
    Body,
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
from zarr_manifest.manifest.joining import JoinedReferences
from zarr_manifest.manifest.keys import Grid, MemberRows, interpret_keys
from zarr_manifest.manifest.parts import split_document, split_members
from zarr_manifest.manifest.references import (
    EMPTY,
    INLINE,
    TO_THE_END,
    Columns,
    Extras,
    PathNumbers,
    References,
)

if TYPE_CHECKING:
    from zarr_manifest.manifest.scanner import Scanner

# Size of the parts in which a document is read: some ten thousand entries. The smaller, the more
# of them; the larger, the less of what is computed from them stays in the cache of a processor,
# and the more memory it takes.
_PART_BYTES = 3 * 2**18
_LARGE_PART_BYTES = 3 * 2**19
_LARGE_BYTES = 2**25

# Of smaller documents, entries are interpreted one by one.
_LEAST_BYTES = 2**14

# Larger documents are never decoded as a whole, which takes up to thirty times their size.
_WHOLE_BYTES = 2**24

# Turns a path into a location, or raises.
type Resolve = Callable[[str], object]

# Values that many rows of a document share, held once: extras, by what entries state.
type KnownExtras = dict[tuple[object, ...], Extras]

# Rows, whose paths are numbered elsewhere, and what only some of them have.
type _Rows = tuple[Columns, dict[int, Extras]]


def interpret_manifest(
    document: Body,
    grid: Grid,
    limits: Limits,
    *,
    resolve: Resolve | None = None,
) -> Findings[References]:
    """Yield the problems of a manifest document, and return its valid references.

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
    """
    if _LEAST_BYTES <= len(document) <= limits.manifest_bytes:
        found = _read_valid(document, grid, limits, resolve)
        if found is not None:
            return found
    document = bytes(document)
    if _WHOLE_BYTES < len(document) <= limits.manifest_bytes:
        return (yield from _interpret_parts(document, grid, limits, resolve))
    return (yield from _interpret_whole(document, grid, limits, resolve))


def _part_bytes(document: Body) -> int:
    return _PART_BYTES if len(document) < _LARGE_BYTES else _LARGE_PART_BYTES


def _interpret_whole(
    document: bytes, grid: Grid, limits: Limits, resolve: Resolve | None = None
) -> Findings[References]:
    members = Members(document)
    refused: list[str] = []
    findings = interpret_document(document, limits, members, validating=resolve is not None)
    entries = yield from _noting_chunks(findings, refused)
    reader = _EntryReader(grid)
    yield from reader.interpret(entries, members, resolve, refused)
    found = reader.joined.references(reader.grid_shape)
    assert found is not None  # keys that name the same chunk are problems
    return found


def _noting_chunks[T](findings: Findings[T], chunks: list[str]) -> Findings[T]:
    """Yield the same problems, and note the chunks that they name."""

    def note(problem: ManifestError) -> ManifestError:
        if problem.chunk is not None:
            chunks.append(problem.chunk)
        return problem

    return mapped(findings, note)


class _EntryReader:
    """Interprets the entries of a document, or of its parts, one after the other.

    Attributes
    ----------
    grid_shape : tuple of int
        Number of chunks along each dimension; just large enough for the keys, if it is unknown.
    joined : JoinedReferences
        The rows so far.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._paths = PathNumbers()
        self._known: KnownExtras = {}
        self.grid_shape: tuple[int, ...] = grid.shape or ()
        self.joined = JoinedReferences(self._paths)

    def scanner(self, limits: Limits) -> Scanner:
        """Return a scanner whose rows have the same path numbers."""
        # Imported lazily: small documents are read without it.
        from zarr_manifest.manifest.scanner import Scanner

        return Scanner(self._grid, limits, self._paths, self._known)

    def interpret(
        self,
        entries: Mapping[str, Entry],
        members: Members,
        resolve: Resolve | None = None,
        refused: Sequence[str] = (),
    ) -> Findings[None]:
        """Yield what is wrong with entries, and add the valid ones."""
        keys, values = list(entries), list(entries.values())
        findings = interpret_keys(keys, self._grid, report_outside=resolve is not None)
        if resolve is not None and refused:
            # The keys of refused entries are checked as well, beside all others.
            every = interpret_keys(list(members.raw), self._grid, report_outside=True)
            yield from mapped(every, members.locate)
            rows, _ = collect(findings)
        else:
            rows = yield from mapped(findings, members.locate)
        self.grid_shape = rows.grid_shape
        interpreted = interpret_rows(rows, keys, values, self._paths, self._known)
        columns, extras = yield from mapped(interpreted, members.locate)
        self.joined.add(columns, extras)
        if resolve is not None:
            foreign = set(range(len(keys))).difference(rows.members.tolist())
            for number in sorted(foreign):
                yield from mapped(_interpret_extras(values[number], keys[number]), members.locate)
            yield from mapped(_interpret_paths(entries, resolve), members.locate)


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


def _read_valid(
    document: Body, grid: Grid, limits: Limits, resolve: Resolve | None
) -> References | None:
    """Return the references of a valid document; None if it may have problems.

    Validators rely on the scanner alone: what it reads has nothing that only they report.
    """
    if grid.shape is None:
        return None  # each part would infer a different grid from its keys
    reader = _EntryReader(grid)
    scanner, joined = reader.scanner(limits), reader.joined
    count = inline_bytes = read_bytes = 0
    for part in split_document(document, _part_bytes(document)):
        rows = scanner.scan(part)
        if rows is not None:
            joined.add(*rows)
            count += len(rows[0].numbers)
        elif resolve is not None or len(part) > _WHOLE_BYTES:
            return None
        else:
            read = bytes(part)
            members = Members(read)
            try:
                # Not all problems: there may be one per entry.
                entries = strict(interpret_document(read, limits, members))
                strict(reader.interpret(entries, members))
            except ManifestError:
                return None
            count += len(entries)
            inline_bytes += count_inline_bytes(entries)
            if not entries:
                return None
        if count > limits.entries or inline_bytes > limits.inline_bytes:
            return None
        read_bytes += len(part)
        joined.expect(len(joined) * len(document) // read_bytes)
    found = joined.references(grid.shape)
    if found is not None and resolve is not None:
        try:
            for path in found.paths:
                resolve(path)
        except ManifestError:
            return None
    return found


def _interpret_parts(
    document: bytes, grid: Grid, limits: Limits, resolve: Resolve | None
) -> Findings[References]:
    """Yield the problems of a large document, in bounded memory, and return its references."""
    nothing = _interpret_whole(b"{}", grid, limits)
    problem = explain_object(document)
    if problem is not None:
        yield problem
        return (yield from nothing)
    if grid.shape is None:
        grid = msgspec.structs.replace(grid, shape=_inferred_shape(document, grid))
    lines, reader = Lines(document), _EntryReader(grid)
    count = inline_bytes = 0
    for part in split_members(document, _part_bytes(document)):
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
        yield from reader.interpret(entries, members, resolve, refused)
    found = reader.joined.references(reader.grid_shape)
    if found is None:
        yield from _repeated(reader)
        return (yield from nothing)
    return found


def _inferred_shape(document: bytes, grid: Grid) -> tuple[int, ...]:
    """Return the shape of a grid that is just large enough for the keys."""
    shape = (1,) * grid.ndim
    for part in split_members(document, _part_bytes(document)):
        rows, _ = collect(interpret_keys(list(Members(part.document).raw), grid))
        shape = tuple(map(max, shape, rows.grid_shape))
    return shape


def _repeated(reader: _EntryReader) -> Iterator[ManifestError]:
    """Yield the chunks that members of different parts name."""
    for number in reader.joined.repeated():
        key = format_canonical(grid_index(reader.grid_shape, number))
        yield InvalidChunkKeyError(
            f"the manifest has several members for the chunk {key!r}", chunk=key
        )


# ------------------------------------------------------------ entries


def interpret_rows(
    rows: MemberRows,
    keys: Sequence[str],
    entries: Sequence[Entry],
    paths: PathNumbers,
    known: KnownExtras,
) -> Findings[_Rows]:
    """Yield the problems of individual entries, and return the entries as columns.

    Parameters
    ----------
    rows : MemberRows
        Which member of the document each row is, in C order of the chunks.
    keys, entries : sequence
        The members of the document.
    paths, known
        Updated with new paths and extras.
    """
    unset = msgspec.UNSET
    extras: dict[int, Extras] = {}
    members: list[int] = rows.members.tolist()
    ordered = [entries[member] for member in members]
    # One whole column at a time: there may be millions of rows.
    path_numbers = np.array(
        [EMPTY if entry.path is unset else paths[entry.path] for entry in ordered], np.int32
    )
    offsets = np.array([entry.offset or 0 for entry in ordered], np.int64)
    lengths = np.array([entry.length or TO_THE_END for entry in ordered], np.int64)
    for row in [row for row, entry in enumerate(ordered) if _has_extras(entry)]:
        entry = ordered[row]
        if entry.data is not unset:
            path_numbers[row], lengths[row] = INLINE, len(entry.data)
        extras[row] = yield from _extras_of(entry, keys[members[row]], known)
    return Columns(rows.numbers, offsets, lengths, path_numbers), extras


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


def _extras_of(entry: Entry, key: str, known: KnownExtras) -> Findings[Extras]:
    """Yield what is wrong with extras, which are checked once if many rows share them."""
    said = (
        entry.data, entry.checksum, entry.etag, entry.last_modified, entry.version, entry.size,
    )  # fmt: skip
    found = known.get(said)
    if found is not None:
        return found
    extras, problems = collect(_interpret_extras(entry, key))
    yield from problems
    if not problems:
        known[said] = extras
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
