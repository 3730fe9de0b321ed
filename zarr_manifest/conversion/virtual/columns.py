"""Manifests as the columns of VirtualiZarr's ``ChunkManifest``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from zarr_manifest.conversion.virtualizarr_internals import INLINED, ManifestColumns
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.manifest import References
from zarr_manifest.showing import counted

__all__ = ["ChunkColumns"]

# Some 3 GB, even if most are missing.
_MOST_CHUNKS = 10**8


class ChunkColumns:
    """Values for every chunk of a grid; at first, all chunks are missing.

    Parameters
    ----------
    grid_shape : tuple of int
        Number of chunks along every dimension.
    """

    def __init__(self, grid_shape: tuple[int, ...]) -> None:
        chunks = math.prod(grid_shape)
        if chunks > _MOST_CHUNKS:
            raise NotConvertibleError(
                f"its chunk grid has {counted(chunks, 'chunk')}, and VirtualiZarr holds each in "
                f"memory; the limit is {_MOST_CHUNKS:,}"
            )
        self._columns = ManifestColumns.of_grid(grid_shape)

    def put(self, index: tuple[int, ...], path: str, offset: int, length: int) -> None:
        """Set the location of a chunk."""
        self._columns.paths[index] = path
        self._columns.offsets[index] = offset
        self._columns.lengths[index] = length

    def add(
        self, manifest: References, urls: Sequence[str], sizes: Mapping[str, int] | None = None
    ) -> None:
        """Add the entries of a manifest.

        Parameters
        ----------
        manifest : References
            Covers the grid, or a part of it. Explicitly empty chunks stay missing.
        urls : sequence of str
            URLs for its paths.
        sizes : mapping of str to int, optional
            Sizes of whole objects, by URL.

        Raises
        ------
        NotConvertibleError
            VirtualiZarr cannot express an entry.
        """
        for index, reference in manifest.items():
            if reference.is_empty:
                continue
            if reference.data is not None:
                self._columns.inlined[index] = reference.data
                self.put(index, INLINED, 0, len(reference.data))
                continue
            if reference.conditions.version is not None:
                raise NotConvertibleError("some of its chunks refer to a version of their object")
            url, length = urls[reference.path_number], reference.length
            if length is None and sizes is not None:
                length = sizes[url] - reference.offset
            if length is None:
                raise NotConvertibleError(
                    "some of its chunks run to the end of their object, but VirtualiZarr needs "
                    "their lengths"
                )
            self.put(index, url, reference.offset, length)

    def chunk_manifest(self) -> Any:
        """Return the ``ChunkManifest``."""
        return self._columns.manifest()
