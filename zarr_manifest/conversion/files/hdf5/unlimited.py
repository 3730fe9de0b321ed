"""Unlimited dimensions of netCDF-4: as long as the longest variable that has them.

HDF5 stores a length for every dataset. netCDF extends the shorter ones to the longest with
fill values; so does xarray, which refuses variables of different lengths.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zarr_manifest.conversion.files.hdf5.arrays import require_possible_grid
from zarr_manifest.conversion.files.trees import FileTree
from zarr_manifest.conversion.virtualizarr_internals import ManifestColumns
from zarr_manifest.errors import NotConvertibleError

__all__ = ["UnlimitedDimensions"]


@dataclass
class UnlimitedDimensions:
    """Collects the lengths of the dimensions of a file, and extends its variables to them."""

    _lengths: dict[str, int] = field(default_factory=dict[str, int])
    _arrays: list[tuple[dict[str, Any], str, str, tuple[str | None, ...]]] = field(
        default_factory=list[Any]
    )

    def see(self, dataset: Any, paths: Sequence[str | None]) -> None:
        """Record the lengths of a dataset along the dimensions of these paths."""
        for path, length in zip(paths, dataset.shape or (), strict=False):
            if path is not None:
                self._lengths[path] = max(self._lengths.get(path, 0), length)

    def add(
        self,
        arrays: dict[str, Any],
        path: str,
        name: str,
        dataset: Any,
        paths: Sequence[str | None],
    ) -> None:
        """Add an array of a group, some of whose dimensions may be longer than it is."""
        unlimited = tuple(
            path if longest is None else None
            for path, longest in zip(paths, dataset.maxshape, strict=True)
        )
        if any(unlimited):
            self._arrays.append((arrays, path, name, unlimited))

    def fill_up(self, tree: FileTree) -> None:
        """Replace the arrays by ones as long as their dimensions, or refuse them."""
        for arrays, path, name, unlimited in self._arrays:
            array = arrays[name]
            shape = tuple(
                length if path is None else self._lengths[path]
                for path, length in zip(unlimited, array.shape, strict=True)
            )
            if shape == array.shape:
                continue
            try:
                arrays[name] = _with_shape(array, shape)
            except NotConvertibleError as error:
                tree.refuse(path, error.message)
                del arrays[name]


def _with_shape(array: Any, shape: tuple[int, ...]) -> Any:
    chunks = array.metadata.chunk_grid.chunk_shape
    require_possible_grid(shape, chunks)
    counts = tuple(-(-length // size) for length, size in zip(shape, chunks, strict=True))
    old, new = ManifestColumns.of(array.manifest), ManifestColumns.of_grid(counts)
    # Parsers give arrays without chunks an arbitrary grid.
    if all(map(int.__le__, old.paths.shape, counts)):
        there = tuple(slice(0, count) for count in old.paths.shape)
        new.paths[there], new.offsets[there] = old.paths, old.offsets
        new.lengths[there] = old.lengths
    new.inlined.update(old.inlined)
    return new.array(dataclasses.replace(array.metadata, shape=shape))
