"""netCDF classic files: every variable on its own, by the positions in the header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zarr_manifest.conversion.files.netcdf3.header import Header, Variable, read_header
from zarr_manifest.conversion.files.trees import FileTree, beyond_the_end
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import is_utf8, json_attributes, text_of
from zarr_manifest.conversion.virtualizarr_internals import ManifestColumns
from zarr_manifest.errors import NotConvertibleError

__all__ = ["read_netcdf3"]


def read_netcdf3(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a netCDF classic file: every variable in its header.

    Raises
    ------
    NotConvertibleError
        The header cannot be read.
    """
    reader = registry.reader(url)
    header = read_header(reader)
    size = int(reader.seek(0, 2))
    tree = FileTree()
    group = tree.add_group("", header.attributes)
    for variable in header.variables:
        name = text_of(variable.name)
        if name in group.arrays:
            tree.refuse(name, "there is already a variable of this name")
            continue
        try:
            group.arrays[name], notes = _array(url, size, header, variable)
        except NotConvertibleError as error:
            tree.refuse(name, error.message)
            continue
        tree.keep_precision(name, variable.attributes)
        for sentence in notes:
            tree.note(name, sentence)
    return tree


def _array(url: str, file_size: int, header: Header, variable: Variable) -> tuple[Any, list[str]]:
    """Return the ``ManifestArray`` for a variable, and notes about what changed."""
    shape = chunks = header.shape(variable)
    count = 1
    if header.has_records(variable):
        count = _records(header, file_size)
        shape, chunks = (count, *shape), (1, *shape)
    length, stride = header.size(variable), header.record_size
    # Without the padding that may follow.
    end = variable.begin + max(count - 1, 0) * stride + length if count and length else 0
    if end > file_size:
        raise NotConvertibleError(beyond_the_end(end, url, file_size))
    attributes, notes = json_attributes(variable.attributes, variable.dtype)
    if not is_utf8(variable.name):
        notes.append("its name is not UTF-8, and was read as Latin-1")
    metadata = library("virtualizarr.manifests.utils").create_v3_array_metadata(
        shape=shape,
        data_type=variable.dtype,
        # No chunk is empty, though an array may be.
        chunk_shape=tuple(max(1, n) for n in chunks),
        fill_value=_fill_value(variable, attributes),
        attributes=attributes,
        dimension_names=tuple(text_of(header.dimensions[n][0]) for n in variable.dimensions),
    )
    grid = tuple(-(-n // max(1, c)) for n, c in zip(shape, chunks, strict=True))
    columns = ManifestColumns.of_grid(grid)
    if 0 in grid:
        return columns.array(metadata), notes
    columns.paths[...] = url
    columns.offsets[...] = (variable.begin + stride * np.arange(count)).reshape(grid)
    columns.lengths[...] = length
    return columns.array(metadata), notes


def _records(header: Header, file_size: int) -> int:
    """Return the number of records; those of a file that was not closed are counted."""
    if header.records is not None:
        return header.records
    first = min(v.begin for v in header.variables if header.has_records(v))
    return max(0, file_size - first) // header.record_size if header.record_size else 0


def _fill_value(variable: Variable, attributes: Mapping[str, Any]) -> Any:
    """Return the fill value for Zarr; every chunk exists, so that it is only a statement."""
    stated = variable.attributes.get(b"_FillValue")
    if isinstance(stated, bytes):
        return stated[:1] if variable.dtype.kind == "S" else None
    if "_FillValue" not in attributes or variable.dtype.kind == "S":
        return None
    try:
        return variable.dtype.type(stated)
    except (OverflowError, TypeError, ValueError):
        return None
