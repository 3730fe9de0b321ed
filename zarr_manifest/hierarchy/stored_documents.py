"""The bytes of manifest documents: fetched as stored, and compared with their checksums.

A cache may answer with an earlier document of the same name. One with other bytes than the
declaration says is asked for once more, past caches, and is then an error: it would read as fill
values where it lacks entries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from zarr_manifest.errors import (
    ChecksumMismatchError,
    LimitExceededError,
    ManifestError,
    SourceNotFoundError,
)
from zarr_manifest.format import Body, Limits, VerifiedBody, limit_exceeded, verify_document
from zarr_manifest.hierarchy.declared_array import DeclaredArray
from zarr_manifest.hierarchy.partition_documents import Partition, lost_document
from zarr_manifest.locations import Location
from zarr_manifest.sources import FileBody, SourceRange, Sources


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
    body = await _fetch(array, partition, limits, sources, sources.fetch)
    found = _stored(array, partition, body)
    if found is None or found.mismatch is None:
        return found
    body = await _fetch(array, partition, limits, sources, sources.fetch, past_caches=True)
    return _stored(array, partition, body)


def _stored(
    array: DeclaredArray, partition: Partition, body: bytes | memoryview | None
) -> StoredDocument | None:
    if body is None:
        return None
    try:
        verify_document(body, array.checksum_of(partition))
    except ChecksumMismatchError as error:
        return StoredDocument(body, error)
    return StoredDocument(body)


async def open_document(
    array: DeclaredArray,
    partition: Partition,
    sources: Sources,
    limits: Limits,
    *,
    past_caches: bool = False,
) -> bytes | memoryview | FileBody | None:
    """Return the document of a partition, whose bytes are not compared with its checksum.

    If it is a large file, that is read as it is used.

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
    past_caches : bool
        Whether caches in between must ask the server.

    Raises
    ------
    ManifestError
        As of :func:`fetch_document`.
    """
    return await _fetch(
        array, partition, limits, sources, sources.fetch_lazily, past_caches=past_caches
    )


async def _fetch[T](
    array: DeclaredArray,
    partition: Partition,
    limits: Limits,
    sources: Sources,
    fetch: Callable[[Location, SourceRange], Awaitable[T]],
    *,
    past_caches: bool = False,
) -> bytes | T | None:
    location = array.document(partition)
    if isinstance(location, bytes):
        return location
    sources.check([location])
    whole = SourceRange(0, None, False, limits.manifest_bytes, past_caches)
    try:
        return await fetch(location, whole)
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
