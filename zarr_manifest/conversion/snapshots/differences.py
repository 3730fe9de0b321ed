"""The difference of two hierarchies: of their nodes, and of what is known of their chunks.

Sources are not read. Manifest documents with the same digest are not read either.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import Struct

from zarr_manifest.conversion.files import hierarchy_nodes
from zarr_manifest.conversion.nodes import GroupNode, RefusedNode, grid_of
from zarr_manifest.conversion.snapshots.comparing import (
    ChunkDifference,
    Verdict,
    compare_references,
)
from zarr_manifest.conversion.snapshots.freezing import has_own_chunks
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import ArrayMetadata, Limits, parse_canonical, strict
from zarr_manifest.hierarchy import CONCURRENCY, InspectedHierarchy, ManifestDocuments, Partition
from zarr_manifest.hierarchy import Node as StoredNode
from zarr_manifest.inspection import MOST_NODES
from zarr_manifest.locations import Location, StoreLocation
from zarr_manifest.manifest import JoinedReferences, Manifest, References, references_of
from zarr_manifest.showing import counted
from zarr_manifest.sources import Allow, in_order
from zarr_manifest.stores import StoreLike, object_url, same_place
from zarr_manifest.zarr_internals import sync

type Change = Literal["added", "removed", "changed"]

_SIGNS: Mapping[Change, str] = {"added": "+", "removed": "-", "changed": "~"}

_VERDICTS: Mapping[Verdict, str] = {
    "equal": "both read the same",
    "different": "they differ",
    "unknown": "whether they differ is unknown: references do not say which bytes they mean",
}

# What names of objects begin with in a hierarchy without a URL, the old and the new one.
OWN_NAMES = ("old:", "new:")

# Of chunks that differ in the same way, so many are named in texts.
_MOST_KEYS = 5


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """A node that is not the same in two hierarchies.

    Parameters
    ----------
    path : str
        Path in the hierarchy; ``""`` for the root.
    kind : {"group", "array"}
        What it is.
    change : {"added", "removed", "changed"}
        Whether only the new, only the old, or both hierarchies have it.
    members : dict of str to (object, object)
        The old and the new value of members of its metadata that differ, attributes as
        ``attributes.units``; None where there is none.
    chunks : ChunkDifference or None
        The chunks that differ; None if these cannot be compared, because only one hierarchy has
        the array, or because it is divided otherwise.
    old, new : dict or None
        Its metadata in either hierarchy, as of an array without a manifest; None where it is not.
    """

    path: str
    kind: Literal["group", "array"]
    change: Change
    members: Mapping[str, tuple[Any, Any]] = field(default_factory=dict[str, tuple[Any, Any]])
    chunks: ChunkDifference | None = None
    old: Mapping[str, Any] | None = field(default=None, repr=False)
    new: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def verdict(self) -> Verdict:
        """Whether the node reads the same: "equal", "different" or "unknown"."""
        if self.members or self.chunks is None:
            return "different"
        return self.chunks.verdict

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{_SIGNS[self.change]} {self.path or '/'}  {self.kind}"
        for name, (old, new) in self.members.items():
            yield f"    {name}: {brief_json(old)} -> {brief_json(new)}"
        if self.chunks is not None:
            yield from (f"    {line}" for line in self.chunks.lines(_MOST_KEYS))


@dataclass(frozen=True, slots=True, repr=False)
class Difference:
    """What is not the same in two hierarchies.

    Parameters
    ----------
    nodes : list of NodeDifference
        Sorted by path; empty if nothing differs.
    """

    nodes: list[NodeDifference]

    @property
    def verdict(self) -> Verdict:
        """Whether both read the same: "equal", "different" or, if it is unknown, "unknown"."""
        found = {node.verdict for node in self.nodes}
        return "different" if "different" in found else "unknown" if found - {"equal"} else "equal"

    @property
    def summary(self) -> str:
        """The verdict in words."""
        return _VERDICTS[self.verdict]

    def __repr__(self) -> str:
        return f"<Difference: {self.verdict}, {counted(len(self.nodes), 'node')}>"

    def __str__(self) -> str:
        return "\n".join(map(str, self.nodes))

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, most: int = MOST_NODES) -> str:
        """Return the difference as a part of a page, with so many nodes at most."""
        from zarr_manifest.conversion.snapshots.difference_html import difference_html

        return difference_html(self, most)


def diff(
    old: StoreLike,
    new: StoreLike,
    *,
    allow: Allow = None,
    limits: Limits | None = None,
) -> Difference:
    r"""Compare two hierarchies: arrays, groups, attributes and chunks.

    Of a chunk that both have, the bytes are known to be equal if both say the same of the same
    object, or have the same checksum; they are known to differ if their lengths or checksums
    do. Otherwise this is unknown: sources are not read. Native arrays are listed, and compared
    like a snapshot of them.

    Parameters
    ----------
    old, new : str, Path, obstore store or zarr Store
        The hierarchies, of any kind.
    allow, limits
        As for :class:`ManifestStore`: sources need not be allowed, but manifest documents outside
        the hierarchies must be.

    Returns
    -------
    Difference

    Raises
    ------
    ManifestError
        There is no hierarchy, or something of it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import zarr_manifest as zm
    >>> def made(first):
    ...     root = tempfile.mkdtemp()
    ...     zm.create_array(root, "a", {"0": {"data": first}}, shape=4, chunks=2, dtype="u1")
    ...     return root
    >>> found = diff(made(b"12"), made(b"13"))
    >>> print(found, found.verdict, sep="\n")
    ~ a  array
        1 chunk with other bytes: 0
    different
    >>> diff(made(b"12"), made(b"12")).nodes
    []
    """
    sides = [_Side(location, allow, limits) for location in (old, new)]
    before, after = sides
    before.name, after.name = OWN_NAMES
    if same_place(before.hierarchy.store, after.hierarchy.store):
        after.name = before.name
    return Difference(list(_differences(before, after)))


def _differences(old: _Side, new: _Side) -> Iterator[NodeDifference]:
    for path in sorted(old.nodes.keys() | new.nodes, key=lambda path: path.split("/")):
        before, after = old.nodes.get(path), new.nodes.get(path)
        if before is not None and after is not None and before.kind == after.kind:
            members = dict(_members(before.metadata, after.metadata))
            chunks = _chunks(before, after) if before.kind == "array" else None
            if members or (chunks is not None and any(chunks.counts.values())):
                yield NodeDifference(
                    path, before.kind, "changed", members, chunks, before.metadata, after.metadata
                )
            continue
        if before is not None:
            yield NodeDifference(path, before.kind, "removed", old=before.metadata)
        if after is not None:
            yield NodeDifference(path, after.kind, "added", new=after.metadata)


class _Side:
    """One of the two hierarchies: its nodes by path."""

    def __init__(self, location: Any, allow: Allow, limits: Limits | None) -> None:
        self.hierarchy = InspectedHierarchy.open(location, allow=allow, limits=limits)
        self.name = ""
        self.nodes: dict[str, _ComparedNode] = {}
        own: list[StoredNode] = []
        for node in sync(self.hierarchy.nodes()):
            if node.problem is not None:
                raise node.problem.in_context(array=node.path)
            if has_own_chunks(node):
                own.append(node)
            elif node.kind == "group":
                self.nodes[node.path] = _group(self, node.metadata.get("attributes"))
            else:
                array = strict(self.hierarchy.declaration(node))
                assert array is not None  # it declares a manifest
                metadata = ArrayMetadata("", node.metadata).undeclared
                documents = self.hierarchy.documents(array)
                self.nodes[node.path] = _ComparedNode(self, "array", metadata, documents=documents)
        for found in hierarchy_nodes(self.hierarchy, location, own) if own else ():
            if isinstance(found, RefusedNode):
                raise NotConvertibleError(found.reason, array=found.path)
            if isinstance(found, GroupNode):
                self.nodes[found.path] = _group(self, found.attributes)
            else:
                assert isinstance(found.manifest, Manifest)  # of objects that were listed
                listed = references_of(found.manifest)
                self.nodes[found.path] = _ComparedNode(self, "array", found.metadata, listed)

    def name_of(self, location: Location) -> str:
        """Return what is equal only for the same object."""
        root = self.hierarchy.sources.root
        if not isinstance(location, StoreLocation):
            return location.url
        return self.name + location.key if root is None else object_url([root], location.key).url


class _ComparedNode(Struct):
    """A group, or an array with its references: native ones are listed, others in documents."""

    side: _Side
    kind: Literal["group", "array"]
    metadata: dict[str, Any]
    listed: References | None = None
    documents: ManifestDocuments | None = None

    @property
    def partition_shape(self) -> tuple[int, ...] | None:
        declared = None if self.documents is None else self.documents.array.configuration
        return None if declared is None else declared.partition_shape

    @property
    def digests(self) -> Mapping[str, str] | None:
        """The digests of all documents by partition; None if they are not declared."""
        if self.documents is None:
            return None
        stated = self.documents.array.configuration
        if isinstance(stated.partitions, Mapping):
            return stated.partitions
        return None if stated.checksum is None else {"": stated.checksum}

    def says_the_same(self, other: _ComparedNode) -> bool:
        """Whether documents of the same bytes say the same in both."""
        forms: list[tuple[Any, ...]] = []
        for node in (self, other):
            assert node.documents is not None  # it has digests
            array = node.documents.array
            base = node.side.name_of(array.base.resolve("x"))
            forms.append((array.configuration.codecs, base))
        return forms[0] == forms[1]

    @property
    def grid_shape(self) -> tuple[int, ...]:
        return grid_of(self.metadata).counts

    async def partitions(self) -> set[Partition]:
        """Return the partitions that may have a document."""
        return {None} if self.documents is None else {*await self.documents.partitions()}

    async def table(self, partition: Partition) -> References:
        """Return the references of a partition, whose paths say where objects are."""
        if self.documents is None:
            assert self.listed is not None  # it is an array
            return self.listed
        loaded = await self.documents.partition(partition)
        return loaded.manifest.with_paths([*map(self.side.name_of, loaded.locations)])

    async def whole(self) -> References:
        """Return all references."""
        joined = JoinedReferences()
        calls = (functools.partial(self.table, each) for each in _in_order(await self.partitions()))
        async for table in in_order(calls, CONCURRENCY):
            joined.add_references(table)
        found = joined.references(self.grid_shape)
        assert found is not None  # each chunk is in one partition
        return found

    async def check_missing(self) -> None:
        if self.documents is not None:
            await self.documents.check_missing()


def _group(side: _Side, attributes: object) -> _ComparedNode:
    return _ComparedNode(side, "group", {"attributes": attributes or {}})


# Chunks ------------------------------------------------------------------------------


def _chunks(old: _ComparedNode, new: _ComparedNode) -> ChunkDifference | None:
    """Return the chunks that differ; None if the arrays are not divided alike."""
    if old.metadata["chunk_grid"] != new.metadata["chunk_grid"]:
        return None
    return sync(_compared(old, new))


async def _compared(old: _ComparedNode, new: _ComparedNode) -> ChunkDifference:
    async def part(partition: Partition) -> ChunkDifference:
        return compare_references(await old.table(partition), await new.table(partition))

    if old.partition_shape == new.partition_shape:
        calls = (functools.partial(part, each) for each in _in_order(await _to_compare(old, new)))
        found = [each async for each in in_order(calls, CONCURRENCY)]
    else:
        found = [compare_references(await old.whole(), await new.whole())]
    for node in (old, new):
        await node.check_missing()
    return ChunkDifference.joined(tuple(map(max, old.grid_shape, new.grid_shape)), found)


async def _to_compare(old: _ComparedNode, new: _ComparedNode) -> Iterable[Partition]:
    """Return the partitions whose documents may say different things."""
    before, after = old.digests, new.digests
    if before is None or after is None or not old.says_the_same(new):
        return await old.partitions() | await new.partitions()
    changed = [name for name in before.keys() | after if before.get(name) != after.get(name)]
    ndim = len(old.grid_shape)
    return [parse_canonical(name, ndim) if name else None for name in changed]


def _in_order(partitions: Iterable[Partition]) -> list[Partition]:
    return sorted(partitions, key=lambda partition: partition or ())


# Metadata ----------------------------------------------------------------------------


def _members(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield the members of metadata that differ, each with its values."""
    before, after = _flat(old), _flat(new)
    for name in before | after:
        values = before.get(name), after.get(name)
        if (name in before) != (name in after) or _text(values[0]) != _text(values[1]):
            yield name, values


def _flat(metadata: dict[str, Any]) -> dict[str, Any]:
    attributes: dict[str, Any] = metadata.get("attributes") or {}
    members = {name: value for name, value in metadata.items() if name != "attributes"}
    return members | {f"attributes.{name}": value for name, value in attributes.items()}


def _text(value: object) -> str:
    # Unlike JSON values themselves, the texts of two NaN are equal, and those of 1 and true differ.
    return json.dumps(value, sort_keys=True)


def brief_json(value: object, most: int = 60) -> str:
    """Return a member's value as JSON, of so many characters at most."""
    text = _text(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
