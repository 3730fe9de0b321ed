"""Declares the checksums of manifest documents that somebody has changed, or written without."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zarr_manifest.errors import InvalidConfigurationError, InvalidPathError, in_context
from zarr_manifest.format import ArrayMetadata, Limits, document_checksum, format_canonical, strict
from zarr_manifest.hierarchy import (
    CONCURRENCY,
    DeclaredArray,
    InspectedHierarchy,
    Node,
    Partition,
    fetch_document,
    no_hierarchy,
    partitions_to_read,
)
from zarr_manifest.inspection import Problem, check_document
from zarr_manifest.locations import StoreLocation
from zarr_manifest.showing import counted
from zarr_manifest.sources import Allow, in_order
from zarr_manifest.stores import StoreLike
from zarr_manifest.writing import Change, GuardedStore, guarded_store
from zarr_manifest.zarr_internals import sync


@dataclass(slots=True)
class AcceptanceReport:
    """What was accepted, or what is wrong with it.

    Parameters
    ----------
    documents : int
        Number of documents whose checksum was not declared before.
    arrays : list of str
        Paths of the arrays whose declaration was written.
    problems : list of Problem
        What is wrong with documents; if there is anything, nothing was written.

    Examples
    --------
    >>> print(AcceptanceReport(documents=2, arrays=["sst"]))
    2 documents accepted, 1 array written
    """

    documents: int = 0
    arrays: list[str] = field(default_factory=list[str])
    problems: list[Problem] = field(default_factory=list[Problem])

    def __str__(self) -> str:
        if self.problems:
            return "\n".join([*map(str, self.problems), counted(len(self.problems), "problem")])
        accepted = counted(self.documents, "document")
        return f"{accepted} accepted, {counted(len(self.arrays), 'array')} written"


def accept(
    location: StoreLike,
    arrays: Iterable[str],
    *,
    allow: Allow = None,
    limits: Limits | None = None,
    sole_writer: bool = False,
) -> AcceptanceReport:
    """Declare the checksums of manifest documents as they are now.

    For documents that somebody has edited, and for declarations without checksums. The documents
    are checked as by :func:`validate`; if something is wrong with one of them, nothing is
    written. Declarations keep the names of documents. Where a name contains the digest, a
    changed document is written again under its new name; what has the old name stays.

    All declarations are one change: readers see all of it or nothing.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    arrays : iterable of str
        Paths of the arrays.
    allow, limits
        As for :class:`ManifestStore`: documents outside the hierarchy are read where `allow`
        says so.
    sole_writer : bool
        Promise that nobody else writes there; see :func:`write_manifest`.

    Returns
    -------
    AcceptanceReport

    Raises
    ------
    SourceNotFoundError
        There is no hierarchy, or one of the arrays does not exist.
    InvalidConfigurationError
        An array declares no manifest documents.
    InvalidPathError
        A document is outside the hierarchy, and would need another name.
    WriteConflictError
        Another writer has changed an array in the meantime.
    ManifestError
        A declaration is not valid, or a document cannot be read. Nothing was declared.

    Examples
    --------
    >>> import pathlib, tempfile, zarr
    >>> import zarr_manifest as zm
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> options = {"shape": 4, "chunks": 2, "dtype": "u1"}
    >>> zm.create_array(root, "a", {"0": {"data": b"12"}}, inline=False, **options)
    >>> (document,) = root.glob("a/manifest-*.json")
    >>> _ = document.write_text(document.read_text().replace('"0"', '"1"'))
    >>> [problem.code for problem in zm.validate(root)]
    ['checksum_mismatch']
    >>> print(accept(root, ["a"]))
    1 document accepted, 1 array written
    >>> zarr.open_array(zm.ManifestStore(root), path="a")[:]
    array([ 0,  0, 49, 50], dtype=uint8)
    """
    hierarchy = InspectedHierarchy.open(location, allow=allow, limits=limits)
    change = Change(guarded_store(location, hierarchy.allow, sole_writer=sole_writer))
    paths = list(dict.fromkeys(path.strip("/") for path in arrays))
    change.read_many(paths)
    declared = [_declared(hierarchy, path, change.node(path)) for path in paths]
    report = AcceptanceReport()
    for array in declared:
        with in_context(array=array.path):
            documents = sync(_documents(hierarchy, change.store, array))
        report.problems += [problem for each in documents for problem in each.problems]
        changed = [each for each in documents if each.checksum != array.checksum_of(each.partition)]
        report.documents += len(changed)
        if changed or not array.configuration.has_checksums:
            metadata = change.node(array.path) or {}
            change.set(array.path, _with_checksums(metadata, array, documents))
    if report.problems:
        return AcceptanceReport(problems=report.problems)
    report.arrays = change.commit()
    return report


def _declared(
    hierarchy: InspectedHierarchy, path: str, metadata: dict[str, Any] | None
) -> DeclaredArray:
    """Return an array that declares manifest documents."""
    if metadata is None:
        remedy = "Name arrays by their paths in the hierarchy."
        raise no_hierarchy(hierarchy.store, what=f"array {path!r}", remedy=remedy)
    with in_context(array=path):
        array = strict(hierarchy.declaration(Node(path, metadata=metadata, is_own=True)))
        if array is None or isinstance(array.configuration.manifest, bytes):
            raise InvalidConfigurationError("the array declares no manifest documents")
    return array


class _Document(NamedTuple):
    """A document that is there, its checksum, and what is wrong with it."""

    partition: Partition
    checksum: str
    problems: list[Problem]


async def _documents(
    hierarchy: InspectedHierarchy, store: GuardedStore, array: DeclaredArray
) -> list[_Document]:
    """Return the documents of an array, which then have the names that their digests ask for."""
    inside = await partitions_to_read(array, hierarchy.store, hierarchy.limits)
    calls = (
        functools.partial(_document, hierarchy, store, array, partition)
        for partition in (*inside.partitions, *array.partitions_outside())
    )
    found = [each async for each in in_order(calls, CONCURRENCY)]
    return [each for each in found if each is not None]


async def _document(
    hierarchy: InspectedHierarchy, store: GuardedStore, array: DeclaredArray, partition: Partition
) -> _Document | None:
    stored = await fetch_document(array, partition, hierarchy.sources, hierarchy.limits)
    if stored is None:
        return None
    problems: list[Problem] = []
    if partition is None or array.has_partition(partition):
        check = functools.partial(check_document, array, partition, stored.body, hierarchy.limits)
        problems = (await asyncio.to_thread(check)).problems
    checksum = document_checksum(stored.body)
    before, after = array.document(partition), array.document(partition, checksum)
    if before != after and not problems:
        if not isinstance(after, StoreLocation):
            raise InvalidPathError(
                "the document is outside the hierarchy's own store, and cannot be written under "
                "the name that its digest asks for",
                location=str(before) if not isinstance(before, bytes) else None,
                remedy="Write it there yourself, and name its checksum in the declaration.",
            )
        await asyncio.to_thread(store.put, after.key, bytes(stored.body))
    return _Document(partition, checksum, problems)


def _with_checksums(
    metadata: dict[str, Any], array: DeclaredArray, documents: Iterable[_Document]
) -> dict[str, Any]:
    """Return metadata of an array whose declaration states the checksums of documents."""
    checksums = {each.partition: each.checksum for each in documents}
    stated: dict[str, Any] = {"checksum": checksums.get(None)}
    if array.partitions is not None:
        indices = sorted(index for index in checksums if index is not None)
        stated = {"partitions": {format_canonical(index): checksums[index] for index in indices}}
    return metadata | ArrayMetadata("", metadata).declaration_with(stated)
