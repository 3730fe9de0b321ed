"""All the private names of VirtualiZarr and its parsers that this package depends on.

Kept in one place, so that a single test notices when one of their releases moves them. They
are imported when they are needed, because they are optional.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.errors import NotConvertibleError

# The paths of chunks without a source, and of those whose bytes are in the manifest itself.
MISSING = ""
INLINED = "__inlined__"

# Number of chunks of a grid, each of which takes 32 bytes of memory.
_MOST_CHUNKS = 2**26


@dataclass(frozen=True)
class ManifestColumns:
    """What a ``ChunkManifest`` holds; it has no public name for its columns.

    Parameters
    ----------
    paths, offsets, lengths : array
        Of the shape of the chunk grid.
    inlined : dict
        Bytes of the chunks that have the path `INLINED`, by grid index.

    Examples
    --------
    >>> columns = ManifestColumns.of_grid((2,))
    >>> columns.paths[0], columns.offsets[0], columns.lengths[0] = "file:///a.nc", 100, 24
    >>> manifest = columns.manifest()
    >>> manifest.dict()
    {'0': {'path': 'file:///a.nc', 'offset': 100, 'length': 24}}
    >>> ManifestColumns.of(manifest).stored
    array([ True, False])
    """

    paths: npt.NDArray[Any]
    offsets: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    inlined: dict[tuple[int, ...], bytes]

    @classmethod
    def of(cls, manifest: Any) -> ManifestColumns:
        """Return the columns of a ``ChunkManifest``, not copied."""
        return cls(manifest._paths, manifest._offsets, manifest._lengths, manifest._inlined)

    @classmethod
    def of_grid(cls, grid_shape: tuple[int, ...]) -> ManifestColumns:
        """Return columns in which all chunks are missing.

        Raises
        ------
        NotConvertibleError
            There are too many, as in a damaged file: VirtualiZarr needs memory for every chunk,
            whether it exists or not.
        """
        count = math.prod(grid_shape)
        if count > _MOST_CHUNKS:
            raise NotConvertibleError(
                f"it has {count:,} chunks, written or not, and VirtualiZarr holds each in memory "
                f"(limit: {_MOST_CHUNKS:,})"
            )
        paths: npt.NDArray[Any] = np.full(grid_shape, MISSING, np.dtypes.StringDType())
        return cls(paths, np.zeros(grid_shape, np.uint64), np.zeros(grid_shape, np.uint64), {})

    @property
    def stored(self) -> npt.NDArray[np.bool_]:
        """Which chunks are in an object: neither missing nor inlined."""
        found: npt.NDArray[np.bool_] = np.not_equal(self.paths, MISSING)
        found &= np.not_equal(self.paths, INLINED)
        return found

    def objects(self) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Return the paths of objects, and which of them each stored chunk is in."""
        given = self.paths[self.stored]
        # Sorting a million strings takes seconds, and most arrays are in one object.
        if not given.size or (given == given[0]).all():
            return list(map(str, given[:1])), np.zeros(len(given), np.int64)
        distinct, numbers = np.unique(given, return_inverse=True)
        return list(map(str, distinct)), numbers

    def of_scalar(self) -> ManifestColumns:
        """Return the columns of an only chunk, without dimensions."""
        columns = self.paths.reshape(()), self.offsets.reshape(()), self.lengths.reshape(())
        return ManifestColumns(*columns, {index[:0]: data for index, data in self.inlined.items()})

    def manifest(self) -> Any:
        """Return the ``ChunkManifest``."""
        manifests: Any = library("virtualizarr.manifests")
        return manifests.ChunkManifest.from_arrays(
            paths=self.paths,
            offsets=self.offsets,
            lengths=self.lengths,
            inlined=self.inlined,
            validate_paths=False,
        )

    def array(self, metadata: Any) -> Any:
        """Return the ``ManifestArray`` with these chunks."""
        manifests: Any = library("virtualizarr.manifests")
        return manifests.ManifestArray(metadata=metadata, chunkmanifest=self.manifest())


def group_of(store: Any) -> Any:
    """Return the ``ManifestGroup`` of a ``ManifestStore``."""
    return store._group


def is_virtual(variable: Any) -> bool:
    """Whether an xarray variable wraps a ``ManifestArray``; does not load it."""
    return isinstance(variable._data, library("virtualizarr.manifests").ManifestArray)


def hdf5_codecs(filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the Zarr v3 codecs for the filters of an HDF5 dataset, as h5py names them."""
    if not filters:
        return []
    parser: Any = library("virtualizarr.parsers.hdf.filters")
    convert: Any = library("virtualizarr.codecs").zarr_codec_config_to_v3
    codecs: list[Any] = parser.codecs_from_dataset(SimpleNamespace(_filters=filters))
    return [convert(codec.get_config()) for codec in codecs]


def grib_group(url: str, dataset: dict[str, Any]) -> Any:
    """Return the ``ManifestGroup`` for what gribberish made of a GRIB file."""
    return library("gribberish.virtualizarr.parser", "reading GRIB")._manifest_group(url, dataset)


def tiff_data_type(image: Any) -> np.dtype[Any] | None:
    """Return the data type of a TIFF image's samples, or None if numpy has none like it."""
    parser = library("virtual_tiff.parser", "reading TIFF")
    data_type: np.dtype[Any] | None = parser._get_dtype(image.sample_format, image.bits_per_sample)
    return data_type


def tiff_array(url: str, tiff: Any, image: Any) -> Any:
    """Return the ``ManifestArray`` for an image of a TIFF file."""
    parser = library("virtual_tiff.parser", "reading TIFF")
    endian = parser._ENDIANNESS_TO_STR[tiff.endianness]
    return parser._construct_manifest_array(ifd=image, url=url, endian=endian)
