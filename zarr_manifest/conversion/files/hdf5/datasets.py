"""Whether Zarr can decode the bytes of an HDF5 dataset to the values that HDF5 reads.

VirtualiZarr does not check all of this: what it silently ignores would read as fill values,
or as wrong values.
"""

from __future__ import annotations

import enum
import importlib.util
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS, brief, text_of
from zarr_manifest.errors import Advice, NotConvertibleError, Setting
from zarr_manifest.showing import counted

# HDF5's own filters, by number.
_SHUFFLE = 2
_FLETCHER32 = 3  # adds four bytes
_KNOWN = frozenset({1, 2, 3})  # gzip, shuffle, fletcher32
# imagecodecs decodes LZF, but registers its codec only for Zarr v2.
_NO_CODEC = {4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf"}
# Those for which VirtualiZarr finds a codec through hdf5plugin: bzip2, Blosc, LZ4 and Zstandard.
_PLUGINS = frozenset({307, 32001, 32004, 32015})

_REWRITE = "h5repack -f GZIP=4 OLD.h5 NEW.h5"

# Bytes of strings that are checked at a time.
_BYTES_PER_READ = 2**22

# Number of chunks that are read to find out whether they are filtered.
_MAX_CHUNKS_READ = 8


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
        Largest size, in bytes, of a dataset that is stored inline because Zarr cannot
        decode its chunks.

    Raises
    ------
    NotConvertibleError
        It cannot be expressed; the message says why.
    """
    _check_storage(dataset)
    h5 = library("h5py")
    layout = dataset.id.get_create_plist().get_layout()
    stored = dataset.id.get_type()
    try:
        dtype = dataset.dtype
    except (TypeError, ValueError) as error:
        raise NotConvertibleError(f"h5py cannot express its data type: {error}") from error
    by_value = _check_type(stored, dtype)
    if by_value is None and _is_terminated(stored) and _has_more_than_values(dataset, stored):
        by_value = "there are bytes after the end of its strings"
    remedy: tuple[Any, ...] = ("Raise ", Setting("inline_limit", python="inline_limit"), ".")
    if by_value is None and layout == h5.h5d.CHUNKED:
        by_value = _check_codecs(dataset)
        remedy = (*remedy[:-1], f", or rewrite the file: {_REWRITE}.")
    if by_value is not None:
        size = dataset.size * dtype.itemsize
        if size > inline_limit:
            raise NotConvertibleError(
                f"{by_value}; with {size} bytes it is too large to be stored inline "
                f"(limit: {inline_limit})",
                remedy=Advice(*remedy),
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
            f"it is a virtual dataset: a view of datasets in {brief(files)}",
            remedy="Convert those files, and combine them.",
        )
    if dataset.external:
        files = sorted({name for name, *_ in dataset.external})
        raise NotConvertibleError(f"its bytes are in external files: {brief(files)}")


# ------------------------------------------------------------ types


def _check_type(stored: Any, dtype: np.dtype[Any]) -> str | None:
    """Return why the values must be stored inline, or None.

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
            "its values are sequences of different lengths, stored outside its chunks"
        )
    if kind == h5.h5t.REFERENCE:
        raise NotConvertibleError("its values are references to other objects of the file")
    if kind == h5.h5t.ARRAY:
        raise NotConvertibleError("its elements are arrays, for which Zarr has no data type")
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
        # HDF5 itself reads them as numbers, though not all of their bits need be significant.
        raise NotConvertibleError("its values are bit fields, for which Zarr has no data type")
    if kind == h5.h5t.FLOAT:
        _check_float(stored)
    return None


def _check_string(stored: Any) -> str | None:
    h5 = library("h5py")
    if stored.is_variable_str():
        return "its strings have different lengths, and are stored outside its chunks"
    if stored.get_strpad() == h5.h5t.STR_SPACEPAD:
        return "its strings are padded with spaces, which do not belong to them"
    return None


def _check_integer(stored: Any) -> None:
    if stored.get_offset() != 0 or stored.get_precision() != 8 * stored.get_size():
        raise NotConvertibleError(
            f"its integers use {stored.get_precision()} of {8 * stored.get_size()} bits, for which "
            "Zarr has no data type"
        )


def _check_float(stored: Any) -> None:
    t = library("h5py").h5t
    known = (t.IEEE_F16LE, t.IEEE_F16BE, t.IEEE_F32LE, t.IEEE_F32BE, t.IEEE_F64LE, t.IEEE_F64BE)
    if not any(stored.equal(ieee) for ieee in known):
        raise NotConvertibleError(
            f"its floating-point numbers of {stored.get_size()} bytes are not IEEE 754 numbers of "
            "16, 32 or 64 bits"
        )


def _check_complex(stored: Any) -> None:
    # h5py recognises them by the names of the fields.
    half = stored.get_size() // 2
    if [stored.get_member_offset(number) for number in range(2)] != [0, half] or any(
        stored.get_member_type(number).get_size() != half for number in range(2)
    ):
        raise NotConvertibleError(
            "the parts of its complex numbers have gaps between them, or another order"
        )


def _check_compound(stored: Any, dtype: np.dtype[Any]) -> str | None:
    is_big_endian = dtype == dtype.newbyteorder(">") != dtype.newbyteorder("<")
    if is_big_endian and not HAS_ALL_BYTE_ORDERS:
        raise NotConvertibleError(
            "its compound type is big-endian, which zarr before 3.3 does not support",
            remedy="Upgrade zarr.",
        )
    position = 0
    by_value: str | None = None
    for number in sorted(range(stored.get_nmembers()), key=stored.get_member_offset):
        name = stored.get_member_name(number).decode()
        member = stored.get_member_type(number)
        try:
            by_value = _check_type(member, dtype[name]) or by_value
        except NotConvertibleError as error:
            raise NotConvertibleError(f"field {brief(name)}: {error.problem}") from error
        if stored.get_member_offset(number) != position:
            by_value = "the fields of its compound type have gaps between them"
        position = stored.get_member_offset(number) + member.get_size()
    if position != stored.get_size():
        by_value = by_value or "its compound type has padding after its fields"
    return by_value


def _is_terminated(stored: Any) -> bool:
    """Whether strings end at a zero byte, which may be followed by anything."""
    h5 = library("h5py")
    if stored.get_class() == h5.h5t.COMPOUND:
        members = (stored.get_member_type(n) for n in range(stored.get_nmembers()))
        return any(map(_is_terminated, members))
    if stored.get_class() != h5.h5t.STRING or stored.is_variable_str():
        return False
    return bool(stored.get_strpad() == h5.h5t.STR_NULLTERM and stored.get_size() > 1)


def _has_more_than_values(dataset: Any, stored: Any) -> bool:
    """Whether the bytes differ from those of the values. Reads all of them."""
    h5 = library("h5py")
    if not dataset.size or not dataset.id.get_storage_size():
        return False
    for region in _stored_regions(dataset, stored.get_size()):
        space = dataset.id.get_space()
        if region:
            starts = tuple(part.start for part in region)
            space.select_hyperslab(starts, tuple(part.stop - part.start for part in region))
        values: Any = np.asarray(dataset[region])
        raw = np.empty(values.shape, dataset.dtype)
        memory = h5.h5s.create_simple(values.shape) if values.shape else space
        dataset.id.read(memory, space, raw, stored)
        if raw.tobytes() != values.tobytes():
            return True
    return False


def _stored_regions(dataset: Any, itemsize: int) -> Iterator[tuple[slice, ...]]:
    """Yield regions that cover everything that was written."""
    shape = dataset.shape
    if dataset.chunks is not None:
        chunks: list[Any] = []
        dataset.id.chunk_iter(chunks.append)
        for chunk in chunks:
            yield _region(dataset, chunk.chunk_offset)
        return
    if not shape:
        yield ()
        return
    step = max(1, _BYTES_PER_READ // (math.prod(shape[1:]) * itemsize))
    for start in range(0, shape[0], step):
        rest = (slice(0, length) for length in shape[1:])
        yield (slice(start, min(start + step, shape[0])), *rest)


def _region(dataset: Any, start: Sequence[int]) -> tuple[slice, ...]:
    """Return the part of a dataset that is in a chunk."""
    return tuple(
        slice(first, min(first + size, end))
        for first, size, end in zip(start, dataset.chunks, dataset.shape, strict=True)
    )


# ------------------------------------------------------------ filters


def _check_codecs(dataset: Any) -> str | None:
    """Return why the values must be stored inline: only HDF5 decodes the chunks; or None.

    Raises
    ------
    NotConvertibleError
        This HDF5 does not decode them either.
    """
    h5 = library("h5py")
    plist = dataset.id.get_create_plist()
    for number in (int(plist.get_filter(i)[0]) for i in range(plist.get_nfilters())):
        if number in _NO_CODEC:
            reason = f"no codec that Zarr finds decodes its filter {_NO_CODEC[number]!r}"
            if not h5.h5z.filter_avail(number):
                raise NotConvertibleError(reason, remedy=f"Rewrite the file: {_REWRITE}.")
            return reason
    return None


def _check_filters(dataset: Any) -> None:
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(i) for i in range(plist.get_nfilters())]
    numbers = [int(number) for number, *_ in filters]
    for number, *_, name in filters:
        _check_filter(int(number), text_of(name))
    if numbers:
        _check_pipeline(numbers, dataset.dtype.itemsize)
        _check_chunks(dataset, numbers)


def _check_filter(number: int, name: str) -> None:
    if number not in _KNOWN | _PLUGINS:
        shown = f"{number} ({brief(name)})" if name else f"{number}"
        raise NotConvertibleError(f"no codec is known for its filter {shown}")
    if number in _PLUGINS and importlib.util.find_spec("hdf5plugin") is None:
        raise NotConvertibleError(
            f"VirtualiZarr needs the package hdf5plugin for its filter {number}",
            remedy="Install hdf5plugin.",
        )


def _check_pipeline(numbers: Sequence[int], itemsize: int) -> None:
    first = numbers.index(_SHUFFLE) if _SHUFFLE in numbers else 0
    if itemsize > 1 and any(n != _FLETCHER32 or 4 % itemsize for n in numbers[:first]):
        raise NotConvertibleError(
            "its filter 'shuffle' follows one that leaves partial elements, which no codec shuffles"
        )
    if len(set(numbers)) != len(numbers):
        raise NotConvertibleError("its pipeline applies a filter twice")


def _check_chunks(dataset: Any, numbers: Sequence[int]) -> None:
    """Refuse a dataset in which some chunks are filtered differently from others."""
    masked: list[tuple[int, ...]] = []
    partial: list[tuple[int, ...]] = []
    count = 0
    raw_size = math.prod(dataset.chunks) * dataset.dtype.itemsize

    def collect(chunk: Any) -> None:
        nonlocal count
        count += 1
        if chunk.filter_mask:
            masked.append(chunk.chunk_offset)
        elif chunk.size == raw_size and len(partial) < _MAX_CHUNKS_READ:
            ends = map(operator.add, chunk.chunk_offset, dataset.chunks)
            if any(map(operator.gt, ends, dataset.shape)):
                partial.append(chunk.chunk_offset)

    dataset.id.chunk_iter(collect)
    if masked:
        raise NotConvertibleError(
            f"filter masks say that some filters were skipped for {len(masked)} of "
            f"{counted(count, 'chunk')} (the first at {masked[0]}), "
            "but Zarr decodes all chunks alike"
        )
    if numbers != [_SHUFFLE] or dataset.dtype.itemsize > 1:
        _check_partial_chunks(dataset, partial)


def _check_partial_chunks(dataset: Any, starts: Sequence[tuple[int, ...]]) -> None:
    """Refuse a dataset whose filters are not applied to chunks that cross its edge.

    HDF5 has an option for that, but no way to query it, and sets no filter mask. So
    chunks across the edge are read if they have the size of unfiltered ones.
    """
    for start in starts:
        _, raw = dataset.id.read_direct_chunk(start)
        if len(set(raw)) == 1:
            continue  # the same whether shuffled or not
        region = _region(dataset, start)
        inside = tuple(slice(0, part.stop - part.start) for part in region)
        chunk: Any = np.ndarray(dataset.chunks, dataset.dtype, raw)
        if chunk[inside].tobytes() == np.ndarray.tobytes(dataset[region]):
            raise NotConvertibleError(
                f"its filters are not applied to chunks across its edge (such as that at {start}), "
                "but Zarr decodes all chunks alike"
            )
