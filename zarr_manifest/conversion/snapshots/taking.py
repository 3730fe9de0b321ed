"""Snapshots: a hierarchy as it is now, whose references hold for nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zarr_manifest.conversion.nodes import ConversionReport, Progress
from zarr_manifest.conversion.snapshots.copies import Copies
from zarr_manifest.conversion.snapshots.freezing import Freezing
from zarr_manifest.conversion.target import OptionalBase, PartitionShape, write_hierarchy
from zarr_manifest.errors import Advice, Setting
from zarr_manifest.format import Limits
from zarr_manifest.hierarchy import InspectedHierarchy
from zarr_manifest.sources import Allow, access_by_prefix
from zarr_manifest.stores import StoreLike
from zarr_manifest.writing import chunk_place, guarded_store


def snapshot(
    source: StoreLike,
    target: StoreLike,
    *,
    checksum: str | None = None,
    copy: bool = False,
    chunks_in: StoreLike | None = None,
    codecs: Sequence[str | Mapping[str, Any]] = (),
    partition_shape: PartitionShape = None,
    inline_below: int | None = None,
    overwrite: bool = False,
    lock: bool = True,
    allow: Allow = None,
    limits: Limits | None = None,
    sole_writer: bool = False,
    progress: Progress | None = None,
) -> ConversionReport:
    """Freeze a hierarchy: write one that reads as this one does now, or raises.

    Each chunk becomes a reference with the length, the size, and the entity tag of its object,
    and its version in a bucket that keeps versions. If the object is written later, the old
    version is read, or reading raises ``source_changed``; where only a checksum tells that,
    ``checksum_mismatch``. Inline data, and empty and missing chunks stay so.

    All that the snapshot refers to was there at the same time. If something changes while it is
    taken, nothing is written, and the error names it.

    Parameters
    ----------
    source : str, Path, obstore store or zarr Store
        Any hierarchy: with manifest arrays, native arrays, and nodes of Zarr v2. One with native
        arrays must be able to list its objects, which is done twice.
    target : str, Path, obstore store or zarr Store
        Where the snapshot is written. Its readers must be allowed to read what it refers to.
    checksum : {"crc32c", "crc32", "md5", "sha256", "sha512"}, optional
        Record a checksum of every chunk that has none, for which it is read. Needed where an
        object has nothing but a time, as local files do: another version may have the same time.
    copy : bool
        Copy the bytes, too, as objects that are named by their digest: equal ones once, small
        ones into the manifest.
    chunks_in : str, Path, obstore store or zarr Store, optional
        Where they are copied to instead of `target`, to be shared by several snapshots: a chunk
        that is there is not written again, and not read if the source states its sha256, or if
        an earlier snapshot copied it from an object of the same version or strong entity tag.
        It must have a URL, and readers must allow it.
    codecs, partition_shape, inline_below, overwrite, lock, sole_writer, progress
        How it is written; see :func:`zarr_manifest.conversion.write_hierarchy`. Partitioned
        manifests keep their partitions.
    allow : mapping of str to Access, or iterable of str, optional
        How URLs are accessed, by prefix, as for :class:`ManifestStore`. Objects outside the
        source are asked for their state, and must be allowed.
    limits : Limits, optional
        As for :class:`ManifestStore`, for the manifests of the source.

    Returns
    -------
    ConversionReport

    Raises
    ------
    SourceChangedError
        Something has changed while the snapshot was taken, or since a manifest was written.
        Nothing was written.
    NotConvertibleError
        An object has nothing but a time, and no checksums were asked for. Nothing was written.
    LocationNotAllowedError
        The source refers to objects that are not allowed. Nothing was written.
    WriteConflictError
        There is already a hierarchy, or another writer.
    ManifestError
        Something cannot be read.

    Examples
    --------
    >>> import contextlib, pathlib, tempfile, zarr
    >>> import zarr_manifest as zm
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> options = {"shape": 4, "chunks": 2, "dtype": "i2", "compressors": None}
    >>> live = zarr.create_array(root / "live.zarr", **options)
    >>> live[:] = 1
    >>> print(snapshot(root / "live.zarr", root / "snap.zarr", checksum="sha256"))
    0 groups, 1 array, 2 references to 8 B
    >>> live[:2] = 2
    >>> frozen = zarr.open(zm.ManifestStore(root / "snap.zarr", allow=[f"{root}/"]), mode="r")
    >>> frozen[2:].tolist()
    [1, 1]
    >>> with contextlib.suppress(zm.ManifestError):
    ...     frozen[:2]
    """
    if chunks_in is not None and not copy:
        raise ValueError(
            Advice("chunks are put elsewhere only if they are copied: add ", Setting("copy", True))
        )
    access = access_by_prefix(allow)
    hierarchy = InspectedHierarchy.open(source, allow=access, limits=limits)
    base, copies = None, None
    if chunks_in is not None:
        place, _ = chunk_place(chunks_in, access, sole_writer=sole_writer)
        copies = Copies(place.store, "", f"{place.url}/", is_shared=True)
    elif copy:
        own = guarded_store(target, access, sole_writer=sole_writer)
        copies = Copies(own, "chunks/", "chunks/")
    elif (root := hierarchy.sources.root) is not None and not root.query:
        # So documents are the same wherever they are written, and moved to.
        base = OptionalBase(f"{root.url.rstrip('/')}/")
    return write_hierarchy(
        target,
        Freezing(hierarchy, source, checksum, copies).nodes(),
        base=base,
        codecs=codecs,
        partition_shape=partition_shape,
        inline_below=inline_below,
        overwrite=overwrite,
        progress=progress,
        lock=lock,
        sole_writer=sole_writer,
        allow=access,
    )
