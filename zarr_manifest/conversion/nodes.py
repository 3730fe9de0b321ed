"""What importers yield and writers report: nodes, refusals and notes.

Importers read one format and know nothing of writing; the writer knows nothing of
formats. They share only this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zarr_manifest.errors import ManifestError, NotConvertibleError
from zarr_manifest.format import ChunkGrid, interpret_chunk_grid, join, strict
from zarr_manifest.manifest import Manifest, References, join_references, references_of
from zarr_manifest.showing import counted, html_table, note_lines, size


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A group.

    Parameters
    ----------
    path : str
        Path in the hierarchy, without slashes at the ends; ``""`` for the root.
    attributes : dict
        JSON values.
    notes : tuple of str
        Decisions made where the input leaves a choice, as sentences.

    Examples
    --------
    >>> GroupNode("ocean", {"title": "North Atlantic"}).path
    'ocean'
    """

    path: str
    attributes: dict[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamedManifest:
    """A manifest too large to hold in memory.

    Parameters
    ----------
    partition_shape : tuple of int
        Number of chunks in a partition, along every dimension.
    parts : iterable of Manifest
        One for each partition with entries, in any order. Each has the shape of the
        whole chunk grid.
    is_in_order : bool
        Whether they are in C order of the partitions.

    Examples
    --------
    >>> parts = (Manifest.from_columns((4,), paths=f"{n}.nc", indices=[[n]]) for n in range(4))
    >>> [part.paths for part in StreamedManifest((1,), parts).parts]
    [('0.nc',), ('1.nc',), ('2.nc',), ('3.nc',)]
    """

    partition_shape: tuple[int, ...]
    parts: Iterable[Manifest]
    is_in_order: bool = False


def parts_of(manifest: Manifest | StreamedManifest) -> Iterable[Manifest]:
    """Return the parts of a streamed manifest, or a manifest as its only part."""
    return (manifest,) if isinstance(manifest, Manifest) else manifest.parts


@dataclass(frozen=True, slots=True)
class ArrayNode:
    """An array whose chunks lie elsewhere.

    Parameters
    ----------
    path : str
        Path in the hierarchy, without slashes at the ends; ``""`` for the root.
    metadata : dict
        Zarr v3 metadata document, without storage transformers.
    manifest : Manifest or StreamedManifest
        Where its chunks are.
    notes : tuple of str
        Decisions made where the input leaves a choice, as sentences.

    Examples
    --------
    >>> metadata = {
    ...     "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint8",
    ...     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    ...     "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
    ...     "codecs": [{"name": "bytes"}],
    ... }
    >>> manifest = Manifest.from_columns((2,), paths="raw.bin", offsets=[0, 4], lengths=4)
    >>> node = ArrayNode("ocean/sst", metadata, manifest)
    >>> node.manifest.grid_shape
    (2,)
    """

    path: str
    metadata: dict[str, Any]
    manifest: Manifest | StreamedManifest
    notes: tuple[str, ...] = ()


def grid_of(metadata: dict[str, Any]) -> ChunkGrid:
    """Return the chunk grid of an array.

    Raises
    ------
    NotConvertibleError
        It is of an unknown kind.
    """
    grid = strict(interpret_chunk_grid(metadata))
    if grid is None:
        raise NotConvertibleError("the chunk grid is of an unknown kind")
    return grid


def inline_manifest(
    grid_shape: tuple[int, ...], chunks: Mapping[tuple[int, ...], bytes] | None = None
) -> Manifest:
    """Return the manifest of an array whose chunks are inline, given by grid index, or absent."""
    none = np.zeros((0, len(grid_shape)), np.int64)
    return Manifest.from_columns(grid_shape, paths="", indices=none, data=chunks)


def whole(node: ArrayNode) -> References:
    """Return all references of an array.

    Raises
    ------
    ManifestError
        A part of its manifest cannot be read.
    """
    if isinstance(node.manifest, Manifest):
        return references_of(node.manifest)
    return join_references(map(references_of, node.manifest.parts), grid_of(node.metadata).counts)


def held[N: Node](node: N) -> N:
    """Return a node whose manifest is in memory.

    Raises
    ------
    ManifestError
        A part of its manifest cannot be read.
    """
    if not isinstance(node, ArrayNode) or isinstance(node.manifest, Manifest):
        return node
    return dataclasses.replace(node, manifest=Manifest(whole(node)))


@dataclass(frozen=True, slots=True)
class RefusedNode:
    """A node that cannot be expressed; the others are still converted.

    Parameters
    ----------
    path : str
        Path in the hierarchy, without slashes at the ends.
    code : str
        The error code.
    reason : str
        The reason, as a sentence.

    Examples
    --------
    >>> print(RefusedNode("ocean/sst", "not_convertible", "a chunk has a filter mask").reason)
    a chunk has a filter mask
    """

    path: str
    code: str
    reason: str


def refused(path: str, error: ManifestError) -> RefusedNode:
    """Return the node that an error refuses; its reason is the message without the array."""
    bare = type(error)(
        error.problem, chunk=error.chunk, location=error.location, remedy=error.remedy
    )
    return RefusedNode(path, error.code, bare.message)


def not_convertible(path: str, reason: str) -> RefusedNode:
    """Return a node that is refused because Zarr v3, or a manifest, cannot express it."""
    return RefusedNode(path, NotConvertibleError.code, reason)


def or_refused(path: str, make: Callable[[str], Node]) -> Node:
    """Return the node that `make` makes, or a refusal with the reason that it raises."""
    try:
        return make(path)
    except ManifestError as error:
        return refused(path, error)


def array_or_refused(node: Node, make: Callable[[ArrayNode], Node]) -> Node:
    """Return what `make` makes of an array, or its refusal; other nodes as they are."""
    return or_refused(node.path, lambda _: make(node)) if isinstance(node, ArrayNode) else node


def refused_lines(refused: Iterable[RefusedNode]) -> list[str]:
    """Return refusals as text."""
    return [f"{node.path or '/'}: {node.reason} ({node.code})" for node in refused]


def inside(group: str, node: Node) -> Node:
    """Return a node of one hierarchy as that of another, in which the first is a group.

    Examples
    --------
    >>> inside("0", GroupNode("", {})).path, inside("0", GroupNode("a", {})).path
    ('0', '0/a')
    """
    return dataclasses.replace(node, path=join(group, node.path))


# Called with the path of the array, or the URL of the file, that was just done, the number of
# references or files done, and their total; None if it is not known before the end.
type Progress = Callable[[str, int, int | None], None]


@dataclass(slots=True)
class Tally:
    """Counts references, and reports them as progress.

    Examples
    --------
    >>> tally = Tally(print)
    >>> tally.add("a", 2)
    a 2 None
    >>> tally.add("b", 3)
    b 5 None
    """

    progress: Progress | None
    done: int = 0

    def add(self, path: str, references: int) -> None:
        """Add references of an array."""
        self.done += references
        if self.progress is not None:
            self.progress(path, self.done, None)


type Node = GroupNode | ArrayNode | RefusedNode


@dataclass(frozen=True)
class Decisions:
    """Collects the notes about one array, and creates its refusals.

    Parameters
    ----------
    path : str
        Path of the array in its hierarchy; ``""`` is an array at the root.
    """

    path: str
    notes: list[str] = field(default_factory=list[str])

    def note(self, *sentences: str) -> None:
        """Record decisions; `sentences` have no full stop."""
        self.notes.extend(sentences)

    def refusal(self, problem: str, *, remedy: str | None = None) -> NotConvertibleError:
        """Return the error that refuses the array."""
        return NotConvertibleError(problem, array=self.path, remedy=remedy)


@dataclass(slots=True, repr=False)
class ConversionReport:
    """What was written, and what was not.

    Parameters
    ----------
    groups, arrays : int
        Number of nodes that were written.
    references : int
        Number of chunks in their manifests.
    stated_bytes : int
        Sum of the lengths of entries and of inline data, in bytes. Entries that run to
        the end of their object have no length.
    refused : list of RefusedNode
        Nodes that could not be expressed, each with the reason.
    notes : list of (str, str)
        Path of a node, and a decision made about it.

    Examples
    --------
    >>> report = ConversionReport(groups=1, arrays=2, references=30, stated_bytes=4096)
    >>> report.refused.append(RefusedNode("t", "not_convertible", "a filter mask"))
    >>> print(report)
    1 group, 2 arrays, 30 references to 4.1 kB
    refused 1 node:
      t: a filter mask (not_convertible)
    """

    groups: int = 0
    arrays: int = 0
    references: int = 0
    stated_bytes: int = 0
    refused: list[RefusedNode] = field(default_factory=list[RefusedNode])
    notes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def summary(self) -> str:
        """How much was written, in a line."""
        return ", ".join(self._counts())

    def _counts(self) -> list[str]:
        stated = f" to {size(self.stated_bytes)}" if self.stated_bytes else ""
        return [
            counted(self.groups, "group"),
            counted(self.arrays, "array"),
            counted(self.references, "reference") + stated,
        ]

    def __repr__(self) -> str:
        counts = [*self._counts(), f"{len(self.refused)} refused", counted(len(self.notes), "note")]
        return f"<ConversionReport: {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        refused, notes = refused_lines(self.refused), list(note_lines(self.notes))
        rows = [("Written", self._counts()), ("Refused", refused), ("Notes", notes)]
        return html_table("ConversionReport", rows)

    def __str__(self) -> str:
        lines = [self.summary]
        if self.refused:
            lines.append(f"refused {counted(len(self.refused), 'node')}:")
            lines += [f"  {line}" for line in refused_lines(self.refused)]
        if self.notes:
            lines.append(f"{counted(len(self.notes), 'note')}:")
            lines += [f"  {line}" for line in note_lines(self.notes)]
        return "\n".join(lines)
