"""The objects that a hierarchy refers to: what its entries record of them, and what is there.

An object is the same if what is recorded of it says so, or, where chunks are read, if they have
their checksums, or can be decoded.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs
from msgspec.structs import replace

from zarr_manifest.errors import (
    Advice,
    ManifestError,
    RangeOutOfBoundsError,
    Setting,
    SourceChangedError,
)
from zarr_manifest.format import (
    NO_CONDITIONS,
    Conditions,
    format_canonical,
    grid_index,
    verify_checksum,
)
from zarr_manifest.hierarchy import DeclaredArray, LoadedManifest, ranges_of
from zarr_manifest.inspection import ChunkDecoding
from zarr_manifest.locations import Location
from zarr_manifest.manifest import TO_THE_END, References
from zarr_manifest.sources import (
    ObjectVersion,
    Pace,
    SourceObject,
    Sources,
    object_states,
    read_each,
)
from zarr_manifest.zarr_internals import sync

# Number of objects that are asked about at a time.
_CONCURRENT_CALLS = 16


@dataclass(slots=True)
class RecordedObject:
    """What the entries of a hierarchy record of an object.

    Parameters
    ----------
    stop : int
        Where the last chunk in it ends, in bytes.
    conditions : set of Conditions
        The states that entries record; most objects have one.
    """

    stop: int = 0
    conditions: set[Conditions] = field(default_factory=set[Conditions])

    def add(self, other: RecordedObject) -> None:
        """Add what other entries record of the same object."""
        self.stop = max(self.stop, other.stop)
        self.conditions |= other.conditions

    def violation(self, now: Conditions) -> ManifestError | None:
        """Return why a reader would refuse the present object, or None."""
        if (error := self._beyond_the_end(now)) is not None:
            return error
        found = (stated.violation(now) for stated in self.conditions)
        violation = next((each for each in found if each is not None), None)
        return None if violation is None else _another(violation, to_read=False)

    def difference(self, now: Conditions, *, is_moved: bool, is_read: bool) -> ManifestError | None:
        """Return why the present object is not known to be the same, or None.

        If its chunks are read, only that is returned which they cannot refute.
        """
        if (error := self._beyond_the_end(now)) is not None:
            return error
        # Where other entries say more of the object, it counts for those that say nothing.
        for stated in {each for each in self.conditions if each} or self.conditions:
            violation = Conditions(size=stated.size).violation(now)
            if violation is not None:
                return _another(violation, to_read=False)
            if is_read:
                continue
            # Elsewhere, the same bytes have another version.
            expected = replace(stated, version=None) if is_moved else stated
            error = _difference(expected, now, is_moved=is_moved)
            if error is not None:
                return error
        return None

    def _beyond_the_end(self, now: Conditions) -> ManifestError | None:
        if now.size is None or self.stop <= now.size:
            return None
        return RangeOutOfBoundsError(
            f"the object has {now.size:,} bytes, and chunks up to byte {self.stop:,}"
        )


def _difference(stated: Conditions, now: Conditions, *, is_moved: bool) -> ManifestError | None:
    # That times differ is why people ask.
    lasting = replace(stated, last_modified=None)
    if is_moved and now.etag is None:
        lasting = replace(lasting, etag=None)
    violation = lasting.violation(now)
    if violation is None and (lasting.are_exact or lasting.size is not None):
        return None
    if violation is None and not is_moved:
        violation = stated.violation(now)
        if violation is None:
            return None
    if violation is None:
        violation = "neither its size nor a strong entity tag is recorded"
    return _another(violation, to_read=True)


def _another(violation: str, *, to_read: bool) -> SourceChangedError:
    compare = Advice("To compare its chunks, pass ", Setting("read", True), ".")
    return SourceChangedError(
        f"the object may be another one: {violation}", remedy=compare if to_read else None
    )


def recorded_objects(
    table: References, locations: Iterable[Location]
) -> Iterator[tuple[int, ObjectVersion, RecordedObject]]:
    """Yield the objects of a table, each with the number of its path, and what is recorded."""
    columns, places = table.columns(), list(locations)
    stated = {NO_CONDITIONS: 0}
    which = np.zeros(len(table), np.int64)
    for extra, rows in table.extras():
        which[rows] = stated.setdefault(extra.conditions, len(stated))
    has_path = columns.path_numbers >= 0
    keys = columns.path_numbers[has_path] * np.int64(len(stated)) + which[has_path]
    distinct, own = np.unique(keys, return_inverse=True)
    lengths = np.where(columns.lengths == TO_THE_END, 1, columns.lengths)
    stops = np.zeros(len(distinct), np.int64)
    np.maximum.at(stops, own, (columns.offsets + lengths)[has_path])
    found: dict[tuple[int, str | None], RecordedObject] = {}
    conditions = list(stated)
    states: list[int] = distinct.tolist()
    for key, stop in zip(states, stops.tolist(), strict=True):
        number, condition = divmod(key, len(conditions))
        each = conditions[condition]
        known = found.setdefault((number, each.version), RecordedObject())
        known.add(RecordedObject(stop, {each}))
    for (number, version), recorded in found.items():
        yield number, ObjectVersion(places[number], version), recorded


def states_of(
    objects: Iterable[ObjectVersion], sources: Sources
) -> dict[ObjectVersion, Conditions | ManifestError]:
    """Return the present state of each object, or why it is unknown."""
    wanted = list(objects)
    found = sync(object_states(sources, wanted, Pace(_CONCURRENT_CALLS)))
    return dict(zip(wanted, found, strict=True))


def with_states(table: References, states: Mapping[str, Conditions]) -> References:
    """Return references that state the conditions, and the lengths that follow from them.

    Parameters
    ----------
    table : References
        The references.
    states : mapping of str to Conditions
        Of objects, by path; they are for entries that state no version.
    """
    numbered = {number: states[path] for number, path in enumerate(table.paths) if path in states}
    columns = table.columns()
    sizes = np.zeros(len(table.paths) + 1, np.int64)  # the last one for rows without a path
    for number, state in numbered.items():
        sizes[number] = state.size or 0
    rest = sizes[np.maximum(columns.path_numbers, -1)] - columns.offsets
    has_none = (columns.lengths == TO_THE_END) & (columns.path_numbers >= 0) & (rest > 0)
    for extra, rows in table.extras():
        if extra.conditions.version is not None:  # which may have another size
            has_none[rows] = False
    lengths = np.where(has_none, rest, columns.lengths)
    described: dict[tuple[int, str | None], Conditions]
    described = {(number, None): state for number, state in numbered.items()}
    return table.replaced(lengths=lengths).with_conditions(described)


@dataclass(frozen=True)
class ChunkReader:
    """Reads the chunks of an array: those with a checksum must have it, others be decodable.

    Parameters
    ----------
    array : DeclaredArray
        The array.
    sources : Sources
        Where objects are.
    """

    array: DeclaredArray
    sources: Sources

    @functools.cached_property
    def _decoding(self) -> ChunkDecoding:
        return ChunkDecoding(self.array.metadata)

    def wrong(
        self, loaded: LoadedManifest, present: Mapping[ObjectVersion, ObjectVersion]
    ) -> dict[ObjectVersion, ManifestError]:
        """Return the objects that have a chunk that cannot be read, and the error of the first.

        Parameters
        ----------
        loaded : LoadedManifest
            The references.
        present : mapping of ObjectVersion to ObjectVersion
            Where the objects to read are now.
        """
        table = loaded.manifest
        rows = np.flatnonzero(table.columns().path_numbers >= 0)
        ranges = ranges_of(table, loaded.locations, rows)
        stated = (ObjectVersion(each.location, each.conditions.version) for each in ranges.objects)
        there = [present.get(each) for each in stated]
        is_read = np.array([each is not None for each in there], bool)[ranges.object_numbers]
        rows, ranges = rows[is_read], ranges.of_rows(np.flatnonzero(is_read))
        objects = [
            now and SourceObject(now.location, Conditions(version=now.version)) for now in there
        ]
        ranges = structs.replace(ranges, objects=objects)
        numbers = table.columns(rows).numbers
        checksums = {n: each.checksum for n, each in table.extras_of(rows.tolist())}
        failures: list[tuple[int, ManifestError]] = []

        def index_of(position: int) -> tuple[int, ...]:
            return grid_index(table.grid_shape, int(numbers[position]))

        def use(positions: Sequence[int], bodies: Sequence[memoryview]) -> None:
            for position, body in zip(positions, bodies, strict=True):
                check(position, body)

        def check(position: int, body: memoryview) -> None:
            checksum = checksums.get(position)
            try:
                if checksum is not None:
                    verify_checksum(checksum, body)
                elif (failure := self._decoding.failure(index_of(position), body)) is not None:
                    raise SourceChangedError(failure)
            except ManifestError as error:
                fail([position], error)

        def fail(positions: Sequence[int], error: ManifestError) -> None:
            failures.append((min(positions), error))

        sync(read_each(self.sources, ranges, use, fail))
        found: dict[ObjectVersion, ManifestError] = {}
        for position, error in sorted(failures, key=lambda each: each[0]):
            now = there[int(ranges.object_numbers[position])]
            assert now is not None
            chunk = format_canonical(index_of(position))
            found.setdefault(now, error.in_context(chunk=chunk))
        return found
