"""The manifest documents of an array as they are stored: which there are, and their bytes.

The declaration may say which partitions have a document. If not, and if the store can be listed,
it says which documents exist; otherwise they are asked for one by one. A short declaration may have
billions of partitions: more than a limit are asked for only if they are known to exist.

A cache may answer with an earlier document of the same name. One with other bytes than the
declaration says is asked for once more, past caches, and is then an error: it would read as fill
values where it lacks entries.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import Struct
from zarr.abc.store import Store

from zarr_manifest.errors import (
    Advice,
    ChecksumMismatchError,
    LimitExceededError,
    ManifestError,
    ManifestNotFoundError,
    Setting,
    SourceNotFoundError,
)
from zarr_manifest.format import (
    DIGEST_PATTERN,
    DIGEST_PLACEHOLDER,
    PLACEHOLDER,
    Body,
    Limits,
    Partitions,
    VerifiedBody,
    document_reference,
    limit_exceeded,
    parse_canonical,
    verify_document,
)
from zarr_manifest.hierarchy.declared_array import DeclaredArray
from zarr_manifest.locations import Location, StoreLocation
from zarr_manifest.showing import counted
from zarr_manifest.sources import SourceRange, Sources
from zarr_manifest.stores import can_list, list_inside

# Which documents there are -----------------------------------------------------

type Partition = tuple[int, ...] | None

# So few documents are asked for without listing them.
_FEW = 64

# Texts that a key cannot contain by chance.
_MARKS = {
    PLACEHOLDER: "the-place-of-the-partition",
    DIGEST_PLACEHOLDER: "the-place-of-the-digest",
}


class PartitionKeys(Struct, frozen=True, dict=True):
    """The keys of a partitioned manifest's documents in the hierarchy's own store.

    Parameters
    ----------
    parts : tuple of str
        What makes up a key: every other part is a placeholder, the first part is none.
    ndim : int
        Number of dimensions of the array.

    Examples
    --------
    >>> keys = PartitionKeys(("a/manifest/", "{partition}", "-", "{digest}", ".json"), 2)
    >>> keys.partition("a/manifest/0.3-44136fa355b3678a.json"), keys.partition("a/zarr.json")
    ((0, 3), None)
    >>> keys.key((0, 3), "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")
    'a/manifest/0.3-44136fa355b3678a.json'
    """

    parts: tuple[str, ...]
    ndim: int

    @classmethod
    def of(cls, array: DeclaredArray) -> PartitionKeys | None:
        """Return the keys for an array; None if its documents are not in that store."""
        reference = array.configuration.manifest
        assert isinstance(reference, str)  # an inline manifest has no partitions
        for placeholder, mark in _MARKS.items():
            reference = reference.replace(placeholder, mark)
        location = array.own.resolve(reference)
        if not isinstance(location, StoreLocation):
            return None
        placeholders = {mark: placeholder for placeholder, mark in _MARKS.items()}
        parts = re.split(f"({'|'.join(placeholders)})", location.key)
        return cls(tuple(placeholders.get(part, part) for part in parts), array.ndim)

    @property
    def directory(self) -> str:
        """The directory that contains all documents."""
        return self.parts[0].rpartition("/")[0]

    def key(self, partition: Sequence[int], checksum: str | None = None) -> str:
        """Return the key of the document of a partition, with this checksum if names have it."""
        return "".join(
            document_reference(part, partition, checksum) if number % 2 else part
            for number, part in enumerate(self.parts)
        )

    def partition(self, key: str) -> tuple[int, ...] | None:
        """Return the partition whose document a key names; None if it names none."""
        found = self._pattern.fullmatch(key)
        return None if found is None else parse_canonical(found["partition"], self.ndim)

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        patterns = {PLACEHOLDER: "(?P<partition>[0-9.]+)", DIGEST_PLACEHOLDER: DIGEST_PATTERN}
        return re.compile(
            "".join(
                patterns[part] if number % 2 else re.escape(part)
                for number, part in enumerate(self.parts)
            )
        )


class PartitionsToRead(Struct, frozen=True):
    """The partitions that may have a document, in C order.

    Parameters
    ----------
    partitions : iterable of Partition
        Only None for a manifest that is not partitioned.
    without_document : bool
        Whether others are known to have none.
    """

    partitions: Iterable[Partition]
    without_document: bool = False


async def partitions_to_read(
    array: DeclaredArray, store: Store, limits: Limits
) -> PartitionsToRead:
    """Return the partitions of a manifest whose documents must be read to know all of it.

    Parameters
    ----------
    array : DeclaredArray
        The array.
    store : Store
        The hierarchy's own store.
    limits : Limits
        How many documents may be asked for one by one.

    Raises
    ------
    LimitExceededError
        There are more partitions, and their documents cannot be listed.
    """
    if array.partitions is None:
        return PartitionsToRead((None,))
    is_declared = array.configuration.partitions is not None
    partitions = _named(array) if array.named is not None else array.partitions
    number = array.partitions.total if isinstance(partitions, Partitions) else len(partitions)
    keys = PartitionKeys.of(array)
    is_many = number > (limits.partitions if is_declared else min(_FEW, limits.partitions))
    if is_many and keys is not None and can_list(store):
        try:
            found = await _listed(array, store, keys)
        except ManifestError:
            pass  # it may still be possible to read them
        else:
            if is_declared:
                readable = [index for index in found if array.has_document(index)]
                return PartitionsToRead(_with_first_lost(partitions, readable))
            return PartitionsToRead(found, len(found) < number)
    _require_few(array, number, limits)
    return PartitionsToRead(partitions)


def _named(array: DeclaredArray) -> list[tuple[int, ...]]:
    """Return the partitions that the declaration names, in C order."""
    indices = (parse_canonical(name, array.ndim) for name in array.named or ())
    return sorted(index for index in indices if index is not None and array.has_partition(index))


def _with_first_lost(
    declared: Iterable[tuple[int, ...]], found: Sequence[tuple[int, ...]]
) -> Sequence[tuple[int, ...]]:
    """Add the first partition whose document is lost, so that reading all raises."""
    present = frozenset(found)
    lost = next((index for index in declared if index not in present), None)
    return found if lost is None else sorted([*found, lost])


def lost_document(partition: Partition, location: str | None) -> ManifestNotFoundError:
    """Return the error for a document that the declaration names, and that does not exist."""
    if partition is None:
        return ManifestNotFoundError(
            "the array declares a manifest that does not exist",
            location=location,
            remedy="The array cannot be read without it; restore it at this location.",
        )
    return ManifestNotFoundError(
        "the array declares that this partition of its manifest has a document, but there is none",
        location=location,
        remedy="Restore it at this location; or open the hierarchy again, if the manifest has been "
        "replaced since.",
    )


def _require_few(array: DeclaredArray, number: int, limits: Limits) -> None:
    if number > limits.partitions:
        raise LimitExceededError(
            f"the manifest has {counted(number, 'partition')}, all of which are "
            f"needed; the limit is {limits.partitions:,}",
            array=array.path,
            remedy=Advice(
                "Raise ",
                Setting("limits", "partitions", "Limits(partitions=...)"),
                " if you can wait for all of them.",
            ),
        )


async def _listed(array: DeclaredArray, store: Store, keys: PartitionKeys) -> list[tuple[int, ...]]:
    """Return the partitions that have a document in the store."""
    listing = await list_inside(store, f"{keys.directory}/" if keys.directory else "")
    # A link that leads out of the hierarchy is a document, too, which is refused when it is read.
    found: set[tuple[int, ...]] = set()
    for key in (*listing.keys, *listing.links):
        index = keys.partition(key)
        if index is None or not array.has_partition(index):
            continue
        # Documents of other digests belong to earlier manifests.
        if keys.key(index, array.checksum_of(index)) == key:
            found.add(index)
    return sorted(found)


# Their bytes -------------------------------------------------------------------


class StoredDocument(Struct, frozen=True):
    """A manifest document as stored.

    Parameters
    ----------
    body : bytes or memoryview
        Its bytes.
    mismatch : ChecksumMismatchError or None
        The error if they are not those that the declaration says.
    """

    body: bytes | memoryview
    mismatch: ChecksumMismatchError | None = None


async def fetch_document(
    array: DeclaredArray, partition: Partition, sources: Sources, limits: Limits
) -> StoredDocument | None:
    """Return the document of a partition as stored; None if the partition has none.

    Raises
    ------
    ManifestError
        One of ``manifest_not_found``, ``location_not_allowed``, or an error of
        reading a source.
    """

    async def fetch(past_caches: bool) -> StoredDocument | None:
        body = await open_document(array, partition, sources, limits, Sources.fetch, past_caches)
        if body is None:
            return None
        try:
            verify_document(body, array.checksum_of(partition))
        except ChecksumMismatchError as error:
            if not past_caches:
                raise
            return StoredDocument(body, error)
        return StoredDocument(body)

    return await past_stale_caches(fetch)


async def past_stale_caches[T](read: Callable[[bool], Awaitable[T]]) -> T:
    """Return what is read of a document, past caches if they have another than is declared."""
    try:
        return await read(False)
    except ChecksumMismatchError:
        return await read(True)


async def open_document[T](
    array: DeclaredArray,
    partition: Partition,
    sources: Sources,
    limits: Limits,
    fetch: Callable[[Sources, Location, SourceRange], Awaitable[T]],
    past_caches: bool,
) -> bytes | T | None:
    """Return the document of a partition, whose bytes are not compared with its checksum.

    Parameters
    ----------
    array : DeclaredArray
        The array.
    partition : Partition
        Which of its documents.
    sources : Sources
        Where it comes from.
    limits : Limits
        Larger documents are rejected.
    fetch : callable
        ``Sources.fetch``; or ``Sources.fetch_lazily``, to read a large file as it is used.
    past_caches : bool
        Whether caches in between must ask the server.

    Raises
    ------
    ManifestError
        As of :func:`fetch_document`.
    """
    location = array.document(partition)
    if isinstance(location, bytes):
        return location
    sources.check([location])
    whole = SourceRange(0, None, False, limits.manifest_bytes, past_caches)
    try:
        return await fetch(sources, location, whole)
    except LimitExceededError as error:
        raise limit_exceeded(
            f"the manifest is too large: {error.problem}", limits.manifest_bytes, "manifest_bytes"
        ).in_context(location=error.location) from None
    except SourceNotFoundError as error:
        if not array.has_document(partition):
            return None
        raise lost_document(partition, error.location) from error


def with_checksum[T](body: Body, checksum: str | None, interpret: Callable[[Body], T]) -> T:
    """Return what a function makes of a document, if it has the checksum that is declared.

    Bytes that are read as they are used are hashed meanwhile, not read before.

    Parameters
    ----------
    body : bytes, memoryview or LazyBytes
        The document as stored.
    checksum : str or None
        Its checksum; None if none is declared.
    interpret : callable
        Takes the document.

    Raises
    ------
    ChecksumMismatchError
        The document has another checksum, whatever else is wrong with it.
    ManifestError
        Of `interpret`.
    """
    if isinstance(body, bytes | memoryview):
        verify_document(body, checksum)
        return interpret(body)
    if checksum is None:
        return interpret(body)
    verified = VerifiedBody(body, checksum)
    try:
        found = interpret(verified)
    except ManifestError:
        verified.verify()
        raise
    verified.verify()
    return found
