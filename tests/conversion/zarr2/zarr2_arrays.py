"""Zarr v2 arrays written by zarr, and read twice: by zarr as v2, and as what we convert them to."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numcodecs
import numcodecs.registry
import numpy as np
import zarr
from packaging.version import Version
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.storage import MemoryStore

from zarr_manifest.conversion.zarr2 import ArrayPlan, convert_array

# What zarr 3.1 lacks: structured types that are big-endian or nested in v2 metadata, and
# codecs that are asked about what they are given instead of the data type of the array.
IS_CURRENT_ZARR = Version(zarr.__version__) >= Version("3.3")

type Array = np.ndarray[Any, Any]


def has_codec(codec: str) -> bool:
    """Whether this numcodecs has an optional codec."""
    try:
        numcodecs.get_codec({"id": codec})
    except ValueError as error:  # UnknownCodecError
        return "not available" not in str(error)
    except TypeError:
        return True
    return True


def zarray(**members: Any) -> dict[str, Any]:
    """A ``.zarray`` document: 5 × 7 float64 in chunks of 3 × 4, unless told otherwise."""
    document: dict[str, Any] = {
        "zarr_format": 2,
        "shape": [5, 7],
        "chunks": [3, 4],
        "dtype": "<f8",
        "order": "C",
        "fill_value": 0,
        "filters": None,
        "compressor": None,
    }
    return document | members


def as_buffer(content: bytes) -> Buffer:
    return default_buffer_prototype().buffer.from_bytes(content)


def as_document(document: dict[str, Any]) -> Buffer:
    return as_buffer(json.dumps(document, allow_nan=False).encode())


class Written(NamedTuple):
    """A v2 array: its metadata and its chunks."""

    document: dict[str, Any]
    chunks: dict[str, Buffer]

    def read_v2(self) -> Array:
        store = MemoryStore({".zarray": as_document(self.document), **self.chunks}, read_only=True)
        return np.asarray(zarr.open_array(store, mode="r", zarr_format=2)[...])

    def read_v3(self) -> Array:
        return self.read_converted(convert_array(self.document, None, path="a"))

    def read_converted(self, converted: ArrayPlan) -> Array:
        """Read the v2 chunks with v3 metadata beside them."""
        documents = {"zarr.json": as_document(converted.metadata)}
        store = MemoryStore(documents | self.chunks, read_only=True)
        return np.asarray(zarr.open_array(store, mode="r", zarr_format=3)[...])


def write(document: dict[str, Any], data: Any, where: Any = ...) -> Written:
    """Let zarr write `data` to the elements `where`, as `document` says."""
    content = {".zarray": as_document(document)}
    with zarr.config.set({"array.write_empty_chunks": True}):
        array = zarr.open_array(MemoryStore(content), mode="r+", zarr_format=2)
        array[where] = data
    return Written(document, {key: value for key, value in content.items() if key != ".zarray"})


def lay_out(document: dict[str, Any], data: Array) -> Written:
    """Write what zarr's own v2 writer cannot: chunks without filters, as the specification says."""
    counts = [-(-n // c) for n, c in zip(data.shape, document["chunks"], strict=True)]
    chunks: dict[str, Buffer] = {}
    for index in np.ndindex(*counts):
        chunk = np.zeros(document["chunks"], data.dtype)
        corner = [i * c for i, c in zip(index, chunk.shape, strict=True)]
        part = data[tuple(slice(i, i + c) for i, c in zip(corner, chunk.shape, strict=True))]
        chunk[tuple(slice(n) for n in part.shape)] = part
        chunks[".".join(map(str, index))] = as_buffer(chunk.tobytes(order=document["order"]))
    return Written(document, chunks)


def assert_same(ours: Array, theirs: Array) -> None:
    """Check that two arrays agree in shape, in type and in every bit, byte order apart."""
    assert ours.shape == theirs.shape
    if theirs.dtype.kind in "OT":
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist()
        return
    assert ours.dtype.newbyteorder("<") == theirs.dtype.newbyteorder("<")
    assert _bits(ours) == _bits(theirs)


def _bits(array: Array) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), order="C").tobytes()


def patterns(dtype: Any, shape: tuple[int, ...], seed: int = 1) -> Array:
    """Elements from random bits, so that there are NaNs with a payload; the first time is NaT."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype.names is not None:
        array = np.empty(shape, dtype)
        for number, name in enumerate(dtype.names):
            base, inner = dtype[name].subdtype or (dtype[name], ())
            array[name] = patterns(base, shape + inner, seed + number + 1)
        return array
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind == "U":
        points = random.choice([0x61, 0xE9, 0x20AC, 0x1F600], count * dtype.itemsize // 4)
        flat = points.astype(dtype.str[0] + "u4").view(dtype)
    else:
        flat = np.frombuffer(random.bytes(count * dtype.itemsize), dtype)
    array = flat.reshape(shape).copy()
    if dtype.kind in "mM" and count:
        array.flat[0] = np.array("NaT", dtype)
    return array
