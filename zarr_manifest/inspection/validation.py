"""Validation: finds everything that is wrong with the manifests of a hierarchy.

The checks are those of readers, but continue after the first problem. Reads metadata and
manifest documents, but no sources.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zarr_manifest.errors import (
    Advice,
    InvalidConfigurationError,
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
    contradicted_members,
    differences,
    dump_node,
    interpret_codecs,
    interpret_pending,
    join,
    names_outside,
)
from zarr_manifest.hierarchy import (
    DeclaredArray,
    InspectedHierarchy,
    Node,
    contradiction,
    copies_in,
    list_nodes,
    no_hierarchy,
    only_consolidated,
    read_nodes,
)
from zarr_manifest.inspection.documents import (
    DeclaredDocuments,
    Problem,
    checked_documents,
    inline_text,
    note_of,
    problem_of,
)
from zarr_manifest.showing import counted
from zarr_manifest.sources import (
    Allow,
)
from zarr_manifest.stores import StoreLike, can_list
from zarr_manifest.zarr_internals import sync

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


def validate(
    location: StoreLike,
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
    wanted = None if arrays is None else list(arrays)
    found = sync(_problems(Validator(hierarchy), wanted, model))
    return [problem for problem in found if strict or not problem.is_note]


async def _problems(
    validator: Validator, arrays: list[str] | None, model: Mapping[str, Any] | None
) -> list[Problem]:
    nodes = await validator.nodes(arrays)
    problems = await validator.declarations(nodes)
    for declared in validator.declared:
        entries, is_valid = 0, True
        async for checked in checked_documents(validator.hierarchy, declared):
            entries += checked.entries
            is_valid &= not checked.problems
            problems += checked.problems
        chunks = math.prod(declared.array.chunk_grid.counts)
        if is_valid and entries < chunks:
            text = (
                f"{chunks - entries:,} of {counted(chunks, 'chunk')} have no entry, and read as "
                "fill values; an entry {} says that this is meant"
            )
            problems.append(
                note_of(declared.array.path, "manifest", "entries_missing", Advice(text))
            )
    if model is not None:
        metadata = {node.path: node.metadata for node in nodes}
        for path, what in differences(metadata, model):
            text = Advice(f"differs_from_model: {path or '/'!r} {what}")
            problems.append(Problem("differs_from_model", "declaration", path, None, text))
    return sorted(problems, key=lambda problem: problem.array)


@dataclass(frozen=True, slots=True)
class Validator:
    """Checks the nodes of a hierarchy first, and then the documents that they declare.

    Parameters
    ----------
    hierarchy : InspectedHierarchy
        What is checked.
    declared : list of DeclaredDocuments
        The arrays that declare documents, once :meth:`declarations` has found them.
    """

    hierarchy: InspectedHierarchy
    declared: list[DeclaredDocuments] = field(default_factory=list[DeclaredDocuments])

    async def nodes(self, arrays: list[str] | None, *, of_any_version: bool = False) -> list[Node]:
        """Return the nodes to check: all, or those at some paths, of Zarr v3 or of any version.

        Raises
        ------
        SourceNotFoundError
            There is no hierarchy, or no array at one of the paths.
        """
        if arrays is None:
            return await self._every_node()
        return await self._named(arrays, of_any_version=of_any_version)

    async def declarations(self, found: Iterable[Node]) -> list[Problem]:
        """Return what is wrong with nodes, apart from the documents that they declare."""
        nodes = {node.path: node for node in found}
        return [each for path in sorted(nodes) async for each in self._node(nodes[path], nodes)]

    # Finding the nodes ---------------------------------------------------------

    async def _every_node(self) -> list[Node]:
        store = self.hierarchy.store
        nodes = await list_nodes(
            store,
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

    async def _named(self, arrays: Iterable[str], *, of_any_version: bool) -> list[Node]:
        paths = [path.strip("/") for path in arrays]
        found = await self._read(paths)
        for path in paths:
            if path not in found or (found[path].is_v2 and not of_any_version):
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
            yield problem_of(node.path, "declaration", node.problem)
        elif node.array is not None:
            async for problem in self._array(node):
                yield problem
        else:
            pending, errors = collect(interpret_pending(node.metadata))
            for error in errors:
                yield problem_of(node.path, "declaration", error)
            async for problem in self._consolidated(node, nodes, pending or {}):
                yield problem
            for copy in (each for each in copies_in(node) if each.kind == "group"):
                own = nodes.get(copy.path, copy)
                if own.is_own and contradicted_members(own.metadata, copy.metadata):
                    yield _contradicted(own, copy.metadata, node)
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
                yield problem_of(path, "declaration", error)
            elif ArrayMetadata("", own.metadata).agreed != array.agreed:
                error = contradiction(path, group.path, own.metadata, array.metadata)
                yield problem_of(path, "declaration", error)
            else:
                if contradicted_members(own.metadata, array.metadata):
                    yield _contradicted(own, array.metadata, group)
                where = f"in the consolidated metadata of {group.path or '/'!r}, "
                # What both say alike is reported of the array's own.
                if array.declaration and array.metadata != own.metadata:
                    copy = Node(path, metadata=array.metadata)
                    for invalid in collect(self.hierarchy.declaration(copy))[1]:
                        yield problem_of(path, "declaration", invalid, where)
                if array.is_unlocked and TRANSFORMER_NAME in own.metadata:
                    yield note_of(path, "declaration", "lock_missing", Advice(where, _UNLOCKED))

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
            yield problem_of(node.path, "declaration", error)
        if array is None:
            return
        if ArrayMetadata("", node.metadata).is_unlocked:
            yield note_of(node.path, "declaration", "lock_missing", _UNLOCKED)
        _, errors = collect(interpret_codecs(array.metadata["codecs"]))
        for error in (*errors, *_foreign_names(array)):
            yield problem_of(node.path, "declaration", error)
        if array.is_unprotected:
            yield note_of(node.path, "declaration", "checksums_missing", _UNPROTECTED)
        inline = None if node.body is None else inline_text(node.body)
        self.declared.append(DeclaredDocuments(array, inline))


def _contradicted(own: Node, copy: Mapping[str, Any], group: Node) -> Problem:
    """Return the note on own metadata that read as they are, but that no writer changes."""
    error = contradiction(own.path, group.path, own.metadata, copy)
    text = Advice(f"{own.kind} {own.path!r}: {error.problem}. ", error.remedy or "")
    return Problem("metadata_differ", "declaration", own.path, None, text, is_note=True)


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
