"""What a Zarr library has already: an array's metadata, its native chunks, its codecs."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from conformance.adapters.core_reader.declarations import invalid, unsupported
from conformance.adapters.core_reader.files import Files
from conformance.adapters.core_reader.locations import Location
from conformance.adapters.core_reader.manifests import LARGEST, Index, Reference
from conformance.adapters.json_lines import RefusedError

__all__ = ["Codecs", "Grid", "NativeChunks"]

type NDArray = np.ndarray[Any, Any]
type Slices = tuple[slice, ...]

_TYPES = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
}  # fmt: skip


class Grid:
    """The chunks of an array and their keys: step 2 of the precedence."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.array_shape = _integers(metadata.get("shape"), 0)
        _, grid = _extension(metadata, "chunk_grid", ("regular",))
        self.chunk_shape = _integers(grid.get("chunk_shape"), 1)
        if len(grid) > 1:
            invalid("chunk_grid has a member besides chunk_shape")
        if len(self.chunk_shape) != len(self.array_shape):
            invalid("shape and chunk_shape have different lengths")
        name, encoding = _extension(metadata, "chunk_key_encoding", ("default", "v2"))
        self._first = ["c"] if name == "default" else []
        self._separator = encoding.get("separator", "/" if self._first else ".")
        if self._separator not in ("/", ".") or encoding.keys() - {"separator"}:
            invalid("chunk_key_encoding has something else than a separator '/' or '.'")
        sizes = zip(self.array_shape, self.chunk_shape, strict=True)
        self.shape: Index = tuple(-(-n // size) for n, size in sizes)

    def own_key(self, index: Index) -> str:
        """Return the key that the array's own encoding gives a chunk."""
        return self._separator.join([*self._first, *map(str, index)]) or "0"

    def touched(self, spans: Sequence[Sequence[int]]) -> Iterator[tuple[Index, Slices, Slices]]:
        """Yield each chunk with the slice of it that is selected, and where that belongs."""
        per_dimension = [
            [_overlap(i, size, start, stop) for i in range(start // size, -(-stop // size))]
            for (start, stop), size in zip(spans, self.chunk_shape, strict=True)
        ]
        for parts in product(*per_dimension):
            index, inside, outside = zip(*parts, strict=True) if parts else ((), (), ())
            yield index, inside, outside


def _overlap(i: int, size: int, start: int, stop: int) -> tuple[int, slice, slice]:
    first, last = max(start, i * size), min(stop, (i + 1) * size)
    return i, slice(first - i * size, last - i * size), slice(first - start, last - start)


def _extension(
    metadata: Mapping[str, Any], member: str, names: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """Return the name and configuration of an extension that this reader knows."""
    stated = metadata.get(member)
    stated = {"name": stated} if isinstance(stated, str) else stated
    if not isinstance(stated, dict) or not isinstance(stated.get("name"), str):
        invalid(f"{member} has no name")
    if stated["name"] not in names:
        unsupported(f"the {member} {stated['name']!r}")
    configuration = stated.get("configuration", {})
    if not isinstance(configuration, dict):
        invalid(f"the configuration of {member} is not an object")
    return stated["name"], configuration


def _integers(stated: Any, least: int) -> Index:
    if not isinstance(stated, list):
        invalid(f"shape and chunk_shape are lists, not {stated!r}")
    if not all(type(n) is int and least <= n <= LARGEST for n in stated):
        invalid(f"{stated} has other elements than integers from {least} on")
    return tuple(stated)


class NativeChunks:
    """The chunks of an array without a manifest."""

    def __init__(self, files: Files, array: Location, grid: Grid) -> None:
        self._files, self._array, self._grid = files, array, grid

    def __iter__(self) -> Iterator[Index]:
        """Yield the chunks that exist, in C order."""
        indices = product(*map(range, self._grid.shape))
        return (index for index in indices if self._files.exists(self._location(index)))

    def get(self, index: Index, part: Mapping[str, int] | None) -> bytes:
        """Return the bytes of a chunk, or a part of them; raise KeyError for a missing one."""
        try:
            return self._files.read_chunk(Reference(self._location(index), 0, None), part)
        except RefusedError as error:
            if error.code != "source_not_found":
                raise
            raise KeyError(index) from error

    def _location(self, index: Index) -> Location:
        key = self._grid.own_key(index).split("/")
        return Location("", (*self._array.segments[:-1], *key))


def _zarr_error(message: str) -> RefusedError:
    return RefusedError("zarr_error", None, message)


class Codecs:
    """How chunks become values; what this reader does not know is not the specification's."""

    def __init__(self, metadata: Mapping[str, Any], chunk_shape: Index) -> None:
        if metadata.get("data_type") not in _TYPES:
            raise _zarr_error(f"unknown data type {metadata.get('data_type')!r}")
        self._type = np.dtype(metadata["data_type"])
        self._stored_type = self._type
        self._chunk_shape = chunk_shape
        self._fill = _fill_value(metadata["fill_value"], self._type)
        self._times_compressed = 0
        for codec in metadata["codecs"]:
            name = codec if isinstance(codec, str) else codec["name"]
            if name == "gzip":
                self._times_compressed += 1
            elif name != "bytes":
                raise _zarr_error(f"unknown codec {name!r}")
            elif self._type.itemsize > 1:
                endian = {"little": "<", "big": ">"}[codec["configuration"]["endian"]]
                self._stored_type = self._type.newbyteorder(endian)

    def fill_values(self, shape: Sequence[int]) -> NDArray:
        """Return an array of fill values."""
        return np.full(shape, self._fill, self._type)

    def decode(self, encoded: bytes) -> NDArray:
        """Return the values of a chunk."""
        try:
            for _ in range(self._times_compressed):
                encoded = gzip.decompress(encoded)
            return np.frombuffer(encoded, self._stored_type).reshape(self._chunk_shape)
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise _zarr_error(f"a chunk does not decode: {error}") from error


def _fill_value(stated: Any, data_type: np.dtype[Any]) -> NDArray:
    if isinstance(stated, str) and stated.startswith("0x"):
        return np.frombuffer(bytes.fromhex(stated[2:]), data_type.newbyteorder(">"))
    return np.array(float(stated) if isinstance(stated, str) else stated, data_type)
