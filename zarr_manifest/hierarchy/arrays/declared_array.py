"""An array that declares a manifest: its declaration combined with its metadata.

Everything that is known before a manifest document is read. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zarr_manifest.errors import (
    InvalidConfigurationError,
    InvalidPathError,
    UnsupportedTransformerError,
)
from zarr_manifest.format import (
    ChunkGrid,
    Configuration,
    Findings,
    Partitions,
    collect,
    document_reference,
    element_size,
    format_canonical,
    interpret_chunk_grid,
    interpret_members,
    interpret_partition_names,
)
from zarr_manifest.hierarchy.arrays.key_encoding import ChunkKeyEncoding
from zarr_manifest.locations import Base, Location
from zarr_manifest.manifest import Grid
from zarr_manifest.showing import counted

__all__ = ["DeclaredArray", "interpret_array"]


@dataclass(frozen=True, slots=True)
class DeclaredArray:
    """What is needed to read the manifest of an array.

    Parameters
    ----------
    path : str
        Path of the array in the hierarchy's store, without slashes at either end.
    metadata : dict
        Metadata of the array.
    configuration : Configuration
        The array's declaration.
    encoding : ChunkKeyEncoding
        The array's own chunk keys.
    chunk_grid : ChunkGrid or None
        None if it is of an unknown kind.
    partitions : Partitions or None
        None if a single document holds the whole manifest.
    base : Base
        What the paths of entries resolve against.
    named : frozenset of str or None
        Names of the partitions that have a document; None if the declaration has no list.
    """

    path: str
    metadata: dict[str, Any]
    configuration: Configuration
    encoding: ChunkKeyEncoding
    chunk_grid: ChunkGrid | None
    partitions: Partitions | None
    base: Base
    named: frozenset[str] | None = None

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.metadata["shape"])

    def has_partition(self, partition: Sequence[int]) -> bool:
        """Whether a partition lies within the chunk grid."""
        return self.partitions is not None and self.partitions.contains(partition)

    def has_document(self, partition: Sequence[int] | None) -> bool | None:
        """Whether a partition has a document; None if the declaration does not say it.

        A manifest that is not partitioned always has one.
        """
        if partition is None or self.configuration.partitions == "all":
            return True
        return None if self.named is None else format_canonical(partition) in self.named

    def certainly_holds_nothing(self, partition: Sequence[int] | None) -> bool:
        """Whether a partition has no entries, so that its document need not be asked for."""
        if partition is None:
            return False
        return not self.has_partition(partition) or self.has_document(partition) is False

    def document(self, partition: Sequence[int] | None) -> Location | bytes:
        """Return the location of a partition's document, or the inline document.

        Raises
        ------
        InvalidPathError
            If the declaration's reference is not usable.
        """
        return _document(self.path, self.configuration, partition)

    def grid(self, partition: Sequence[int] | None) -> Grid:
        """Return the chunks that the keys of a partition's document may name."""
        region = None
        if self.partitions is not None and partition is not None:
            region = self.partitions.region(partition)
        shape = None if self.chunk_grid is None else self.chunk_grid.counts
        return Grid(self.ndim, shape, region, self.encoding.decode)

    def decoded_size(self, index: Sequence[int]) -> int:
        """Return the size of a decoded chunk in bytes; 0 if the metadata do not say it."""
        if self.chunk_grid is None:
            return 0
        return self.chunk_grid.elements(index) * element_size(self.metadata)


def interpret_array(
    path: str, metadata: dict[str, Any], configuration: Configuration, *, base: str | None = None
) -> Findings[DeclaredArray | None]:
    """Yield the problems of an array that declares a manifest, and return the array.

    Parameters
    ----------
    path : str
        Path of the array in the hierarchy's store, without slashes at either end.
    metadata : dict
        Metadata of the array.
    configuration : Configuration
        The array's declaration.
    base : str, optional
        The reader's own base for relative paths, resolved against the root of
        the hierarchy; None uses the declared base.
    """
    if not (yield from interpret_members(metadata)):
        return None
    ndim = len(metadata["shape"])
    chunk_grid, wrong = collect(interpret_chunk_grid(metadata))
    yield from wrong
    if wrong:
        return None
    encoding: ChunkKeyEncoding | None = None
    try:
        encoding = ChunkKeyEncoding(metadata, ndim)
    except InvalidConfigurationError as error:
        yield error
    partitions, named = yield from _interpret_partitions(configuration, chunk_grid, ndim)
    usable = configuration.partition_shape is None or partitions is not None
    resolved: Base | None = None
    try:
        # The declared base is checked even if the reader overrides it.
        declared = Base.parse(configuration.base, directory=path)
        resolved = declared if base is None else Base.parse(base)
    except InvalidPathError as error:
        yield error
    try:
        # The template is checked too: a partition must not complete a percent-encoded escape.
        _document(path, configuration, None)
        _document(path, configuration, (0,) * ndim)
    except InvalidPathError as error:
        yield error
        usable = False
    if not usable or encoding is None or resolved is None:
        return None
    encoding.learn(chunk_grid)
    return DeclaredArray(
        path, metadata, configuration, encoding, chunk_grid, partitions, resolved, named
    )


def _interpret_partitions(
    configuration: Configuration, chunk_grid: ChunkGrid | None, ndim: int
) -> Findings[tuple[Partitions | None, frozenset[str] | None]]:
    """Return the partitions of a manifest, and which are named; None if invalid, or not there."""
    shape = configuration.partition_shape
    if shape is None:
        return None, None
    if chunk_grid is None:
        yield UnsupportedTransformerError(
            "the manifest is partitioned, but the array's chunk grid is of an unknown kind"
        )
        return None, None
    if len(shape) != ndim:
        yield InvalidConfigurationError(
            f"'partition_shape' has {counted(len(shape), 'dimension')}, but the array has {ndim}"
        )
        return None, None
    named: frozenset[str] | None = None
    if isinstance(configuration.partitions, tuple):
        named = yield from interpret_partition_names(configuration.partitions, ndim)
        if named is None:
            return None, None
    return Partitions(chunk_grid.counts, shape), named


def _document(
    path: str, configuration: Configuration, partition: Sequence[int] | None
) -> Location | bytes:
    reference = configuration.manifest
    if isinstance(reference, bytes):
        return reference
    if configuration.partition_shape is not None and partition is not None:
        reference = document_reference(reference, partition)
    return Base.parse("./", directory=path).resolve(reference)
