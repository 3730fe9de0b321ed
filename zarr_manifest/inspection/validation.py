"""Validation: finds everything that is wrong with the manifests of a hierarchy.

The checks are those of readers, but continue after the first problem. Reads metadata and
manifest documents, but no sources.
"""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from zarr.abc.store import Store

from zarr_manifest.errors import (
    Advice,
    InvalidConfigurationError,
    LimitExceededError,
    ManifestError,
    Setting,
)
from zarr_manifest.format import (
    TRANSFORMER_NAME,
    ArrayMetadata,
    Limits,
    Pending,
    PendingChange,
    arrays_in,
    collect,
    differences,
    dump_node,
    interpret_codecs,
    interpret_pending,
    is_declaration,
    join,
    names_outside,
)
from zarr_manifest.hierarchy import (
    CONCURRENCY,
    DeclaredArray,
    InspectedHierarchy,
    Node,
    Partition,
    fetch_document,
    interpret_document_of,
    list_nodes,
    no_hierarchy,
    only_consolidated,
    partitions_to_read,
    read_nodes,
)
from zarr_manifest.showing import counted
from zarr_manifest.sources import (
    Allow,
    in_order,
)
from zarr_manifest.stores import can_list
from zarr_manifest.zarr_internals import sync

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_NAME_THE_ARRAYS = Advice(
    "name the arrays, ", Setting("arrays", python="validate(..., arrays=[...])")
)

_UNLOCKED = Advice(
    "the lock is missing, so that readers without this package may read fill values; add it: ",
    Setting("lock", python="zarr_manifest.conversion.lock(location)"),
)

_UNPROTECTED = Advice(
    "the declaration has no checksums of the manifest documents, so that a stale copy of one, such "
    "as a cache's, reads as earlier values or as fill values; add them: zarr-manifest accept "
    "LOCATION ARRAY"
)

_UNFINISHED = Advice(
    ": a change is being written, or writing it was interrupted; if no process writes the "
    "hierarchy, finish it: ",
    Setting("recover", python="zarr_manifest.recover(location)"),
)
_BEHIND = Advice(
    "its own 'zarr.json' is behind the copy in consolidated metadata, which counts", _UNFINISHED
)
_REMOVED = Advice("it has been removed, but its own 'zarr.json' is still there", _UNFINISHED)

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
        ``"lock_missing"``, ``"checksums_missing"``, ``"entries_missing"`` or
        ``"metadata_behind"``; ``"differs_from_model"``.
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


def validate(
    location: str | Path | ObjectStore | Store,
    *,
    arrays: Iterable[str] | None = None,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
    strict: bool = False,
    model: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """Check the declarations and manifest documents of a whole hierarchy.

    Reports every problem, not only the first. Sources are not read, and need not be
    authorised; manifest documents outside the hierarchy are read if `allow` authorises
    them, and reported otherwise.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    arrays : iterable of str, optional
        Paths of the arrays to check; all by default. Needed if the hierarchy cannot be
        listed (on a web server) and has no consolidated metadata.
    allow, base, limits
        As for :class:`ManifestStore`.
    strict : bool
        Also return notes: what is valid, but worth a look, such as an array without the
        lock, which readers without this package may take for one of fill values, one whose
        manifest documents have no checksums, or chunks that a manifest does not name, which
        read as fill values.
    model : mapping, optional
        A Zarr object model: also return each node that is missing, differs from it, or is not in
        it (``"differs_from_model"``), wherever its chunks are.

    Returns
    -------
    list of Problem
        By array; empty if the hierarchy is valid, and, with `strict`, unremarkable.

    Raises
    ------
    SourceNotFoundError
        There is no Zarr hierarchy, or one of `arrays` does not exist.
    SourceError
        The hierarchy cannot be listed, and has no consolidated metadata.
    InvalidConfigurationError
        `model` is no model of Zarr v3.
    ValueError
        `allow` contains something that is not a URL prefix; `model` is given with `arrays`.

    Examples
    --------
    >>> import json, pathlib, tempfile, zarr
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> _ = zarr.create_array(root, shape=8, chunks=4, dtype="u1")
    >>> metadata = json.loads((root / "zarr.json").read_text())
    >>> metadata["storage_transformers"] = [{
    ...     "name": "chunk-manifest-json",
    ...     "configuration": {"manifest": {"0": {"length": 4}, "7": {"path": "f.nc"}}},
    ... }]
    >>> _ = (root / "zarr.json").write_text(json.dumps(metadata))
    >>> [(problem.code, problem.chunk) for problem in validate(root)]
    [('invalid_entry', '0'), ('invalid_chunk_key', '7')]
    """
    if model is not None and arrays is not None:
        raise ValueError("a model describes the whole hierarchy: omit 'arrays'")
    hierarchy = InspectedHierarchy.open(location, allow=allow, base=base, limits=limits)
    validator = _Validator(hierarchy, model)
    found = sync(validator.problems(None if arrays is None else list(arrays)))
    return [problem for problem in found if strict or not problem.is_note]


@dataclass(frozen=True, slots=True)
class _Validator:
    hierarchy: InspectedHierarchy
    model: Mapping[str, Any] | None

    async def problems(self, arrays: list[str] | None) -> list[Problem]:
        found = await (self._every_node() if arrays is None else self._named(arrays))
        nodes = {node.path: node for node in found}
        problems = [p for path in sorted(nodes) async for p in self._node(nodes[path], nodes)]
        if self.model is not None:
            metadata = {path: node.metadata for path, node in nodes.items()}
            for path, what in differences(metadata, self.model):
                text = Advice(f"differs_from_model: {path or '/'!r} {what}")
                problems.append(Problem("differs_from_model", "declaration", path, None, text))
        return sorted(problems, key=lambda problem: problem.array)

    # Finding the nodes ---------------------------------------------------------

    async def _every_node(self) -> list[Node]:
        store = self.hierarchy.store
        nodes = await list_nodes(
            store,
            keep_bodies=True,
            instead=_NAME_THE_ARRAYS,
            directories=self.hierarchy.directories,
        )
        if can_list(store):
            return nodes
        # These come from consolidated metadata; the nodes' own documents may differ. The root is
        # read with them, to be checked.
        copies = [node.path for node in nodes if not node.is_own and node.problem is None]
        own = await self._read(["", *copies])
        return [own.get(node.path, node) for node in nodes]

    async def _read(self, paths: Iterable[str], *, as_stored: bool = False) -> dict[str, Node]:
        store, directories = self.hierarchy.store, self.hierarchy.directories
        return await read_nodes(store, paths, directories, as_stored=as_stored)

    async def _named(self, arrays: Iterable[str]) -> list[Node]:
        paths = [path.strip("/") for path in arrays]
        found = await self._read(paths)
        for path in paths:
            if path not in found or found[path].is_v2:
                kind = "Zarr v3 array" if path in found else "array"
                raise no_hierarchy(
                    self.hierarchy.store,
                    what=f"{kind} {path!r}",
                    remedy="Name arrays by their paths in the hierarchy.",
                )
        return [found[path] for path in paths]

    # Checking them -------------------------------------------------------------

    async def _node(self, node: Node, nodes: Mapping[str, Node]) -> AsyncIterator[Problem]:
        if node.is_behind:
            text = Advice(f"{node.kind} {node.path!r}: ", _BEHIND)
            yield Problem("metadata_behind", "declaration", node.path, None, text, is_note=True)
        if node.problem is not None:
            yield _problem(node.path, "declaration", node.problem)
        elif node.array is not None:
            async for problem in self._array(node):
                yield problem
        else:
            pending, errors = collect(interpret_pending(node.metadata))
            for error in errors:
                yield _problem(node.path, "declaration", error)
            async for problem in self._consolidated(node, nodes, pending or {}):
                yield problem
            if pending:
                async for note in self._removed(node, pending):
                    yield note

    async def _consolidated(
        self, group: Node, nodes: Mapping[str, Node], pending: Pending
    ) -> AsyncIterator[Problem]:
        for array in arrays_in(group.metadata):
            path = join(group.path, array.path)
            own = nodes.get(path)
            if own is None:
                async for problem in self._array(Node(path, metadata=array.metadata)):
                    yield problem
            elif own.problem is not None:
                continue  # reported, and what it declares is unknown
            elif not (own.is_own or own.is_behind) and pending.get(array.path) is not None:
                error = only_consolidated(path, None, group.path)
                yield _problem(path, "declaration", error)
            elif ArrayMetadata("", own.metadata).agreed != array.agreed:
                error = InvalidConfigurationError(
                    f"the consolidated metadata of {group.path or '/'!r} declares another manifest "
                    "than the array's own 'zarr.json'",
                    remedy="Consolidate the metadata again.",
                )
                yield _problem(path, "declaration", error)
            else:
                where = f"in the consolidated metadata of {group.path or '/'!r}, "
                # What both say alike is reported of the array's own.
                if array.declaration and array.metadata != own.metadata:
                    copy = Node(path, metadata=array.metadata)
                    for invalid in collect(self.hierarchy.declaration(copy))[1]:
                        yield _problem(path, "declaration", invalid, where)
                if array.is_unlocked and TRANSFORMER_NAME in own.metadata:
                    yield _note(path, "declaration", "lock_missing", Advice(where, _UNLOCKED))

    async def _removed(self, group: Node, pending: Pending) -> AsyncIterator[Problem]:
        """Yield a note for each node that a change removed, but not yet its own metadata."""
        change = PendingChange(pending, group.body or dump_node(group.metadata))
        members = {join(group.path, m): m for m in change.in_doubt() if pending[m] is not None}
        for path, own in (await self._read(members, as_stored=True)).items():
            if change.standing(members[path], own.body) == "absent":
                text = Advice(f"{own.kind} {path!r}: ", _REMOVED)
                yield Problem("metadata_behind", "declaration", path, None, text, is_note=True)

    async def _array(self, node: Node) -> AsyncIterator[Problem]:
        array, errors = collect(self.hierarchy.declaration(node))
        for error in errors:
            yield _problem(node.path, "declaration", error)
        if array is None:
            return
        if ArrayMetadata("", node.metadata).is_unlocked:
            yield _note(node.path, "declaration", "lock_missing", _UNLOCKED)
        _, errors = collect(interpret_codecs(array.metadata["codecs"]))
        for error in (*errors, *_foreign_names(array)):
            yield _problem(node.path, "declaration", error)
        if array.is_unprotected:
            yield _note(node.path, "declaration", "checksums_missing", _UNPROTECTED)
        inline = None if node.body is None else _inline_text(node.body)
        try:
            found = await partitions_to_read(array, self.hierarchy.store, self.hierarchy.limits)
        except ManifestError as error:
            yield _problem(node.path, "manifest", error)
            return
        calls = (functools.partial(self._document, array, p, inline) for p in found.partitions)
        entries, is_valid = 0, True
        async for count, problems in in_order(calls, CONCURRENCY):
            entries += count
            is_valid &= not problems
            for problem in problems:
                yield problem
        chunks = math.prod(array.chunk_grid.counts)
        if is_valid and entries < chunks:
            text = (
                f"{chunks - entries:,} of {counted(chunks, 'chunk')} have no entry, and read as "
                "fill values; an entry {} says that this is meant"
            )
            yield _note(node.path, "manifest", "entries_missing", Advice(text))

    async def _document(
        self, array: DeclaredArray, partition: Partition, inline: bytes | None
    ) -> tuple[int, list[Problem]]:
        """Return the number of valid entries of a document, and what is wrong with it."""
        location = array.document(partition)
        where = None if isinstance(location, bytes) else str(location)
        try:
            stored = await fetch_document(
                array, partition, self.hierarchy.sources, self.hierarchy.limits
            )
        except ManifestError as error:
            return 0, [_problem(array.path, "manifest", error.in_context(location=where))]
        if stored is None:
            return 0, []
        body = stored.body
        limits = self.hierarchy.limits
        if where is None and inline is not None and len(body) <= limits.manifest_bytes:
            # White space does not count.
            limits = msgspec.structs.replace(
                limits, manifest_bytes=max(limits.manifest_bytes, len(inline))
            )
            body = inline
        entries, problems = check_document(array, partition, body, limits)
        if stored.mismatch is not None:
            mismatch = stored.mismatch.in_context(location=where)
            problems.insert(0, _problem(array.path, "manifest", mismatch))
        return entries, problems


def check_document(
    array: DeclaredArray, partition: Partition, body: bytes | memoryview, limits: Limits
) -> tuple[int, list[Problem]]:
    """Return the number of valid entries of a stored document, and what is wrong with it.

    Its checksum is not looked at.
    """
    location = array.document(partition)
    where = None if isinstance(location, bytes) else str(location)
    found = interpret_document_of(array, partition, body, limits, validating=True)
    errors: list[ManifestError] = []
    entries = 0
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
        entries = 0 if end.value is None else len(end.value.manifest)
    return entries, [
        _problem(array.path, "manifest", error.in_context(location=where)) for error in errors
    ]


def _foreign_names(array: DeclaredArray) -> Iterator[ManifestError]:
    """Yield the error for names in ``partitions`` that readers ignore."""
    if array.partitions is None or array.named is None:
        return
    outside = names_outside(array.partitions, array.named)
    if outside:
        more = f" and {counted(len(outside) - 1, 'other name')}" if outside[1:] else ""
        yield InvalidConfigurationError(
            f"'partitions' has {outside[0]!r:.40}{more}, outside the grid of partitions, whose "
            f"shape is {list(array.partitions.counts)}",
            remedy="Remove what does not exist from the list.",
        )


def _problem(path: str, phase: Phase, error: ManifestError, where: str = "") -> Problem:
    message = Advice(f"{error.code}: {where}", error.in_context(array=path).message)
    return Problem(error.code, phase, path, error.chunk, message)


def _note(path: str, phase: Phase, code: str, text: Advice) -> Problem:
    """Return a note: about an array that is valid."""
    return Problem(code, phase, path, None, Advice(f"array {path!r}: ", text), is_note=True)


class _RawConfiguration(msgspec.Struct):
    manifest: msgspec.Raw


class _RawTransformer(msgspec.Struct):
    configuration: _RawConfiguration


class _RawNode(msgspec.Struct):
    storage_transformers: list[msgspec.Raw]


def _inline_text(document: bytes) -> bytes | None:
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
