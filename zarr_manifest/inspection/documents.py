"""The manifest documents of an array, checked as readers check them, but past the first problem."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal

import msgspec

from zarr_manifest.errors import Advice, LimitExceededError, ManifestError
from zarr_manifest.format import Limits, document_checksum, is_declaration
from zarr_manifest.hierarchy import (
    DeclaredArray,
    InspectedHierarchy,
    LoadedManifest,
    Partition,
    fetch_document,
    interpret_document_of,
    partitions_to_read,
)
from zarr_manifest.sources import in_decoding_thread, in_order

# Documents that are held at a time: their text, too, which is ten times their columns.
_AT_ONCE = 4

# Of one document: a stranger's may have millions, and nobody reads more.
_MOST_PROBLEMS = 10_000

type Phase = Literal["declaration", "manifest"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a hierarchy, or a note about what is valid.

    Parameters
    ----------
    code : str
        Stable identifier (specification, "Error codes"); of a note,
        ``"lock_missing"``, ``"checksums_missing"``, ``"entries_missing"``,
        ``"metadata_behind"`` or ``"metadata_differ"``; ``"differs_from_model"``.
    phase : {"declaration", "manifest"}
        Whether ``zarr.json`` or a manifest document is wrong.
    array : str
        Path of the array in the hierarchy, without a leading slash.
    chunk : str or None
        The wrong member of the manifest document, as written; None if the document, or
        the array, is wrong as a whole.
    message : str
        What is wrong and what to do, for people.
    is_note : bool
        Whether it is valid, but worth a look.

    Examples
    --------
    >>> problem = Problem("invalid_entry", "manifest", "t", "0.0", "'offset' is not an integer")
    >>> print(f"{problem.code}: {problem.array}, chunk {problem.chunk}: {problem.message}")
    invalid_entry: t, chunk 0.0: 'offset' is not an integer
    """

    code: str
    phase: Phase
    array: str
    chunk: str | None
    message: str
    is_note: bool = False

    def __str__(self) -> str:
        return self.message


def problem_of(path: str, phase: Phase, error: ManifestError, where: str = "") -> Problem:
    """Return what an error says of an array, for people: `where` it was found."""
    message = Advice(f"{error.code}: {where}", error.in_context(array=path).message)
    return Problem(error.code, phase, path, error.chunk, message)


def note_of(path: str, phase: Phase, code: str, text: Advice) -> Problem:
    """Return a note: about an array that is valid."""
    return Problem(code, phase, path, None, Advice(f"array {path!r}: ", text), is_note=True)


class CheckedDocument(msgspec.Struct, frozen=True):
    """A manifest document, and what is wrong with it.

    Parameters
    ----------
    problems : list of Problem
        Empty if it is valid.
    loaded : LoadedManifest or None
        What is valid in it.
    checksum : str
        Of its bytes as stored; empty if there are none.
    """

    problems: list[Problem]
    loaded: LoadedManifest | None = None
    checksum: str = ""

    @property
    def entries(self) -> int:
        """Number of valid entries."""
        return 0 if self.loaded is None else len(self.loaded.manifest)


class DeclaredDocuments(msgspec.Struct, frozen=True):
    """An array whose documents are to be checked.

    Parameters
    ----------
    array : DeclaredArray
        The array.
    inline : bytes or None
        An inline manifest as written.
    """

    array: DeclaredArray
    inline: bytes | None


async def checked_documents(
    hierarchy: InspectedHierarchy, declared: DeclaredDocuments
) -> AsyncGenerator[CheckedDocument]:
    """Yield the documents of an array in C order of the blocks, holding only a few."""
    array, inline = declared.array, declared.inline
    try:
        found = await partitions_to_read(array, hierarchy.store, hierarchy.limits)
    except ManifestError as error:
        yield CheckedDocument([problem_of(array.path, "manifest", error)])
        return
    calls = (functools.partial(_document, hierarchy, array, p, inline) for p in found.partitions)
    async for checked in in_order(calls, _AT_ONCE):
        yield checked


async def _document(
    hierarchy: InspectedHierarchy, array: DeclaredArray, partition: Partition, inline: bytes | None
) -> CheckedDocument:
    location = array.document(partition)
    where = None if isinstance(location, bytes) else str(location)
    try:
        stored = await fetch_document(array, partition, hierarchy.sources, hierarchy.limits)
    except ManifestError as error:
        problem = problem_of(array.path, "manifest", error.in_context(location=where))
        return CheckedDocument([problem])
    if stored is None:
        return CheckedDocument([])
    body = stored.body
    limits = hierarchy.limits
    if where is None and inline is not None and len(body) <= limits.manifest_bytes:
        # White space does not count.
        limits = msgspec.structs.replace(
            limits, manifest_bytes=max(limits.manifest_bytes, len(inline))
        )
        body = inline
    checked = await in_decoding_thread(check_document, array, partition, body, limits)
    if stored.mismatch is None:
        return checked
    mismatch = problem_of(array.path, "manifest", stored.mismatch.in_context(location=where))
    return msgspec.structs.replace(checked, problems=[mismatch, *checked.problems])


def check_document(
    array: DeclaredArray, partition: Partition, body: bytes | memoryview, limits: Limits
) -> CheckedDocument:
    """Return what is valid in a stored document, and what is wrong with it.

    Its checksum is not looked at.
    """
    location = array.document(partition)
    where = None if isinstance(location, bytes) else str(location)
    found = interpret_document_of(array, partition, body, limits, validating=True)
    errors: list[ManifestError] = []
    loaded: LoadedManifest | None = None
    try:
        while len(errors) < _MOST_PROBLEMS:
            errors.append(next(found))
        next(found)
        errors.append(
            LimitExceededError(
                f"the manifest has more than {_MOST_PROBLEMS:,} problems, of which these are "
                "the first"
            )
        )
    except StopIteration as end:
        loaded = end.value
    problems = [
        problem_of(array.path, "manifest", error.in_context(location=where)) for error in errors
    ]
    return CheckedDocument(problems, loaded, document_checksum(body))


class _RawConfiguration(msgspec.Struct):
    manifest: msgspec.Raw


class _RawTransformer(msgspec.Struct):
    configuration: _RawConfiguration


class _RawNode(msgspec.Struct):
    storage_transformers: list[msgspec.Raw]


def inline_text(document: bytes) -> bytes | None:
    """Return an inline manifest as written, so that duplicate members can be found."""
    try:
        for raw in msgspec.json.decode(document, type=_RawNode).storage_transformers:
            if is_declaration(msgspec.json.decode(raw)):
                found = msgspec.json.decode(raw, type=_RawTransformer)
                return bytes(found.configuration.manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # zarr reads it but msgspec does not: the checks get the result of zarr's parser.
        return None
    return None
