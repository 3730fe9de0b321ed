"""The declaration of a manifest array that gets another shape. Pure."""

from __future__ import annotations

from typing import Any

from zarr_manifest.errors import Advice, ReadOnlyError, Setting
from zarr_manifest.format import (
    MOST_NAMES,
    TRANSFORMERS,
    ArrayMetadata,
    ChunkGrid,
    Partitions,
    collect,
    format_canonical,
    interpret_declaration,
    is_declaration,
)
from zarr_manifest.showing import counted


def resized_declaration(path: str, stored: ArrayMetadata, new: ArrayMetadata) -> dict[str, Any]:
    """Return the members that declare the manifest in new metadata of an array.

    That all partitions have a document is not true of a larger grid. In a smaller one, documents
    outside are kept, to be read again if the array grows back: so the names of all take the
    place of ``"all"``.

    Parameters
    ----------
    path : str
        Path of the array in the hierarchy.
    stored : ArrayMetadata
        Its present metadata, with the declaration.
    new : ArrayMetadata
        Its new metadata, without one.

    Raises
    ------
    ReadOnlyError
        There are too many partitions to name them all.
    """
    declared = stored.declaration
    if all(stored.metadata.get(name) == new.metadata.get(name) for name in ("shape", "chunk_grid")):
        return declared
    configuration, problems = collect(interpret_declaration(stored.metadata))
    if configuration is None or problems or configuration.partitions != "all":
        return declared
    shape = configuration.partition_shape or ()
    before, after = _partitions(stored, shape), _partitions(new, shape)
    if before is None or after is None or before.counts == after.counts:
        return declared
    if before.total > MOST_NAMES:
        raise ReadOnlyError(
            f"the array cannot be resized: its manifest has {counted(before.total, 'partition')}, "
            f"which would have to be named one by one; the limit is {MOST_NAMES:,}",
            array=path,
            remedy=Advice("Write the manifest with a larger ", Setting("partition_shape"), "."),
        )
    names = [format_canonical(index) for index in before]
    transformers = [
        _with_partitions(item, names) if is_declaration(item) else item
        for item in stored.transformers
    ]
    return {**declared, TRANSFORMERS: transformers}


def _partitions(array: ArrayMetadata, shape: tuple[int, ...]) -> Partitions | None:
    grid = ChunkGrid.from_metadata(array.metadata)
    if grid is None or len(shape) != len(grid.counts):
        return None  # the array cannot be read
    return Partitions(grid.counts, shape)


def _with_partitions(declaration: dict[str, Any], names: list[str]) -> dict[str, Any]:
    configuration = {**declaration["configuration"], "partitions": names}
    return {**declaration, "configuration": configuration}
