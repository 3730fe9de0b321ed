"""Records checksums and entity tags where manifests have none, as one change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.renewal.renewing import Renewal, RenewalReport, own_place
from zarr_manifest.errors import ManifestError
from zarr_manifest.format import Limits, compute_checksum, format_canonical, grid_index
from zarr_manifest.hierarchy import DeclaredArray, LoadedManifest, ranges_of
from zarr_manifest.manifest import EMPTY, INLINE, References
from zarr_manifest.sources import Allow, Sources, read_each
from zarr_manifest.stores import StoreLike
from zarr_manifest.zarr_internals import sync


def complete(
    location: StoreLike,
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
        return len(rows_without_checksum(loaded.manifest)) > 0

    def add(self, array: DeclaredArray, loaded: LoadedManifest) -> References:
        """Return the references of a document, all with checksums."""
        table, found = loaded.manifest, dict[int, str]()
        rows = rows_without_checksum(table)
        is_inline = table.columns(rows).path_numbers == INLINE
        for row in rows[is_inline].tolist():
            found[row] = compute_checksum(self.algorithm, table.row(row).data or b"")
        rows = rows[~is_inline]

        def use(positions: Sequence[int], bodies: Sequence[memoryview]) -> None:
            for position, body in zip(positions, bodies, strict=True):
                found[int(rows[position])] = compute_checksum(self.algorithm, body)

        def fail(positions: Sequence[int], error: ManifestError) -> None:
            index = grid_index(table.grid_shape, int(table.columns(rows).numbers[positions[0]]))
            chunk = format_canonical(index)
            raise error.in_context(array=array.path, chunk=chunk) from error.__cause__

        sync(read_each(self.sources, ranges_of(table, loaded.locations, rows), use, fail))
        return table.with_checksums(found)


def rows_without_checksum(table: References) -> npt.NDArray[np.int64]:
    """Return the rows of chunks that have bytes, and no checksum."""
    is_without = table.columns().path_numbers != EMPTY
    for extra, rows in table.extras():
        if extra.checksum is not None:
            is_without[rows] = False
    return np.flatnonzero(is_without)
