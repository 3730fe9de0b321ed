"""Validation: everything that is wrong with the manifests of a hierarchy, at once.

The checks are those of readers; here they go on after the first problem. Reads
metadata and manifest documents, and no source.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype

from zarr_manifest.errors import Advice, InvalidConfigurationError, ManifestError, Setting
from zarr_manifest.format import (
    NODE_METADATA,
    ArrayMetadata,
    Limits,
    arrays_in,
    collect,
    interpret_declaration,
    is_declaration,
    parse_node,
)
from zarr_manifest.hierarchy import (
    CONCURRENCY,
    DeclaredArray,
    Partition,
    base_directory,
    ensure_open,
    every_partition,
    fetch_document,
    interpret_array,
    interpret_document_of,
    join,
    link_outside,
    list_inside,
    node_of_metadata,
    open_hierarchy,
    store_underneath,
    sync,
)
from zarr_manifest.sources import (
    Allow,
    Sources,
    access_by_prefix,
    can_list,
    hierarchy_reader,
    in_order,
    run_async,
    store_name,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["Phase", "Problem", "validate"]

type Phase = Literal["declaration", "manifest"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a hierarchy.

    Parameters
    ----------
    code : str
        Stable identifier (specification, "Error codes").
    phase : {"declaration", "manifest"}
        Whether ``zarr.json`` or a manifest document is wrong.
    array : str
        Path of the array in the hierarchy, without a leading slash.
    chunk : str or None
        Member of the manifest document that is wrong, as it is written; None
        when it is the document, or the array, as a whole.
    message : str
        What is wrong and what to do, for people.

    Examples
    --------
    >>> problem = Problem("invalid_entry", "manifest", "t", "0.0", "'offset' is no integer")
    >>> print(f"{problem.code}: {problem.array}, chunk {problem.chunk}: {problem.message}")
    invalid_entry: t, chunk 0.0: 'offset' is no integer
    """

    code: str
    phase: Phase
    array: str
    chunk: str | None
    message: str


def validate(
    location: str | Path | ObjectStore | Store,
    *,
    arrays: Iterable[str] | None = None,
    allow: Allow = None,
    base: str | Path | None = None,
    limits: Limits | None = None,
) -> list[Problem]:
    """Check the declarations and manifest documents of a whole hierarchy.

    Every problem is reported, not only the first. Sources are not touched, and
    need not be authorised; manifest documents outside the hierarchy are read
    if `allow` says so, and reported otherwise.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL, or a store.
    arrays : iterable of str, optional
        Paths of the arrays to be checked; all by default. Needed where the
        hierarchy cannot be listed (on a web server) and has no consolidated
        metadata.
    allow, base, limits
        As for :class:`ManifestStore`.

    Returns
    -------
    list of Problem
        By array; empty when the hierarchy is valid.

    Raises
    ------
    FileNotFoundError
        There is no Zarr hierarchy, or not one of `arrays`.
    ValueError
        The hierarchy cannot be listed, or `allow` holds what is no URL prefix.

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
    access = access_by_prefix(allow)
    # zarr makes a directory that does not exist, unless it is told to read only.
    read_only = not isinstance(location, Store)
    store = store_underneath(open_hierarchy(location, access, read_only=read_only))
    validator = _Validator(
        store,
        Sources(access, hierarchy_reader(store)),
        base_directory(base),
        Limits() if limits is None else limits,
    )
    return sync(validator.problems(None if arrays is None else list(arrays)))


@dataclass(frozen=True, slots=True)
class _Validator:
    store: Store
    sources: Sources
    base: str | None
    limits: Limits

    async def problems(self, arrays: list[str] | None) -> list[Problem]:
        await ensure_open(self.store)
        problems: list[Problem] = []
        if arrays is None:
            documents, links = await self._every_document()
            problems += [_problem(path, "declaration", link_outside(path)) for path in links]
        else:
            paths = [path.strip("/") for path in arrays]
            documents = await self._documents(paths)
            for path in paths:
                if path not in documents:
                    raise FileNotFoundError(f"there is no 'zarr.json' of an array {path!r}")
        problems += [p for path in sorted(documents) async for p in self._node(path, documents)]
        return sorted(problems, key=lambda problem: problem.array)

    # Finding the nodes ---------------------------------------------------------

    async def _every_document(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the metadata documents of all nodes, by path, and links to nodes elsewhere."""
        if can_list(self.store):
            found, links = await list_inside(self.store)
            keys = [key for key in found if key.rpartition("/")[2] in NODE_METADATA]
            paths = [path for key in keys if (path := node_of_metadata(key)) is not None]
            if not keys and not links:
                raise FileNotFoundError(f"there is no Zarr hierarchy in {store_name(self.store)}")
            return await self._documents(paths), links
        documents = await self._documents([""])
        if not documents:
            raise FileNotFoundError(f"there is no Zarr hierarchy in {store_name(self.store)}")
        node = parse_node(documents[""]) or {}
        if node.get("node_type") == "group" and not node.get("consolidated_metadata"):
            raise ValueError(
                Advice(
                    f"{store_name(self.store)} cannot be listed, and has no consolidated "
                    "metadata: name the arrays, ",
                    Setting("arrays", python="validate(..., arrays=[...])"),
                )
            )
        members = await self._documents([array.path for array in arrays_in(node)])
        return documents | members, []

    async def _documents(self, paths: Iterable[str]) -> dict[str, bytes]:
        async def get(path: str) -> tuple[str, bytes | None]:
            key = join(path, "zarr.json")
            found = await self.store.get(key, default_buffer_prototype())
            return path, None if found is None else found.to_bytes()

        calls = (functools.partial(get, path) for path in paths)
        documents = [found async for found in in_order(calls, CONCURRENCY)]
        return {path: document for path, document in documents if document is not None}

    # Checking them -------------------------------------------------------------

    async def _node(self, path: str, documents: dict[str, bytes]) -> AsyncIterator[Problem]:
        node = parse_node(documents[path])
        if node is None:
            error = InvalidConfigurationError("'zarr.json' is not a JSON object")
            yield _problem(path, "declaration", error)
            return
        for array in arrays_in(node):
            array_path = join(path, array.path)
            if array.metadata is node:
                async for problem in self._array(path, array, _inline_text(documents[path])):
                    yield problem
            elif array_path not in documents:
                async for problem in self._array(array_path, array, None):
                    yield problem
            elif _declared(documents[array_path]) != array.declared:
                error = InvalidConfigurationError(
                    f"the consolidated metadata of {path or '/'!r} declares another manifest than "
                    "the array's own 'zarr.json'",
                    remedy="Consolidate the metadata again.",
                )
                yield _problem(array_path, "declaration", error)

    async def _array(
        self, path: str, document: ArrayMetadata, inline: bytes | None
    ) -> AsyncIterator[Problem]:
        if document.declared == []:
            return
        configuration, errors = collect(interpret_declaration(document.declared))
        array: DeclaredArray | None = None
        if configuration is not None:
            array, more = collect(
                interpret_array(path, document.metadata, configuration, base=self.base)
            )
            errors += more
        for error in errors:
            yield _problem(path, "declaration", error)
        if array is None:
            return
        try:
            partitions = every_partition(array, self.limits)
        except ManifestError as error:
            yield _problem(path, "manifest", error)
            return
        calls = (functools.partial(self._document, array, p, inline) for p in partitions)
        async for problems in in_order(calls, CONCURRENCY):
            for problem in problems:
                yield problem

    async def _document(
        self, array: DeclaredArray, partition: Partition, inline: bytes | None
    ) -> list[Problem]:
        location = array.document(partition)
        where = None if isinstance(location, bytes) else str(location)
        try:
            body = await run_async(fetch_document(array, partition, self.sources))
        except ManifestError as error:
            return [_problem(array.path, "manifest", error.in_context(location=where))]
        if body is None:
            return []
        if where is None and inline is not None:
            body = inline
        _, errors = collect(
            interpret_document_of(array, partition, body, self.limits, validating=True)
        )
        return [
            _problem(array.path, "manifest", error.in_context(location=where)) for error in errors
        ]


def _problem(path: str, phase: Phase, error: ManifestError) -> Problem:
    message = Advice(f"{error.code}: ", error.in_context(array=path).message)
    return Problem(error.code, phase, path, error.chunk, message)


def _declared(document: bytes) -> Any:
    node = parse_node(document)
    return [] if node is None else ArrayMetadata("", node).declared


class _RawConfiguration(msgspec.Struct):
    manifest: msgspec.Raw


class _RawTransformer(msgspec.Struct):
    configuration: _RawConfiguration


class _RawNode(msgspec.Struct):
    storage_transformers: list[msgspec.Raw]


def _inline_text(document: bytes) -> bytes | None:
    """Return an inline manifest as it is written: members that stand there twice are seen."""
    try:
        for raw in msgspec.json.decode(document, type=_RawNode).storage_transformers:
            if is_declaration(msgspec.json.decode(raw)):
                found = msgspec.json.decode(raw, type=_RawTransformer)
                return bytes(found.configuration.manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # What zarr reads, and msgspec does not: the checks see what zarr's parser made of it.
        return None
    return None
