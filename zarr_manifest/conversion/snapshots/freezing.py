"""Binds the nodes of a hierarchy to the present state of what they refer to.

What is looked at may be written meanwhile. So all is looked at twice, before anything is read and
at the end: if nothing has changed in between, all of the snapshot was there at the same time.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.files import hierarchy_nodes
from zarr_manifest.conversion.nodes import ArrayNode, Node, StreamedManifest
from zarr_manifest.conversion.renewal import (
    recorded_objects,
    states_of,
    with_checksums,
    with_states,
)
from zarr_manifest.conversion.snapshots.comparing import KINDS, compare_references
from zarr_manifest.conversion.snapshots.copies import Copied, Copies
from zarr_manifest.errors import (
    Advice,
    ManifestError,
    NotConvertibleError,
    Setting,
    SourceChangedError,
    in_context,
)
from zarr_manifest.format import (
    Conditions,
    dump_node,
    format_canonical,
    grid_index,
)
from zarr_manifest.hierarchy import InspectedHierarchy, ranges_of
from zarr_manifest.hierarchy import Node as StoredNode
from zarr_manifest.inspection import loose_rows, parts_of
from zarr_manifest.locations import Base, Location, StoreLocation, UrlLocation, redact, resolver
from zarr_manifest.manifest import (
    INLINE,
    TO_THE_END,
    Extras,
    Manifest,
    PathNumbers,
    References,
    Row,
    references_of,
)
from zarr_manifest.sources import ObjectVersion, in_order, read_each
from zarr_manifest.zarr_internals import sync

# Number of chunks that are written at a time.
_CONCURRENT_CALLS = 16

# Chunks, and bytes of them, that are held in memory to be copied.
_MOST_CHUNKS = 2**12
_MOST_BYTES = 64 * 1024 * 1024


# An array, a chunk, and the object that it is in.
type _Named = tuple[str, str, str]


class Freezing:
    """Binds the nodes of a hierarchy to the present state of what they refer to.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        The hierarchy.
    location : str, Path, obstore store or zarr Store
        Where it was opened.
    algorithm : str or None
        Of the checksums that are added.
    copies : Copies or None
        Where chunks are copied to.
    """

    def __init__(
        self,
        hierarchy: InspectedHierarchy,
        location: Any,
        algorithm: str | None,
        copies: Copies | None,
    ) -> None:
        self._hierarchy = hierarchy
        self._location = location
        self._algorithm = algorithm
        self._copies = copies
        self._resolve = resolver(Base.parse("./"))
        # The states of objects when first looked at, and the first array and chunk in each.
        self._states: dict[ObjectVersion, Conditions] = {}
        self._named: dict[ObjectVersion, _Named] = {}
        self._failure: ManifestError | None = None

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes; raise instead of ending if something has changed meanwhile."""
        found = sync(self._hierarchy.nodes())
        own = [node for node in found if has_own_chunks(node)]
        others = [node for node in found if not has_own_chunks(node)]
        listed = list(self._listed(own))
        _require_same(found, sync(self._hierarchy.nodes()))
        stored = hierarchy_nodes(self._hierarchy, self._location, others) if others else ()
        for nodes, is_listed in ((listed, True), (stored, False)):
            for node in nodes:
                yield self._frozen(node, is_listed=is_listed)
                # The writer goes on after an array that it cannot write.
                if self._failure is not None:
                    raise self._failure
        self._require_unchanged()
        again = {node.path: node for node in self._listed(own)}
        for before in listed:
            if isinstance(before, ArrayNode):
                _require_same_chunks(before, again.get(before.path))
        if self._copies is not None:
            self._copies.keep_origins()

    def _listed(self, own: Sequence[StoredNode]) -> Iterable[Node]:
        """Return the nodes whose chunks are listed."""
        return hierarchy_nodes(self._hierarchy, self._location, own) if own else ()

    def _frozen(self, node: Node, *, is_listed: bool) -> Node:
        if not isinstance(node, ArrayNode):
            return node
        freeze = functools.partial(self._freeze, node.path, is_listed=is_listed)
        manifest = node.manifest
        if isinstance(manifest, Manifest):
            return dataclasses.replace(node, manifest=freeze(manifest))
        parts = self._parts(manifest.parts, freeze)
        streamed = StreamedManifest(manifest.partition_shape, parts, manifest.is_in_order)
        return dataclasses.replace(node, manifest=streamed)

    def _parts(
        self, parts: Iterable[Manifest], freeze: Callable[[Manifest], Manifest]
    ) -> Iterator[Manifest]:
        try:
            yield from map(freeze, parts)
        except ManifestError as error:
            self._failure = error
            raise

    def _freeze(self, path: str, manifest: Manifest, *, is_listed: bool) -> Manifest:
        table = references_of(manifest)
        part = _Part(path, table, [self._place(each) for each in table.paths])
        self._hierarchy.sources.check(part.places)
        states = self._asked(part, is_listed=is_listed)
        part = part._replace(table=with_states(table, states))
        if self._copies is not None:
            return Manifest(self._copied(part, self._copies))
        if self._algorithm is not None:
            with in_context(array=path):
                table = with_checksums(
                    part.table, part.places, self._hierarchy.sources, self._algorithm
                )
            part = part._replace(table=table)
        loose = loose_rows(part.table, np.array([*map(self._is_firm, part.places)], bool))
        if len(loose):
            raise _loose(part, int(loose[0]))
        return Manifest(part.table)

    def _place(self, path: str) -> Location:
        """Return a location; that of an object in the hierarchy's own store needs no permission."""
        location, root = self._resolve(path), self._hierarchy.sources.root
        if root is None or not isinstance(location, UrlLocation):
            return location
        below = f"{root.path}/" if root.path else ""
        is_own = (location.scheme, location.authority) == (root.scheme, root.authority)
        if not is_own or not location.path.startswith(below):
            return location
        return StoreLocation(location.path.removeprefix(below))

    def _is_firm(self, place: Location) -> bool:
        """Whether an object has more of a state than a file, whose time has a resolution."""
        root = self._hierarchy.sources.root
        found = place if isinstance(place, UrlLocation) else root
        return found is not None and found.scheme != "file"

    # States ---------------------------------------------------------------------------

    def _asked(self, part: _Part, *, is_listed: bool) -> dict[str, Conditions]:
        """Return the states of objects without a stated version, by path."""
        recorded = {
            number: (found, stated.conditions)
            for number, found, stated in recorded_objects(part.table, part.places)
            if found.version is None
        }
        wanted = {number: found for number, (found, _) in recorded.items()}
        exact = is_listed and all(
            each.are_exact for _, conditions in recorded.values() for each in conditions
        )
        if exact and wanted:
            # A bucket lists no versions: if its first object has none, listed states are complete.
            first = min(wanted)
            self._ask(part, {first: wanted[first]})
            if self._states[wanted[first]].version is None:
                wanted = {first: wanted[first]}
        self._ask(part, wanted)
        states: dict[str, Conditions] = {}
        for number, (found, conditions) in recorded.items():
            path = part.table.paths[number]
            if number not in wanted:
                (states[path],) = conditions
                continue
            state = self._states[found]
            for stated in conditions:
                try:
                    stated.require(state)
                except SourceChangedError as error:
                    raise part.at_path(error, number) from None
            states[path] = state.recordable()
        return states

    def _ask(self, part: _Part, wanted: Mapping[int, ObjectVersion]) -> None:
        """Ask for the states of objects, if they are not known."""
        new = {found: number for number, found in wanted.items() if found not in self._states}
        for found, state in states_of(new, self._hierarchy.sources).items():
            if isinstance(state, ManifestError):
                raise part.at_path(state, new[found]) from state.__cause__
            self._states[found] = state
        if new:
            first = part.first_chunks()
            self._named |= {
                found: (part.path, first[number], part.shown(number))
                for found, number in new.items()
            }

    def _require_unchanged(self) -> None:
        for found, now in states_of(self._states, self._hierarchy.sources).items():
            if now != self._states[found]:
                raise _changed(*self._named[found])

    # Bytes ----------------------------------------------------------------------------

    def _copied(self, part: _Part, copies: Copies) -> References:
        table = part.table
        columns = table.columns()
        extras = {
            row: extra
            for row, extra in table.extras_by_row().items()
            if columns.path_numbers[row] == INLINE
        }
        offsets, lengths = np.zeros_like(columns.offsets), columns.lengths.copy()
        numbers, paths = columns.path_numbers.copy(), PathNumbers()
        for row, found in self._copies_of(part, copies):
            is_inline = found.data is not None
            numbers[row] = INLINE if is_inline else paths[copies.path(found.checksum)]
            lengths[row] = found.size or TO_THE_END  # no entry states a length of 0
            extras[row] = Extras(found.data, found.checksum)
        return table.replaced(
            offsets=offsets,
            lengths=lengths,
            path_numbers=numbers,
            paths=tuple(paths),
            extras=dict(sorted(extras.items())),
        )

    def _origin(self, part: _Part, entry: Row) -> str:
        """Return a digest of what a chunk is read from; empty if that may change unnoticed."""
        stated, place = entry.conditions, part.places[entry.path_number]
        if not (stated.are_exact and self._is_firm(place)):
            return ""
        path = part.table.paths[entry.path_number]  # its query may be a signature
        what = (path, entry.offset, entry.length, stated.version, stated.etag, entry.checksum)
        return hashlib.sha256(repr(what).encode()).hexdigest()

    def _copies_of(self, part: _Part, copies: Copies) -> Iterator[tuple[int, Copied]]:
        """Yield the rows of chunks in objects with their copies, new or there already."""
        root = self._hierarchy.sources.root
        origins = copies.origins(f"{root.url if root else ''} {part.path}")
        rows = np.flatnonzero(part.table.columns().path_numbers >= 0)

        async def known(some: Iterable[int]) -> list[Copied | None]:
            entries = map(part.table.row, some)
            calls = (
                functools.partial(copies.known, entry, self._origin(part, entry), origins)
                for entry in entries
            )
            return [each async for each in in_order(calls, _CONCURRENT_CALLS)]

        def copied(row: int) -> Copied:
            try:
                return copies.add(part.table.row(row), bodies.pop(row))
            except ManifestError as error:
                raise part.at_row(error, row) from error.__cause__

        sizes = np.maximum(part.table.columns(rows).lengths, 0) + _MOST_BYTES // _MOST_CHUNKS
        with ThreadPoolExecutor(_CONCURRENT_CALLS) as pool:
            for first, last in parts_of(sizes, _MOST_BYTES):
                some: list[int] = rows[first:last].tolist()
                found = dict(zip(some, sync(known(some)), strict=True))
                new = [row for row, copy in found.items() if copy is None]
                bodies: dict[int, memoryview] = {}
                self._read(part, np.array(new, np.int64), bodies.__setitem__)
                added = dict(zip(new, pool.map(copied, new), strict=True))
                for row in some:
                    copy = found[row] or added[row]
                    origin = self._origin(part, part.table.row(row))
                    if origin and copy.data is None:
                        origins.present[origin] = copy.checksum
                    yield row, copy

    def _read(
        self, part: _Part, rows: npt.NDArray[np.int64], use: Callable[[int, memoryview], None]
    ) -> None:
        """Read chunks, and hand over the row and the bytes of each, in threads."""

        def take(positions: Sequence[int], bodies: Sequence[memoryview]) -> None:
            for row, body in zip(rows[positions].tolist(), bodies, strict=True):
                use(row, body)

        def fail(positions: Sequence[int], error: ManifestError) -> None:
            raise part.at_row(error, int(rows[positions[0]])) from error.__cause__

        ranges = ranges_of(part.table, part.places, rows)
        sync(read_each(self._hierarchy.sources, ranges, take, fail))


class _Part(NamedTuple):
    """The manifest of an array, or a part of it, and where its paths lead."""

    path: str
    table: References
    places: list[Location]

    def chunk(self, row: int) -> str:
        """Return the canonical key of the chunk of a row."""
        number = int(self.table.columns().numbers[row])
        return format_canonical(grid_index(self.table.grid_shape, number))

    def shown(self, number: int) -> str:
        """Return a path for messages."""
        return redact(self.table.paths[number])

    def first_chunks(self) -> dict[int, str]:
        """Return the first chunk of each path, by its number."""
        numbers, rows = np.unique(self.table.columns().path_numbers, return_index=True)
        return dict(zip(numbers.tolist(), map(self.chunk, rows.tolist()), strict=True))

    def at_row[E: ManifestError](self, error: E, row: int) -> E:
        """Return an error with the chunk and the place that it is about."""
        number = int(self.table.columns().path_numbers[row])
        return error.in_context(array=self.path, chunk=self.chunk(row), location=self.shown(number))

    def at_path[E: ManifestError](self, error: E, number: int) -> E:
        """Return an error about the object of a path, with the first of its chunks."""
        rows = np.flatnonzero(self.table.columns().path_numbers == number)
        return self.at_row(error, int(rows[0]))


def has_own_chunks(node: StoredNode) -> bool:
    """Whether a node may have chunks of its own, without a manifest."""
    if node.problem is not None:
        return False
    return node.is_v2 or (node.array is not None and not node.array.declaration)


def _require_same(found: Sequence[StoredNode], again: Sequence[StoredNode]) -> None:
    # As text, in which two NaN are equal.
    before, now = (
        {node.path: dump_node(node.metadata) for node in each} for each in (found, again)
    )
    for path in sorted(before.keys() | now):
        if before.get(path) != now.get(path):
            raise _changed(path, None, None)


def _require_same_chunks(before: ArrayNode, now: Node | None) -> None:
    if not isinstance(now, ArrayNode):
        raise _changed(before.path, None, None)
    tables = [
        references_of(node.manifest)
        for node in (before, now)
        if isinstance(node.manifest, Manifest)  # of native arrays
    ]
    found = compare_references(*tables)
    for chunk in (each for kind in KINDS for each in found.keys(kind, 1)):
        raise _changed(before.path, chunk, None)


def _changed(array: str, chunk: str | None, location: str | None) -> SourceChangedError:
    what = "metadata" if chunk is None else "the chunk"
    return SourceChangedError(
        f"{what} changed while the snapshot was taken",
        array=array,
        chunk=chunk,
        location=location,
        remedy="Take it again. Where chunks are written all the time, take one without checksums "
        "first, and then a snapshot of that, with checksums.",
    )


def _loose(part: _Part, row: int) -> ManifestError:
    error = NotConvertibleError(
        "the object has no version and no strong entity tag, and may get other bytes unnoticed: "
        "its time has a resolution",
        remedy=Advice("Pass ", Setting("checksum", "sha256"), " to record what is there now."),
    )
    return part.at_row(error, row)
