"""netCDF classic files (CDF-1, CDF-2 or CDF-5): every variable on its own, as the header says.

VirtualiZarr has a parser, too, but it gives up on the whole file because of one attribute or
name, and replaces text that is not UTF-8. Names and text are bytes here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from zarr_manifest.conversion.files.trees import FileTree, beyond_the_end
from zarr_manifest.conversion.nodes import ArrayNode, grid_of, or_refused
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import is_utf8, json_attributes, text_of
from zarr_manifest.conversion.virtual import checked_metadata, json_metadata
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.manifest import Manifest


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
    tree.add_group("", header.attributes)
    for variable in header.variables:
        name = text_of(variable.name)
        if tree.add(or_refused(name, partial(_array, url, size, header, variable))):
            tree.keep_precision(name, variable.attributes)
    return tree


def _array(url: str, file_size: int, header: Header, variable: Variable, path: str) -> ArrayNode:
    shape = chunks = header.shape(variable)
    count = 1
    if header.has_records(variable):
        count = _records(header, file_size)
        shape, chunks = (count, *shape), (1, *shape)
    # No chunk is empty, though an array may be.
    chunks = tuple(max(1, n) for n in chunks)
    length, stride = header.size(variable), header.record_size
    # Without the padding that may follow.
    end = variable.begin + max(count - 1, 0) * stride + length if count and length else 0
    if end > file_size:
        raise NotConvertibleError(beyond_the_end(end, url, file_size))
    attributes, notes = json_attributes(variable.attributes, variable.dtype)
    if not is_utf8(variable.name):
        notes.append("its name is not UTF-8, and was read as Latin-1")
    described = library("virtualizarr.manifests.utils").create_v3_array_metadata(
        shape=shape,
        data_type=variable.dtype,
        chunk_shape=chunks,
        fill_value=_fill_value(variable, attributes),
        dimension_names=tuple(text_of(header.dimensions[n][0]) for n in variable.dimensions),
    )
    metadata = checked_metadata({**json_metadata(described), "attributes": attributes})
    counts = grid_of(metadata).counts
    starts = variable.begin + stride * np.arange(math.prod(counts))
    manifest = Manifest.from_columns(counts, paths=url, offsets=starts, lengths=length)
    return ArrayNode(path, metadata, manifest, tuple(notes))


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


# The header ------------------------------------------------------------------------------


_MAGIC = b"CDF"
_VERSIONS = (1, 2, 5)

# Tags of the lists of a header; 0 is that of a list that is absent.
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12

_CHAR = 2
# All numbers are big-endian; those from 7 are of CDF-5 only.
_TYPES = {
    number: np.dtype(code)
    for number, code in enumerate(
        ["i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8"], start=1
    )
}

# Everything in a header is padded to a multiple of this number of bytes.
_ALIGNMENT = 4

# Headers are kilobytes. A damaged one must not make us read a whole file.
_MAX_BYTES = 2**28


class _ReadableFile(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable.

    Parameters
    ----------
    name : bytes
        Name.
    dtype : numpy.dtype
        As stored.
    dimensions : tuple of int
        Numbers of its dimensions.
    attributes : dict of bytes to object
        Bytes, or numpy arrays and scalars.
    begin : int
        Where its bytes, or those of its first record, begin.
    """

    name: bytes
    dtype: np.dtype[Any]
    dimensions: tuple[int, ...]
    attributes: dict[bytes, Any]
    begin: int


@dataclass(frozen=True, slots=True)
class Header:
    """A header.

    Parameters
    ----------
    records : int or None
        Number of records; None if the writer did not get to state it.
    dimensions : list of (bytes, int)
        Names and lengths; the length of the unlimited dimension is 0.
    attributes : dict of bytes to object
        Of the file.
    variables : list of Variable
    """

    records: int | None
    dimensions: list[tuple[bytes, int]]
    attributes: dict[bytes, Any]
    variables: list[Variable]

    def has_records(self, variable: Variable) -> bool:
        """Whether a variable has the unlimited dimension, which can only be its first."""
        return bool(variable.dimensions) and self.dimensions[variable.dimensions[0]][1] == 0

    def shape(self, variable: Variable) -> tuple[int, ...]:
        """Return the shape of a variable, or of one record of it."""
        lengths = tuple(self.dimensions[number][1] for number in variable.dimensions)
        return lengths[1:] if self.has_records(variable) else lengths

    def size(self, variable: Variable) -> int:
        """Return the number of bytes of a variable, or of one record of it."""
        return math.prod(self.shape(variable)) * variable.dtype.itemsize

    @property
    def record_size(self) -> int:
        """Number of bytes from one record to the next."""
        sizes = [self.size(variable) for variable in self.variables if self.has_records(variable)]
        # The records of a single variable are not padded.
        return sizes[0] if len(sizes) == 1 else sum(map(_padded, sizes))


def read_header(file: _ReadableFile) -> Header:
    r"""Read the header at the beginning of a file.

    Raises
    ------
    NotConvertibleError
        It is damaged, or something else.

    Examples
    --------
    >>> import io
    >>> header = read_header(io.BytesIO(b"CDF\x01" + bytes(28)))
    >>> header.records, header.variables
    (0, [])
    """
    return _Reader(file).header()


def _padded(size: int) -> int:
    return size + -size % _ALIGNMENT


class _Reader:
    def __init__(self, file: _ReadableFile) -> None:
        self._file = file
        self._left = _MAX_BYTES
        self._version = 0

    def header(self) -> Header:
        magic = self._bytes(4)
        self._version = magic[3]
        if magic[:3] != _MAGIC or self._version not in _VERSIONS:
            raise NotConvertibleError("this is not a netCDF classic file")
        records = self._count()
        is_unknown = records == (2**64 - 1 if self._version == 5 else 2**32 - 1)
        dimensions = self._list(_DIMENSIONS, self._dimension)
        attributes = dict(self._list(_ATTRIBUTES, self._attribute))
        variables = self._list(_VARIABLES, lambda: self._variable(dimensions))
        return Header(None if is_unknown else records, dimensions, attributes, variables)

    def _list[T](self, tag: int, item: Callable[[], T]) -> list[T]:
        found, count = self._integer(4), self._count()
        if found != tag and (found, count) != (0, 0):
            raise NotConvertibleError(
                f"the header is damaged: a list has the tag {found} instead of {tag}"
            )
        return [item() for _ in range(count)]

    def _dimension(self) -> tuple[bytes, int]:
        return self._name(), self._count()

    def _attribute(self) -> tuple[bytes, Any]:
        name, (number, dtype), count = self._name(), self._type(), self._count()
        raw = self._padded_bytes(count * dtype.itemsize)
        if number == _CHAR:
            return name, raw.rstrip(b"\0")
        values = np.frombuffer(raw, dtype)
        # netCDF does not distinguish one value from a list of one.
        return name, values[0] if count == 1 else values

    def _variable(self, dimensions: list[tuple[bytes, int]]) -> Variable:
        name = self._name()
        numbers = tuple(self._count() for _ in range(self._count()))
        if any(number >= len(dimensions) for number in numbers):
            raise NotConvertibleError(
                f"the header is damaged: {name!r} has a dimension that does not exist"
            )
        attributes = dict(self._list(_ATTRIBUTES, self._attribute))
        _, dtype = self._type()
        self._count()  # the size, which does not fit here for large variables
        begin = self._integer(4 if self._version == 1 else 8)
        return Variable(name, dtype, numbers, attributes, begin)

    def _type(self) -> tuple[int, np.dtype[Any]]:
        number = self._integer(4)
        if number not in _TYPES:
            raise NotConvertibleError(f"the header is damaged: there is no type {number}")
        return number, _TYPES[number]

    def _name(self) -> bytes:
        # Some writers count the zero byte of C.
        return self._padded_bytes(self._count()).rstrip(b"\0")

    def _count(self) -> int:
        return self._integer(8 if self._version == 5 else 4)

    def _integer(self, size: int) -> int:
        return int.from_bytes(self._bytes(size), "big")

    def _padded_bytes(self, size: int) -> bytes:
        return self._bytes(_padded(size))[:size]

    def _bytes(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            raise NotConvertibleError("the header is damaged: it does not end")
        found = self._file.read(size)
        if len(found) < size:
            raise NotConvertibleError("the header is damaged: the file ends before it does")
        return found
