"""Records checksums and entity tags where manifests have none, as one change."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.renewal.renewing import Renewal, RenewalReport, own_place
from zarr_manifest.errors import ManifestError, in_context
from zarr_manifest.format import Limits, compute_checksum, format_canonical, grid_index
from zarr_manifest.hierarchy import DeclaredArray, LoadedManifest, ranges_of
from zarr_manifest.locations import Location
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
        renewal.adds = lambda loaded: len(_rows_without_checksum(loaded.manifest)) > 0
        renewal.add = partial(_completed, renewal.hierarchy.sources, checksum)
    return renewal.write()


def _completed(
    sources: Sources, algorithm: str, array: DeclaredArray, loaded: LoadedManifest
) -> References:
    """Return the references of a document, all with checksums."""
    table, places = loaded.manifest, loaded.locations
    with in_context(array=array.path):
        return with_checksums(table, places, sources, algorithm, of_inline=True)


def _rows_without_checksum(table: References) -> npt.NDArray[np.int64]:
    """Return the rows of chunks that have bytes, and no checksum."""
    is_without = table.columns().path_numbers != EMPTY
    for extra, rows in table.extras():
        if extra.checksum is not None:
            is_without[rows] = False
    return np.flatnonzero(is_without)


def with_checksums(
    table: References,
    locations: Sequence[Location],
    sources: Sources,
    algorithm: str,
    run: Callable[[Coroutine[Any, Any, None]], None] = sync,
    *,
    of_inline: bool = False,
) -> References:
    """Return references with checksums of the chunks in objects that have none.

    Parameters
    ----------
    table : References
        The references.
    locations : sequence of Location
        Where their paths lead.
    sources : Sources
        Reads the chunks.
    algorithm : str
        ``"crc32c"``, ``"sha256"``, …
    run : callable
        Runs a coroutine.
    of_inline : bool
        Whether chunks that are inline get checksums, too.

    Raises
    ------
    ManifestError
        A chunk cannot be read.
    """
    rows = _rows_without_checksum(table)
    is_inline = table.columns(rows).path_numbers == INLINE
    inline: list[int] = rows[is_inline].tolist() if of_inline else []
    found = {row: compute_checksum(algorithm, table.row(row).data or b"") for row in inline}
    rows = rows[~is_inline]

    def use(positions: Sequence[int], bodies: Sequence[memoryview]) -> None:
        for position, body in zip(positions, bodies, strict=True):
            found[int(rows[position])] = compute_checksum(algorithm, body)

    def fail(positions: Sequence[int], error: ManifestError) -> None:
        index = grid_index(table.grid_shape, int(table.columns(rows).numbers[positions[0]]))
        raise error.in_context(chunk=format_canonical(index)) from error.__cause__

    run(read_each(sources, ranges_of(table, locations, rows), use, fail))
    return table.with_checksums(dict(sorted(found.items())))
