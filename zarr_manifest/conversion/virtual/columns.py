"""References as the columns of VirtualiZarr's ``ChunkManifest``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from zarr_manifest.conversion.virtualizarr_internals import INLINED, ManifestColumns
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import grid_index
from zarr_manifest.manifest import TO_THE_END, References
from zarr_manifest.showing import counted

__all__ = ["add_references", "columns_of_grid"]

# Some 3 GB, even if most are missing.
_MOST_CHUNKS = 10**8


def columns_of_grid(grid_shape: tuple[int, ...]) -> ManifestColumns:
    """Return columns in which all chunks are missing.

    Raises
    ------
    NotConvertibleError
        There are too many for VirtualiZarr.
    """
    chunks = math.prod(grid_shape)
    if chunks > _MOST_CHUNKS:
        raise NotConvertibleError(
            f"its chunk grid has {counted(chunks, 'chunk')}, and VirtualiZarr holds each in "
            f"memory; the limit is {_MOST_CHUNKS:,}"
        )
    return ManifestColumns.of_grid(grid_shape)


def add_references(
    columns: ManifestColumns,
    references: References,
    urls: Sequence[str],
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Add references to columns; explicitly empty chunks stay missing.

    Parameters
    ----------
    columns : ManifestColumns
        Of the whole chunk grid.
    references : References
        To all of its chunks, or some.
    urls : sequence of str
        URLs for their paths.
    sizes : mapping of str to int, optional
        Sizes of whole objects, by URL.

    Raises
    ------
    NotConvertibleError
        VirtualiZarr cannot express a reference.
    """
    stated = references.columns()
    has_path = stated.path_numbers >= 0
    chunks = stated.numbers[has_path]
    offsets, lengths = stated.offsets[has_path], stated.lengths[has_path]
    path_numbers = stated.path_numbers[has_path]
    open_ended = np.flatnonzero(lengths == TO_THE_END)
    if len(open_ended) and sizes is None:
        raise NotConvertibleError(
            "some of its chunks run to the end of their object, but VirtualiZarr needs their "
            "lengths"
        )
    for row in open_ended.tolist():
        assert sizes is not None
        lengths[row] = sizes[urls[path_numbers.item(row)]] - offsets.item(row)
    # NumPy 2.1 frees memory twice where several elements of its own type of text are taken.
    columns.paths.reshape(-1)[chunks] = np.array(urls, object)[path_numbers]
    columns.offsets.reshape(-1)[chunks] = offsets
    columns.lengths.reshape(-1)[chunks] = lengths
    for extra, rows in references.extras():
        if extra.conditions.version is not None:
            raise NotConvertibleError("some of its chunks refer to a version of their object")
        if extra.data is not None:
            for row in rows:
                index = grid_index(references.grid_shape, stated.numbers.item(row))
                columns.inlined[index] = extra.data
                columns.paths[index], columns.lengths[index] = INLINED, len(extra.data)
