"""An array that declares a manifest: its declaration combined with its metadata.

Everything that is known before a manifest document is read. Does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

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


class DeclaredArray(Struct, frozen=True):
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
    chunk_grid : ChunkGrid
        The array's chunks.
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
    chunk_grid: ChunkGrid
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
        return Grid(self.ndim, self.chunk_grid.counts, region, self.encoding.decode)

    def decoded_size(self, index: Sequence[int]) -> int:
        """Return the size of a decoded chunk in bytes; 0 if the metadata do not say it."""
        return self.chunk_grid.elements(index) * element_size(self.metadata)


def interpret_array(
    path: str,
    metadata: dict[str, Any],
    configuration: Configuration,
    *,
    base: str | None = None,
    schemes: frozenset[str] = frozenset(),
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
    schemes : frozenset of str, optional
        Schemes of sources that only this reader knows.
    """
    chunk_grid = yield from _interpret_chunk_grid(metadata)
    encoding = yield from _interpret_encoding(metadata, chunk_grid)
    partitions, named = yield from _interpret_partitions(configuration, chunk_grid)
    usable = configuration.partition_shape is None or partitions is not None
    resolved = yield from _interpret_base(path, configuration, base, schemes)
    usable &= yield from _interpret_document(path, configuration, chunk_grid)
    # What else zarr needs, and refuses without naming it.
    usable &= yield from interpret_members(metadata, ("data_type", "codecs", "fill_value"))
    if not usable or chunk_grid is None or encoding is None or resolved is None:
        return None
    encoding.learn(chunk_grid)
    return DeclaredArray(
        path, metadata, configuration, encoding, chunk_grid, partitions, resolved, named
    )


def _interpret_chunk_grid(metadata: dict[str, Any]) -> Findings[ChunkGrid | None]:
    if not (yield from interpret_members(metadata, ("shape", "chunk_grid"))):
        return None
    chunk_grid, wrong = collect(interpret_chunk_grid(metadata))
    yield from wrong
    if chunk_grid is None and not wrong:
        given: Any = metadata["chunk_grid"]
        name: str = given if isinstance(given, str) else given["name"]
        yield UnsupportedTransformerError(
            f"the array has an unknown chunk_grid {name!r}",
            remedy="Only 'regular' and 'rectilinear' can be read.",
        )
    return None if wrong else chunk_grid


def _interpret_encoding(
    metadata: dict[str, Any], chunk_grid: ChunkGrid | None
) -> Findings[ChunkKeyEncoding | None]:
    if not (yield from interpret_members(metadata, ("chunk_key_encoding",))):
        return None
    try:
        return ChunkKeyEncoding(metadata, 0 if chunk_grid is None else len(chunk_grid.shape))
    except (InvalidConfigurationError, UnsupportedTransformerError) as error:
        yield error
        return None


def _interpret_partitions(
    configuration: Configuration, chunk_grid: ChunkGrid | None
) -> Findings[tuple[Partitions | None, frozenset[str] | None]]:
    """Return the partitions of a manifest, and which are named; None if invalid, or not there."""
    shape = configuration.partition_shape
    if shape is None or chunk_grid is None:
        return None, None
    ndim = len(chunk_grid.shape)
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


def _interpret_base(
    path: str, configuration: Configuration, override: str | None, schemes: frozenset[str]
) -> Findings[Base | None]:
    try:
        # The declared base is checked even if the reader overrides it.
        declared = Base.parse(configuration.base, directory=path, schemes=schemes)
        return declared if override is None else Base.parse(override, schemes=schemes)
    except InvalidPathError as error:
        yield error
        return None


def _interpret_document(
    path: str, configuration: Configuration, chunk_grid: ChunkGrid | None
) -> Findings[bool]:
    """Yield what is wrong with the reference of the document; return whether it is usable."""
    ndim = 0 if chunk_grid is None else len(chunk_grid.shape)
    try:
        # The template is checked too: a partition must not complete a percent-encoded escape.
        _document(path, configuration, None)
        _document(path, configuration, (0,) * ndim)
    except InvalidPathError as error:
        yield error
        return False
    return True


def _document(
    path: str, configuration: Configuration, partition: Sequence[int] | None
) -> Location | bytes:
    reference = configuration.manifest
    if isinstance(reference, bytes):
        return reference
    if configuration.partition_shape is not None and partition is not None:
        reference = document_reference(reference, partition)
    return Base.parse("./", directory=path).resolve(reference)
