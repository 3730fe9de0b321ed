"""Records checksums and entity tags where manifests have none, as one change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from zarr.abc.store import Store

from zarr_manifest.conversion.renewal.renewing import Renewal, RenewalReport, own_place
from zarr_manifest.errors import ManifestError
from zarr_manifest.format import Limits, compute_checksum, format_canonical, grid_indices
from zarr_manifest.hierarchy import DeclaredArray, LoadedManifest, locate_in
from zarr_manifest.inspection import parts_of
from zarr_manifest.manifest import EMPTY, References
from zarr_manifest.sources import WHOLE, Allow, RangeError, Sources, read_ranges, source_range
from zarr_manifest.zarr_internals import sync

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# Chunks, and bytes of them, that are read together.
_MOST_CHUNKS = 2**15
_MOST_BYTES = 64 * 1024 * 1024


def complete(
    location: str | Path | ObjectStore | Store,
    arrays: Iterable[str] | None = None,
    *,
    checksum: str | None = "crc32c",
    etags: bool = False,
    allow: Allow = None,
    limits: Limits | None = None,
    sole_writer: bool = False,
) -> RenewalReport:
    """Record checksums of chunks and states of objects where manifests have none.

    What is recorded is what is there now: :func:`zarr_manifest.verify` says whether that is still
    what it was. Objects that differ from what is recorded of them are refused, and keep that.
    All is one change: readers see all of it or nothing. Annotations of entries are not kept.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    arrays : iterable of str, optional
        Paths of arrays; all by default.
    checksum : str or None
        Algorithm of the checksums of chunks that have none, all of which are read; None to add
        none.
    etags : bool
        Whether to record the present state of objects of which neither a strong entity tag nor a
        version is recorded: where there is a tag, that and the size, and else the time.
    allow, limits
        As for :class:`ManifestStore`: sources are read where `allow` says so.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.

    Returns
    -------
    RenewalReport

    Raises
    ------
    WriteConflictError
        Another writer has changed the hierarchy in the meantime; nothing was written.
    ManifestError
        There is no hierarchy or array, or a chunk cannot be read; nothing was written.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> import zarr_manifest as zm
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> zm.create_array(root, "a", {"0": {"data": b"12"}}, shape=2, chunks=2, dtype="u1")
    >>> print(complete(root))
    0 objects checked, 1 array written
    >>> zm.entries(zarr.open_array(zm.ManifestStore(root), path="a"))[0]["checksum"]
    'crc32c:7355c460'
    """
    renewal = Renewal.open(location, arrays, allow=allow, limits=limits, sole_writer=sole_writer)
    if etags:
        renewal.check(
            lambda _, stated: not all(each.are_exact for each in stated.conditions),
            own_place,
            lambda stated, now, _: stated.violation(now),
        )
    if checksum is not None:
        added = _Checksums(renewal.hierarchy.sources, checksum)
        renewal.adds, renewal.add = added.are_missing, added.add
    return renewal.write()


@dataclass(frozen=True, slots=True)
class _Checksums:
    """Computes the checksums that references lack."""

    sources: Sources
    algorithm: str

    def are_missing(self, loaded: LoadedManifest) -> bool:
        """Whether a chunk in a document has no checksum."""
        return len(_without_checksum(loaded.manifest)) > 0

    def add(self, array: DeclaredArray, loaded: LoadedManifest) -> References:
        """Return the references of a document, all with checksums."""
        table, found = loaded.manifest, dict[int, str]()
        for rows in _batches(table, _without_checksum(table)):
            indices = grid_indices(table.grid_shape, table.columns(rows).numbers)
            reading = _ChecksumReading(self, loaded, rows)
            try:
                sync(reading.read(indices))
            except RangeError as failed:
                position = int(reading.ranged[failed.row])
                chunk = format_canonical(tuple(indices[position].tolist()))
                error = failed.error.in_context(array=array.path, chunk=chunk)
                raise error from failed.error.__cause__
            except ManifestError as error:
                raise error.in_context(array=array.path) from error.__cause__
            numbers = rows.tolist()
            found |= {numbers[n]: checksum for n, checksum in reading.checksums.items()}
        return table.with_checksums(found)


@dataclass(slots=True)
class _ChecksumReading:
    """Reads some chunks of a document, identified by their positions."""

    added: _Checksums
    loaded: LoadedManifest
    rows: npt.NDArray[np.int64]
    checksums: dict[int, str] = field(default_factory=dict[int, str])
    ranged: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    async def read(self, indices: npt.NDArray[np.int64]) -> None:
        located = locate_in(self.loaded, indices, longest=2**63 - 1)
        for position, body in located.inline.items():
            self._take(position, body)
        self.ranged = located.ranged
        await read_ranges(self.added.sources, located.ranges, self)
        for position in located.alone:
            row = self.loaded.manifest.row(int(self.rows[position]))
            at = self.loaded.locations[row.path_number]
            span = source_range(row.offset, row.length, WHOLE)
            self._take(position, await self.added.sources.fetch(at, span, row.conditions))

    def destination(self, row: int) -> memoryview | None:
        return None

    def receive(self, rows: Sequence[int], bodies: Sequence[memoryview]) -> None:
        for row, body in zip(rows, bodies, strict=True):
            self._take(int(self.ranged[row]), body)

    def _take(self, position: int, body: memoryview) -> None:
        self.checksums[position] = compute_checksum(self.added.algorithm, body)


def _without_checksum(table: References) -> npt.NDArray[np.int64]:
    """Return the rows of chunks that have bytes, and no checksum."""
    is_without = table.columns().path_numbers != EMPTY
    for extra, rows in table.extras():
        if extra.checksum is not None:
            is_without[rows] = False
    return np.flatnonzero(is_without)


def _batches(table: References, rows: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Return rows that are read together."""
    sizes = np.maximum(table.columns(rows).lengths, 0) + _MOST_BYTES // _MOST_CHUNKS
    return (rows[first:last] for first, last in parts_of(sizes, _MOST_BYTES))
