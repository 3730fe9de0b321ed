"""The identity of a hierarchy: one digest of all that it says of its nodes and chunks."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from zarr_manifest.errors import Advice, InvalidConfigurationError, Setting
from zarr_manifest.format import (
    Limits,
    canonical_json,
    document_checksum,
    format_canonical,
    grid_index,
    strict,
    without_copies,
)
from zarr_manifest.hierarchy import CONCURRENCY, DeclaredArray, InspectedHierarchy, Node, Partition
from zarr_manifest.locations import UrlLocation, is_relative
from zarr_manifest.manifest import References
from zarr_manifest.sources import Allow, in_order
from zarr_manifest.stores import StoreLike
from zarr_manifest.zarr_internals import sync


def identity(
    location: StoreLike,
    *,
    allow: Allow = None,
    limits: Limits | None = None,
) -> str:
    """Return a digest by which a hierarchy can be told from all others.

    It is that of the canonical JSON of all nodes' metadata, by path, in which manifest documents
    are named by their digests. Copies of a hierarchy have the same, in a directory, in a bucket
    or in memory, consolidated or not. Two that have the same read the same values, or raise: so
    each reference must state a checksum or, for an object with an absolute URL, its version or
    strong entity tag, as those of a snapshot do. All manifests are read to know that; sources are
    not.

    Parameters
    ----------
    location : str, Path, obstore store or zarr Store
        The hierarchy: a path, a URL or a store.
    allow, limits
        As for :class:`ManifestStore`: sources need not be allowed, but manifest documents outside
        the hierarchy must be.

    Returns
    -------
    str
        ``"sha256:"``, and 64 hexadecimal digits.

    Raises
    ------
    InvalidConfigurationError
        An array has chunks of its own, or a reference to an object that may change unnoticed.
    ManifestError
        There is no hierarchy, or something of it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import zarr_manifest as zm
    >>> def made(first):
    ...     root = tempfile.mkdtemp()
    ...     zm.create_array(root, "a", {"0": {"data": first}}, shape=2, chunks=2, dtype="u1")
    ...     return identity(root)
    >>> made(b"12") == made(b"12"), made(b"12") == made(b"13")
    (True, False)
    """
    hierarchy = InspectedHierarchy.open(location, allow=allow, limits=limits)
    text = canonical_json(sync(_canonical(hierarchy)))
    return document_checksum(text.encode())


async def _canonical(hierarchy: InspectedHierarchy) -> dict[str, Any]:
    """Return the nodes as JSON values, by path."""
    nodes = await hierarchy.nodes()
    calls = (functools.partial(_node, hierarchy, node) for node in nodes)
    found = [each async for each in in_order(calls, CONCURRENCY)]
    return {node.path: each for node, each in zip(nodes, found, strict=True)}


async def _node(hierarchy: InspectedHierarchy, node: Node) -> dict[str, Any]:
    if node.problem is not None:
        raise node.problem.in_context(array=node.path)
    metadata = without_copies(node.metadata)
    if node.kind == "group" and not node.is_v2:
        return metadata
    array = None if node.is_v2 else strict(hierarchy.declaration(node))
    if array is None:
        raise _loose("the node has chunks of its own, which may change", node.path)
    documents = hierarchy.documents(array)

    async def digest(partition: Partition) -> str | None:
        table = (await documents.partition(partition)).manifest
        _require_fixed(array, table)
        return document_checksum(table.dumps()) if array.is_unprotected and len(table) else None

    partitions = list(await documents.partitions())
    calls = (functools.partial(digest, partition) for partition in partitions)
    digests = [each async for each in in_order(calls, CONCURRENCY)]
    await documents.check_missing()
    named = {str(p): each for p, each in zip(partitions, digests, strict=True) if each}
    return {"metadata": metadata, "documents": named}


def _require_fixed(array: DeclaredArray, table: References) -> None:
    is_absolute = bool(array.base.scheme) and array.base.root is None
    firm = np.array([_is_firm(path, array, is_absolute) for path in table.paths], bool)
    rows = loose_rows(table, firm)
    if len(rows):
        index = grid_index(table.grid_shape, int(table.columns().numbers[rows[0]]))
        raise _loose("the entry does not say which bytes its object has", array.path).in_context(
            chunk=format_canonical(index)
        )


def _is_firm(path: str, array: DeclaredArray, is_absolute: bool) -> bool:
    """Whether a path leads to the same object wherever the hierarchy is, which has a true state."""
    found = array.base.resolve(path)
    return (
        isinstance(found, UrlLocation)
        and found.scheme != "file"
        and (is_absolute or not is_relative(path))
    )


def _loose(problem: str, path: str) -> InvalidConfigurationError:
    return InvalidConfigurationError(
        f"{problem}, so that the hierarchy has no identity",
        array=path,
        remedy=Advice(
            "Take a snapshot, which has one: ",
            Setting("snapshot", python="zarr_manifest.snapshot(...)"),
            ".",
        ),
    )


def loose_rows(table: References, firm: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the rows of references whose objects may get other bytes unnoticed.

    A checksum says which bytes are meant, wherever they are. A version or a strong entity tag
    says it of the object with a certain URL.

    Parameters
    ----------
    table : References
        The references.
    firm : ndarray of bool
        By the number of a path, whether it is that of one object, wherever the hierarchy is, and
        not that of a file, whose state is a time with a resolution.
    """
    columns = table.columns()
    is_loose = columns.path_numbers >= 0
    for extra, rows in table.extras():
        if extra.checksum is not None:
            is_loose[rows] = False
        elif extra.conditions.are_exact:
            is_loose[rows] &= ~firm[columns.path_numbers[rows]]
    return np.flatnonzero(is_loose)
