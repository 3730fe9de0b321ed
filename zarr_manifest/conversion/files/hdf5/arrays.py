"""HDF5 datasets as virtual arrays: references through VirtualiZarr, or values inline."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from zarr.core.metadata.v3 import ArrayV3Metadata

from zarr_manifest.conversion.files.hdf5.datasets import Treatment
from zarr_manifest.conversion.files.trees import with_metadata
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.target import encoded_chunks, unwritten_array
from zarr_manifest.conversion.values import (
    brief,
    is_utf8,
    json_attributes,
    packed_type,
    packed_values,
    text_of,
)
from zarr_manifest.conversion.virtualizarr_internals import (
    INLINED,
    MISSING,
    ManifestColumns,
    hdf5_array,
)
from zarr_manifest.errors import NotConvertibleError

__all__ = ["require_possible_grid", "virtual_array"]

# The filter bzip2, for which VirtualiZarr names a codec of imagecodecs that zarr does not know;
# that of numcodecs decodes the same.
_BZIP2 = "307"

# The filter Blosc, and what it takes for options that a file omits: revisions of the filter and
# of Blosc, size of an element and of a chunk, and then level, shuffle and compressor.
_BLOSC = "32001"
_BLOSC_DEFAULTS = (2, 2, 1, 0, 5, 1, 0)

# What VirtualiZarr takes for the scale of a dimension, whose name it need not look for.
_NAMELESS = SimpleNamespace(name="")

# Number of chunks of a grid, each of which takes 32 bytes of memory.
_MAX_CHUNKS = 2**26


def virtual_array(
    url: str,
    dataset: Any,
    treatment: Treatment,
    *,
    dimension_names: tuple[str, ...],
    attributes: Mapping[Any, Any],
    note: Callable[[str], None],
    alike: dict[Hashable, Any],
) -> Any:
    """Return the ``ManifestArray`` for a dataset.

    Parameters
    ----------
    url : str
        Of its file.
    dataset : h5py.Dataset
        Of an open file.
    treatment : Treatment
        How it becomes an array.
    dimension_names, attributes
        Of the array; the attributes may have any values.
    note : callable
        Called with sentences about what changed.
    alike : dict
        Arrays of the same file, remembered because others are like them.
    """
    if treatment is Treatment.UNWRITTEN:
        array = _without_chunks(dataset)
    elif treatment is Treatment.REFERENCES and dataset.chunks is None:
        array = _contiguous(url, dataset, note, alike)
    else:
        array = _parsed(url, dataset, note, is_inline=treatment is Treatment.INLINE)
    if _has_undefined_fill_value(dataset) and MISSING in ManifestColumns.of(array.manifest).paths:
        note("its fill value is undefined: chunks that were never written read as 0")
    found, notes = json_attributes(attributes, array.dtype)
    array = with_metadata(array, dimension_names=dimension_names, attributes=found)
    for sentence in notes:
        note(sentence)
    if treatment is Treatment.INLINE:
        note("its values are stored inline, as references cannot express them")
        if not ManifestColumns.of(array.manifest).inlined:
            return _with_chunks(array, encoded_chunks(array.metadata, packed_values(dataset[()])))
    return array


def require_possible_grid(shape: Sequence[int], chunks: Sequence[int]) -> None:
    """Refuse a chunk grid that does not fit into memory, such as that of a damaged shape.

    Raises
    ------
    NotConvertibleError
        VirtualiZarr needs memory for every chunk, whether it exists or not.
    """
    count = math.prod(-(-length // size) for length, size in zip(shape, chunks, strict=True))
    if count > _MAX_CHUNKS:
        raise NotConvertibleError(
            f"its shape {brief(tuple(shape))} has {count:,} chunks, written or not "
            f"(limit: {_MAX_CHUNKS:,})"
        )


def _parsed(url: str, dataset: Any, note: Callable[[str], None], *, is_inline: bool) -> Any:
    bare = _BareDataset(dataset, is_inline=is_inline)
    chunks: tuple[int, ...] | None = dataset.chunks
    is_empty = False
    if chunks is not None:
        require_possible_grid(dataset.shape, chunks)
        is_empty = not dataset.id.get_num_chunks()
    if chunks is not None and is_empty:
        # VirtualiZarr would take memory for every element.
        bare.shape = tuple(map(min, dataset.shape, chunks))
    array = hdf5_array(url, bare)
    if bare.has_latin_1:
        note("some of its strings are not UTF-8, and were read as Latin-1")
    return _with_chunks(with_metadata(array, shape=dataset.shape), {}) if is_empty else array


def _contiguous(
    url: str, dataset: Any, note: Callable[[str], None], alike: dict[Hashable, Any]
) -> Any:
    """Parse a dataset that is not chunked, such as MATLAB writes by the thousand.

    VirtualiZarr takes a millisecond for each, so it parses one of those that differ in their
    shapes and positions only.
    """
    shape: tuple[int, ...] = dataset.shape
    dtype = packed_type(dataset.dtype)
    kind = (dtype, np.asarray(_fill_value(dataset), dtype).tobytes(), len(shape))
    if kind not in alike:
        array = _parsed(url, dataset, note, is_inline=False)
        if array.metadata.chunk_grid.chunk_shape == shape:
            alike[kind] = array
        return array
    metadata = alike[kind].metadata
    if metadata.shape != shape:
        grid = dataclasses.replace(metadata.chunk_grid, chunk_shape=shape)
        metadata = dataclasses.replace(metadata, shape=shape, chunk_grid=grid)
    columns = ManifestColumns.of_grid((1,) * len(shape))
    columns.paths[...] = ManifestColumns.of(alike[kind].manifest).paths
    columns.offsets[...] = dataset.id.get_offset()
    columns.lengths[...] = dataset.id.get_storage_size()
    return columns.array(metadata)


class _BareDataset:
    """What VirtualiZarr needs of a dataset, without attributes and dimension scales.

    It would read all attributes, and fail because of one. It would ask for the name of each
    scale, for which HDF5 searches the file.
    """

    def __init__(self, dataset: Any, *, is_inline: bool) -> None:
        self._dataset = dataset
        self._is_inline = is_inline
        self.attrs: dict[str, Any] = {}
        self.dims = [(_NAMELESS,)] * len(dataset.shape)
        self.name = ""
        self.shape: tuple[int, ...] = dataset.shape
        self.id = _ChunksInside(dataset)
        self.has_latin_1 = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    @property
    def dtype(self) -> np.dtype[Any]:
        return packed_type(self._dataset.dtype)

    @property
    def fillvalue(self) -> Any:
        return _fill_value(self._dataset)

    def __getitem__(self, region: Any) -> Any:
        return packed_values(self._dataset[region])

    @property
    def _filters(self) -> dict[str, Any]:
        """The options of filters by name or number, in order.

        VirtualiZarr counts those of Blosc from the end.
        """
        found = dict(self._dataset._filters)  # noqa: SLF001 - h5py's
        if self._is_inline:
            # Values that are encoded anew need not be as the other filters expect them.
            return {name: options for name, options in found.items() if name == "gzip"}
        if _BLOSC in found:
            stated = found[_BLOSC] or ()
            found[_BLOSC] = (*stated, *_BLOSC_DEFAULTS[len(stated) :])[: len(_BLOSC_DEFAULTS)]
        return {"bz2" if name == _BZIP2 else name: options for name, options in found.items()}

    def asstr(self) -> _Texts:
        return _Texts(self)


def _fill_value(dataset: Any) -> Any:
    """Return the fill value of a dataset; zero if it is undefined, so that any may be read."""
    if _has_undefined_fill_value(dataset):
        return np.zeros((), packed_type(dataset.dtype))[()]
    return packed_values(dataset.fillvalue)


def _has_undefined_fill_value(dataset: Any) -> bool:
    h5: Any = library("h5py")
    return bool(dataset.id.get_create_plist().fill_value_defined() == h5.h5d.FILL_VALUE_UNDEFINED)


class _ChunksInside:
    """The identifier of a dataset without chunks beyond its shape, as HDF5 reads none of them.

    A writer that was killed may have stored them before the new shape.
    """

    def __init__(self, dataset: Any) -> None:
        self._identifier = dataset.id
        self._shape = dataset.shape

    def __getattr__(self, name: str) -> Any:
        return getattr(self._identifier, name)

    def chunk_iter(self, take: Callable[[Any], None]) -> None:
        """Call a function with every chunk."""

        def take_inside(chunk: Any) -> None:
            if all(map(operator.lt, chunk.chunk_offset, self._shape)):
                take(chunk)

        self._identifier.chunk_iter(take_inside)


class _Texts:
    """Strings of a dataset, decoded."""

    def __init__(self, bare: _BareDataset) -> None:
        self._bare = bare

    def __getitem__(self, region: Any) -> Any:
        found = self._bare[region]
        if isinstance(found, bytes):
            return self._decoded(found)
        decoded: Any = np.empty(found.shape, object)
        decoded.flat = [self._decoded(raw) for raw in found.flat]
        return decoded

    def _decoded(self, raw: bytes) -> str:
        self._bare.has_latin_1 |= not is_utf8(raw)
        return text_of(raw)


def _without_chunks(dataset: Any) -> Any:
    h5: Any = library("h5py")
    dtype: Any = packed_type(dataset.dtype)
    if dtype.kind in "iuf":
        dtype = np.dtype(dtype.str)  # without the names of an enumeration
    fill_value = _fill_value(dataset)
    if h5.check_string_dtype(dataset.dtype) and dtype.kind == "O":
        dtype = np.dtypes.StringDType()
        fill_value = text_of(fill_value) if isinstance(fill_value, bytes) else ""
    metadata = unwritten_array(
        dataset.shape,
        dtype,
        dimension_names=[None] * len(dataset.shape),
        attributes={},
        fill_value=fill_value,
        chunks=dataset.chunks,
    )
    shape = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    counts = tuple(-(-n // c) for n, c in zip(dataset.shape, shape, strict=True))
    return ManifestColumns.of_grid(counts).array(ArrayV3Metadata.from_dict(metadata))


def _with_chunks(array: Any, chunks: Mapping[tuple[int, ...], bytes]) -> Any:
    grid = array.metadata.chunk_grid.chunk_shape
    counts = tuple(-(-n // c) for n, c in zip(array.shape, grid, strict=True))
    columns = ManifestColumns.of_grid(counts)
    for index, data in chunks.items():
        columns.paths[index], columns.lengths[index] = INLINED, len(data)
        columns.inlined[index] = data
    return columns.array(array.metadata)
