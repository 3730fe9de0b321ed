"""HDF5 datasets as nodes: references to their chunks, or values inline.

VirtualiZarr has a parser, too, but it reads all attributes, and fails because of one; it asks for
the name of each dimension scale, for which HDF5 searches the file; and it takes a millisecond for
each dataset, of which MATLAB writes thousands. Of it, only the codecs for filters are used.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.files.hdf5.datasets import Treatment
from zarr_manifest.conversion.nodes import ArrayNode, grid_of, inline_manifest
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.target import encoded_chunks
from zarr_manifest.conversion.values import (
    is_utf8,
    json_attributes,
    packed_type,
    packed_values,
    text_of,
)
from zarr_manifest.conversion.virtual import checked_metadata, json_metadata
from zarr_manifest.conversion.virtualizarr_internals import hdf5_codecs
from zarr_manifest.manifest import Manifest

# The filter bzip2, for which VirtualiZarr names a codec of imagecodecs that zarr does not know;
# that of numcodecs decodes the same.
_BZIP2 = "307"

# The filter Blosc, and what it takes for options that a file omits: revisions of the filter and
# of Blosc, size of an element and of a chunk, and then level, shuffle and compressor.
_BLOSC = "32001"
_BLOSC_DEFAULTS = (2, 2, 1, 0, 5, 1, 0)


def node_of_dataset(
    path: str,
    url: str,
    dataset: Any,
    treatment: Treatment,
    *,
    dimension_names: tuple[str, ...],
    attributes: Mapping[Any, Any],
    notes: list[str],
    alike: dict[Hashable, Any],
) -> ArrayNode:
    """Return the node for a dataset.

    Parameters
    ----------
    path : str
        Path of the node.
    url : str
        Of its file.
    dataset : h5py.Dataset
        Of an open file.
    treatment : Treatment
        How it becomes an array.
    dimension_names, attributes
        Of the array; the attributes may have any values.
    notes : list of str
        Notes so far; gets sentences about what changed.
    alike : dict
        Metadata of other datasets of the file: to make similar ones from it takes less time.

    Raises
    ------
    NotConvertibleError
        Zarr could not read the array.
    """
    is_inline = treatment is Treatment.INLINE
    values: Any = _values(dataset, notes) if is_inline else None
    dtype: np.dtype[Any] = values.dtype if is_inline else _data_type(dataset)
    chunks = _chunk_shape(dataset, is_inline=is_inline)
    found, changed = json_attributes(attributes, dtype)
    metadata = _metadata(dataset, dtype, alike, is_inline=is_inline) | {
        "shape": list(dataset.shape),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "dimension_names": list(dimension_names),
        "attributes": found,
    }
    counts = grid_of(metadata).counts
    if treatment is Treatment.REFERENCES:
        manifest = _references(counts, url, dataset, chunks)
    elif is_inline:
        encoded = encoded_chunks(metadata, values)
        manifest = inline_manifest(counts, encoded)
    else:
        manifest = inline_manifest(counts)
    if _has_undefined_fill_value(dataset) and len(manifest) < math.prod(counts):
        notes.append("its fill value is undefined: chunks that were never written read as 0")
    notes += changed
    if is_inline:
        notes.append("its values are stored inline, as references cannot express them")
    return ArrayNode(path, metadata, manifest, tuple(notes))


def _data_type(dataset: Any) -> Any:
    dtype = packed_type(dataset.dtype)
    return np.dtypes.StringDType() if dtype.kind == "O" else dtype


def _chunk_shape(dataset: Any, *, is_inline: bool) -> tuple[int, ...]:
    shape = tuple(max(1, length) for length in dataset.shape)
    stated: tuple[int, ...] | None = dataset.chunks
    if stated is None:
        return shape
    chunks = tuple(map(min, stated, shape))
    # Of a chunk that is just its values, the first rows are a range of bytes.
    is_filtered = dataset.id.get_create_plist().get_nfilters() > 0
    return chunks if is_inline or not (is_filtered or chunks[1:] != stated[1:]) else stated


def _metadata(
    dataset: Any, dtype: np.dtype[Any], alike: dict[Hashable, Any], *, is_inline: bool
) -> dict[str, Any]:
    """Return metadata of which the data type, the fill value and the codecs count."""
    codecs = [] if dataset.chunks is None else hdf5_codecs(_filters(dataset, is_inline=is_inline))
    fill_value = _fill_value(dataset, dtype)
    kind = (dtype, repr(fill_value), repr(codecs), len(dataset.shape))
    if kind not in alike:
        ones = (1,) * len(dataset.shape)
        described = library("virtualizarr.manifests.utils").create_v3_array_metadata(
            shape=ones, data_type=dtype, chunk_shape=ones, fill_value=fill_value, codecs=codecs
        )
        alike[kind] = checked_metadata(json_metadata(described))
    found: dict[str, Any] = alike[kind]
    return found


def _filters(dataset: Any, *, is_inline: bool) -> dict[str, Any]:
    """Return the options of filters by name or number, in order."""
    found = dict(dataset._filters)  # noqa: SLF001 - h5py's
    if is_inline:
        # Values that are encoded anew need not be as the other filters expect them.
        is_text = dataset.dtype.hasobject
        return {name: given for name, given in found.items() if name == "gzip" and not is_text}
    if _BLOSC in found:
        # VirtualiZarr counts them from the end.
        stated = found[_BLOSC] or ()
        found[_BLOSC] = (*stated, *_BLOSC_DEFAULTS[len(stated) :])[: len(_BLOSC_DEFAULTS)]
    return {"bz2" if name == _BZIP2 else name: options for name, options in found.items()}


def _fill_value(dataset: Any, dtype: np.dtype[Any]) -> Any:
    """Return the fill value of a dataset; None if it is undefined, so that any may be read."""
    if _has_undefined_fill_value(dataset) or (dtype.fields and dataset.dtype.hasobject):
        return None
    stated: Any = packed_values(dataset.fillvalue)
    if dtype.kind == "T":
        return text_of(stated) if isinstance(stated, bytes) else ""
    return stated.item() if hasattr(stated, "item") else stated


def _has_undefined_fill_value(dataset: Any) -> bool:
    h5: Any = library("h5py")
    return bool(dataset.id.get_create_plist().fill_value_defined() == h5.h5d.FILL_VALUE_UNDEFINED)


def _references(
    counts: tuple[int, ...], url: str, dataset: Any, chunks: tuple[int, ...]
) -> Manifest:
    if dataset.chunks is None:
        start, size = dataset.id.get_offset(), dataset.id.get_storage_size()
        return Manifest.from_columns(counts, paths=url, offsets=start, lengths=size)
    stored: list[Any] = []
    dataset.id.chunk_iter(stored.append)
    # HDF5 reads none beyond the shape: a writer that was killed may have stored them before it.
    inside = [each for each in stored if all(map(operator.lt, each.chunk_offset, dataset.shape))]
    starts: npt.NDArray[np.int64] = np.array([each.chunk_offset for each in inside], np.int64)
    cut = math.prod(chunks) * dataset.dtype.itemsize if chunks != dataset.chunks else None
    return Manifest.from_columns(
        counts,
        paths=url,
        offsets=np.array([each.byte_offset for each in inside], np.int64),
        lengths=np.array([cut or each.size for each in inside], np.int64),
        indices=starts.reshape(-1, len(chunks)) // chunks,
    )


# Values ----------------------------------------------------------------------------------


def _values(dataset: Any, notes: list[str]) -> Any:
    """Return the values of a dataset; strings of any length as numpy's, decoded."""
    found = np.asarray(packed_values(dataset[()]))
    if found.dtype.kind == "O" or dataset.dtype.kind == "O":
        return _texts(found, notes).astype(np.dtypes.StringDType())
    if not dataset.dtype.hasobject:
        return found
    columns: dict[str, Any] = {}
    for name in found.dtype.names or ():
        column = found[name]
        columns[name] = _texts(column, notes).astype("U") if column.dtype.kind == "O" else column
    fields = [(name, column.dtype.newbyteorder("<")) for name, column in columns.items()]
    values: Any = np.zeros(found.shape, fields)
    for name, column in columns.items():
        values[name] = column
    return values


def _texts(found: npt.NDArray[Any], notes: list[str]) -> npt.NDArray[Any]:
    items: list[Any] = found.ravel().tolist()
    if not all(is_utf8(item) for item in items if isinstance(item, bytes)):
        notes.append("some of its strings are not UTF-8, and were read as Latin-1")
    return np.array([text_of(item) for item in items], object).reshape(found.shape)
