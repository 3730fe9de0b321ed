"""Whether the bytes of an HDF5 dataset are what Zarr would decode, wherever they lie.

VirtualiZarr does not look at all of this: what it passes over in silence would
read as fill values, or as other values than HDF5 reads.
"""

from __future__ import annotations

import enum
import importlib.util
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS, shown
from zarr_manifest.conversion.virtual import library
from zarr_manifest.errors import Advice, NotConvertibleError, Setting

__all__ = ["Treatment", "treatment_of"]

# HDF5's own filters without a counterpart, by number.
_SHUFFLE = 2
_FLETCHER32 = 3  # adds four bytes
_KNOWN = frozenset({1, 2, 3, 32000})  # gzip, shuffle, fletcher32, lzf
_NO_CODEC = {4: "szip", 5: "nbit", 6: "scaleoffset"}

# Bytes of strings that are looked at together.
_READ_AT_ONCE = 2**22

# Chunks that are read to find out whether they are filtered.
_MOST_LOOKED_AT = 8


class Treatment(enum.Enum):
    """How a dataset becomes an array."""

    REFERENCES = "references to its chunks"
    INLINE = "its values, inline"
    UNWRITTEN = "no chunks: it was never written"


def treatment_of(dataset: Any, *, inline_limit: int) -> Treatment:
    """Return how a dataset can be expressed.

    Parameters
    ----------
    dataset : h5py.Dataset
        Of an open file.
    inline_limit : int
        Bytes up to which values are held inline that are not in chunks as Zarr
        decodes them.

    Raises
    ------
    NotConvertibleError
        It cannot be expressed, and why.
    """
    _check_storage(dataset)
    h5 = library("h5py")
    layout = dataset.id.get_create_plist().get_layout()
    stored = dataset.id.get_type()
    by_value = _check_type(stored, dataset.dtype)
    if by_value is None and _is_terminated(stored) and _has_more_than_values(dataset, stored):
        by_value = "bytes follow the ends of its strings"
    if by_value is not None:
        size = dataset.size * dataset.dtype.itemsize
        if size > inline_limit:
            raise NotConvertibleError(
                f"{by_value}, and with {size} bytes it is too large to be held inline "
                f"(limit: {inline_limit})",
                remedy=Advice("Raise ", Setting("inline_limit", python="inline_limit"), "."),
            )
    if layout == h5.h5d.COMPACT:
        return Treatment.INLINE
    if layout != h5.h5d.CHUNKED and dataset.id.get_storage_size() == 0:
        return Treatment.UNWRITTEN
    if by_value is not None:
        return Treatment.INLINE
    if layout == h5.h5d.CHUNKED:
        _check_filters(dataset)
    return Treatment.REFERENCES


def _check_storage(dataset: Any) -> None:
    if dataset.shape is None:
        raise NotConvertibleError("it has a null dataspace: neither a shape nor values")
    if dataset.is_virtual:
        files = sorted({source.file_name for source in dataset.virtual_sources()})
        raise NotConvertibleError(
            f"it is a virtual dataset: a view of datasets in {shown(files)}",
            remedy="Convert those files, and combine them.",
        )
    if dataset.external:
        files = sorted({name for name, *_ in dataset.external})
        raise NotConvertibleError(f"its bytes lie in external files: {shown(files)}")


# ------------------------------------------------------------ types


def _check_type(stored: Any, dtype: np.dtype[Any]) -> str | None:
    """Return why the values must be held inline, or None.

    Raises
    ------
    NotConvertibleError
        Zarr has no such type.
    """
    h5 = library("h5py")
    kind = stored.get_class()
    if kind == h5.h5t.STRING:
        return _check_string(stored)
    if kind == h5.h5t.VLEN:
        raise NotConvertibleError(
            "its values are sequences of different lengths, which lie outside its chunks"
        )
    if kind == h5.h5t.REFERENCE:
        raise NotConvertibleError("its values are references to other objects of the file")
    if kind == h5.h5t.ARRAY:
        raise NotConvertibleError("its elements are arrays, which Zarr's data types are not")
    if kind == h5.h5t.COMPOUND and dtype.kind != "c":
        return _check_compound(stored, dtype)
    if kind == h5.h5t.COMPOUND:
        _check_complex(stored)
    if kind == h5.h5t.ENUM:
        stored = stored.get_super()
        kind = stored.get_class()
    if kind == h5.h5t.INTEGER:
        _check_integer(stored)
    if kind == h5.h5t.BITFIELD:
        # HDF5 itself reads them as numbers, though not all of their bits need count.
        raise NotConvertibleError("its values are bit fields, which Zarr does not have")
    if kind == h5.h5t.FLOAT:
        _check_float(stored)
    return None


def _check_string(stored: Any) -> str | None:
    h5 = library("h5py")
    if stored.is_variable_str():
        return "its strings have different lengths, and lie outside its chunks"
    if stored.get_strpad() == h5.h5t.STR_SPACEPAD:
        return "its strings are padded with spaces, which are no part of them"
    return None


def _check_integer(stored: Any) -> None:
    if stored.get_offset() != 0 or stored.get_precision() != 8 * stored.get_size():
        raise NotConvertibleError(
            f"its integers are {stored.get_precision()} bits of {8 * stored.get_size()}, which "
            "Zarr does not have"
        )


def _check_float(stored: Any) -> None:
    t = library("h5py").h5t
    known = (t.IEEE_F16LE, t.IEEE_F16BE, t.IEEE_F32LE, t.IEEE_F32BE, t.IEEE_F64LE, t.IEEE_F64BE)
    if not any(stored.equal(ieee) for ieee in known):
        raise NotConvertibleError(
            f"its floating point numbers of {stored.get_size()} bytes are not those of IEEE 754 "
            "with 16, 32 or 64 bits"
        )


def _check_complex(stored: Any) -> None:
    # h5py goes by the names of the fields.
    half = stored.get_size() // 2
    if [stored.get_member_offset(number) for number in range(2)] != [0, half] or any(
        stored.get_member_type(number).get_size() != half for number in range(2)
    ):
        raise NotConvertibleError(
            "its complex numbers have gaps between their parts, or other than their order"
        )


def _check_compound(stored: Any, dtype: np.dtype[Any]) -> str | None:
    is_big_endian = dtype == dtype.newbyteorder(">") != dtype.newbyteorder("<")
    if is_big_endian and not HAS_ALL_BYTE_ORDERS:
        raise NotConvertibleError(
            "its compound type is big-endian, which zarr cannot have before 3.3",
            remedy="Upgrade zarr.",
        )
    position = 0
    by_value: str | None = None
    for number in range(stored.get_nmembers()):
        name = stored.get_member_name(number).decode()
        member = stored.get_member_type(number)
        try:
            by_value = _check_type(member, dtype[name]) or by_value
        except NotConvertibleError as error:
            raise NotConvertibleError(f"field {shown(name)}: {error.problem}") from error
        if stored.get_member_offset(number) != position and by_value is None:
            raise NotConvertibleError(
                "its compound type has gaps between its fields, or other than their order"
            )
        position += member.get_size()
    if position != stored.get_size() and by_value is None:
        raise NotConvertibleError("its compound type has a gap after its fields")
    return by_value


def _is_terminated(stored: Any) -> bool:
    """Whether strings end at a zero byte, after which there may be anything."""
    h5 = library("h5py")
    if stored.get_class() == h5.h5t.COMPOUND:
        members = (stored.get_member_type(n) for n in range(stored.get_nmembers()))
        return any(map(_is_terminated, members))
    if stored.get_class() != h5.h5t.STRING or stored.is_variable_str():
        return False
    return bool(stored.get_strpad() == h5.h5t.STR_NULLTERM and stored.get_size() > 1)


def _has_more_than_values(dataset: Any, stored: Any) -> bool:
    """Whether the bytes are other than those of the values. Reads all of them."""
    h5 = library("h5py")
    if not dataset.size or not dataset.id.get_storage_size():
        return False
    row = math.prod(dataset.shape[1:]) * stored.get_size()
    step = max(1, _READ_AT_ONCE // row)
    for start in range(0, dataset.shape[0] if dataset.shape else 1, step):
        space = dataset.id.get_space()
        region: Any = ()
        if dataset.shape:
            count = min(step, dataset.shape[0] - start)
            region = slice(start, start + count)
            zeros = (0,) * (len(dataset.shape) - 1)
            space.select_hyperslab((start, *zeros), (count, *dataset.shape[1:]))
        values: Any = np.asarray(dataset[region])
        raw = np.empty(values.shape, dataset.dtype)
        memory = h5.h5s.create_simple(values.shape) if values.shape else space
        dataset.id.read(memory, space, raw, stored)
        if raw.tobytes() != values.tobytes():
            return True
    return False


# ------------------------------------------------------------ filters


def _check_filters(dataset: Any) -> None:
    plist = dataset.id.get_create_plist()
    numbers = [int(plist.get_filter(i)[0]) for i in range(plist.get_nfilters())]
    if numbers:
        _check_pipeline(numbers, dataset.dtype.itemsize)
        _check_chunks(dataset, numbers)


def _check_pipeline(numbers: Sequence[int], itemsize: int) -> None:
    for number in numbers:
        if number in _NO_CODEC:
            raise NotConvertibleError(
                f"nothing outside HDF5 can decode its filter {_NO_CODEC[number]!r}"
            )
        if number not in _KNOWN and importlib.util.find_spec("hdf5plugin") is None:
            raise NotConvertibleError(
                f"VirtualiZarr knows its filter {number} only with the package hdf5plugin",
                remedy="Install hdf5plugin.",
            )
    first = numbers.index(_SHUFFLE) if _SHUFFLE in numbers else 0
    if itemsize > 1 and any(n != _FLETCHER32 or 4 % itemsize for n in numbers[:first]):
        raise NotConvertibleError(
            "its filter 'shuffle' follows one that leaves parts of elements: no codec shuffles them"
        )
    if len(set(numbers)) != len(numbers):
        raise NotConvertibleError("its pipeline applies one filter twice")


def _check_chunks(dataset: Any, numbers: Sequence[int]) -> None:
    """Refuse a dataset of which some chunks are not filtered like the others."""
    masked: list[tuple[int, ...]] = []
    partial: list[tuple[int, ...]] = []
    count = 0
    raw_size = math.prod(dataset.chunks) * dataset.dtype.itemsize

    def look(chunk: Any) -> None:
        nonlocal count
        count += 1
        if chunk.filter_mask:
            masked.append(chunk.chunk_offset)
        elif chunk.size == raw_size and len(partial) < _MOST_LOOKED_AT:
            ends = map(operator.add, chunk.chunk_offset, dataset.chunks)
            if any(map(operator.gt, ends, dataset.shape)):
                partial.append(chunk.chunk_offset)

    dataset.id.chunk_iter(look)
    if masked:
        raise NotConvertibleError(
            f"{len(masked)} of its {count} chunks have a filter mask: they were stored without "
            f"some of the filters (the one at {masked[0]}), and Zarr decodes all chunks alike"
        )
    if numbers != [_SHUFFLE] or dataset.dtype.itemsize > 1:
        _check_partial_chunks(dataset, partial)


def _check_partial_chunks(dataset: Any, starts: Sequence[tuple[int, ...]]) -> None:
    """Refuse a dataset whose filters are not applied to chunks over its edge.

    HDF5 has an option for that, and no way to ask for it: no mask tells. So chunks
    over the edge are looked at that have the size of unfiltered ones.
    """
    for start in starts:
        _, raw = dataset.id.read_direct_chunk(start)
        if len(set(raw)) == 1:
            continue  # the same, shuffled or not
        region = tuple(
            slice(first, min(first + size, end))
            for first, size, end in zip(start, dataset.chunks, dataset.shape, strict=True)
        )
        inside = tuple(slice(0, part.stop - part.start) for part in region)
        chunk: Any = np.ndarray(dataset.chunks, dataset.dtype, raw)
        if chunk[inside].tobytes() == np.ndarray.tobytes(dataset[region]):
            raise NotConvertibleError(
                f"its filters are not applied to chunks over its edge (the one at {start}), and "
                "Zarr decodes all chunks alike"
            )
