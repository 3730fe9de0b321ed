"""Locate the bytes of a whole selection's chunks, in columns.

No Python loop over references. Imported with the first selection that is read together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field, structs

from zarr_manifest.format import NO_CONDITIONS, Conditions, number_chunks
from zarr_manifest.hierarchy.declared_array import DeclaredArray
from zarr_manifest.hierarchy.manifest_documents import (
    CONCURRENCY,
    LoadedManifest,
    ManifestDocuments,
)
from zarr_manifest.locations import Location
from zarr_manifest.manifest import EMPTY, INLINE, TO_THE_END, References
from zarr_manifest.sources import ManyRanges, SourceObject, in_order

_NONE = np.zeros(0, np.int64)
_NO_RANGES = ManyRanges([], _NONE, _NONE, _NONE)


class LocatedChunks(Struct):
    """The location of each chunk's bytes. Chunks are identified by position in the selection.

    Parameters
    ----------
    ranged : ndarray of int64
        The chunks whose bytes are ranges of objects.
    ranges : ManyRanges
        The ranges, one for each of those.
    inline : dict of int to memoryview
        The chunks whose bytes the manifest holds.
    missing, empty : list of int
        The chunks that the manifest does not name, and those that it declares empty.
    alone : list of int
        The chunks that cannot be read with others: their entry does not say where it ends, or
        has more bytes than are accepted without looking at the chunk.
    checksums : dict of int to str
        What the bytes of chunks must match.
    """

    ranged: npt.NDArray[np.int64] = _NONE
    ranges: ManyRanges = _NO_RANGES
    inline: dict[int, memoryview] = field(default_factory=dict[int, memoryview])
    missing: list[int] = field(default_factory=list[int])
    empty: list[int] = field(default_factory=list[int])
    alone: list[int] = field(default_factory=list[int])
    checksums: dict[int, str] = field(default_factory=dict[int, str])

    def with_bodies(self, bodies: Mapping[int, bytes]) -> LocatedChunks:
        """Return the same chunks, given the bytes of some, which match their checksums."""
        if not bodies:
            return self
        rows = np.flatnonzero(~np.isin(self.ranged, list(bodies)))
        return structs.replace(
            self,
            ranged=self.ranged[rows],
            ranges=self.ranges.of_rows(rows),
            inline=self.inline | {n: memoryview(body) for n, body in bodies.items()},
            checksums={n: c for n, c in self.checksums.items() if n not in bodies},
        )


async def locate_chunks(
    array: DeclaredArray,
    documents: ManifestDocuments,
    indices: npt.NDArray[np.int64],
    *,
    longest: int,
) -> LocatedChunks:
    """Locate chunks, given by their grid indices (chunks, dimensions).

    Parameters
    ----------
    array : DeclaredArray
        The array.
    documents : ManifestDocuments
        Its manifest; the documents of a partitioned one are loaded several at a time.
    indices : ndarray of int64
        Within the chunk grid.
    longest : int
        Entries of more bytes than this are left to be read alone.

    Raises
    ------
    ManifestError
        A document cannot be loaded, or refers to locations that are not authorised.
    """
    look_up = _LookUp(longest)
    calls: list[Callable[[], Coroutine[Any, Any, LoadedManifest]]] = []
    waiting: list[npt.NDArray[np.int64]] = []
    for positions in _by_document(array, indices):
        index = tuple(indices[positions[0]].tolist())
        known = documents.known(index)
        if known is None:
            calls.append(functools.partial(documents.owner, index))
            waiting.append(positions)
        else:
            look_up.add(known, positions, indices)
    turn = iter(waiting)
    async for loaded in in_order(calls, CONCURRENCY):
        look_up.add(documents.authorise(loaded), next(turn), indices)
    return look_up.finished()


def ranges_of(
    table: References, locations: Sequence[Location], rows: npt.NDArray[np.int64]
) -> ManyRanges:
    """Return the ranges that rows refer to; one to the end of its object stops at TO_THE_END.

    Parameters
    ----------
    table : References
        The references.
    locations : sequence of Location
        Where their paths lead.
    rows : ndarray of int64
        Those of chunks that have a path.
    """
    columns, objects = table.columns(rows), dict[SourceObject, int]()
    conditions = {i: each.conditions for i, each in table.extras_of(rows.tolist())}
    numbers = _object_numbers(objects, locations, columns.path_numbers, conditions)
    stops = np.where(columns.lengths == TO_THE_END, TO_THE_END, columns.offsets + columns.lengths)
    return ManyRanges(list(objects), numbers, columns.offsets, stops)


def _by_document(
    array: DeclaredArray, indices: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the positions of the chunks of each document."""
    positions = np.arange(len(indices))
    if array.partitions is None:
        yield positions
        return
    numbers = array.partitions.owner_numbers(indices)
    order = np.argsort(numbers, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


class _LookUp(Struct):
    """Collects the references to chunks, document by document."""

    longest: int
    found: LocatedChunks = field(default_factory=LocatedChunks)
    objects: dict[SourceObject, int] = field(default_factory=dict[SourceObject, int])
    columns: list[tuple[npt.NDArray[np.int64], ...]] = field(
        default_factory=lambda: [(_NONE, _NONE, _NONE, _NONE)]
    )

    def add(
        self,
        loaded: LoadedManifest,
        positions: npt.NDArray[np.int64],
        indices: npt.NDArray[np.int64],
    ) -> None:
        """Look up the chunks for which one document is responsible."""
        table, found = loaded.manifest, self.found
        rows = table.rows(number_chunks(indices[positions], table.grid_shape))
        found.missing += positions[rows < 0].tolist()
        positions, rows = positions[rows >= 0], rows[rows >= 0]
        ranges = table.columns(rows)
        offsets, lengths, path_numbers = ranges.offsets, ranges.lengths, ranges.path_numbers
        found.empty += positions[path_numbers == EMPTY].tolist()
        conditions: dict[int, Conditions] = {}
        for i, extra in table.extras_of(rows.tolist()):
            position = int(positions[i])
            if extra.checksum is not None:
                found.checksums[position] = extra.checksum
            if path_numbers[i] == INLINE:
                assert extra.data is not None
                found.inline[position] = memoryview(extra.data)
            elif extra.conditions:
                conditions[i] = extra.conditions
        referring = path_numbers >= 0
        together = referring & (lengths != TO_THE_END) & (lengths <= self.longest)
        found.alone += positions[referring & ~together].tolist()
        numbers = _object_numbers(self.objects, loaded.locations, path_numbers, conditions)
        self.columns.append(
            tuple(
                np.asarray(column[together], np.int64)
                for column in (positions, numbers, offsets, offsets + lengths)
            )
        )

    def finished(self) -> LocatedChunks:
        """Return everything that has been looked up."""
        columns = [np.concatenate(parts) for parts in zip(*self.columns, strict=True)]
        self.found.ranged = columns[0]
        self.found.ranges = ManyRanges(list(self.objects), *columns[1:])
        return self.found


def _object_numbers(
    objects: dict[SourceObject, int],
    locations: Sequence[Location],
    path_numbers: npt.NDArray[Any],
    conditions: Mapping[int, Conditions],
) -> npt.NDArray[np.int64]:
    """Return which object each row refers to, given the conditions of some; number new ones."""

    def number(path_number: int, stated: Conditions) -> int:
        return objects.setdefault(SourceObject(locations[path_number], stated), len(objects))

    distinct, inverse = np.unique(path_numbers, return_inverse=True)
    used: list[int] = distinct.tolist()
    known = [number(each, NO_CONDITIONS) if each >= 0 else -1 for each in used]
    numbers = np.array(known, np.int64)[inverse]
    for i, stated in conditions.items():
        numbers[i] = number(int(path_numbers[i]), stated)
    return numbers
