"""The chunks of an array in blocks, each of which is checked by itself. Pure.

A block holds what is needed to check its chunks, and no more than a bounded number of them: it
can be sent to another process. Planned in the same way, it has the same key.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from zarr_manifest.format import (
    NO_CONDITIONS,
    ChunkGrid,
    Limits,
    element_size,
    format_canonical,
    grid_index,
    grid_indices,
)
from zarr_manifest.hierarchy import (
    ChunkKeyEncoding,
    DeclaredArray,
    LoadedManifest,
    Node,
    ranges_of,
)
from zarr_manifest.locations import StoreLocation
from zarr_manifest.manifest import EMPTY, TO_THE_END
from zarr_manifest.sources import ManyRanges, SourceObject

# Chunks of a block: as many as 32 listings name.
MOST_CHUNKS = 32_000

# What a chunk counts as besides its bytes.
EACH = 4096

# Bytes to read of one block.
_MOST_BYTES = MOST_CHUNKS * EACH


_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_PART = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%")
_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(k?B|[MGT]B)")

_ALL = 2**64


class Sample(Struct, frozen=True):
    """Chunks to read.

    Parameters
    ----------
    text : str
        What was asked for: ``"all"``, a part such as ``"3/30"``, a percentage such as ``"1%"``,
        or an amount such as ``"10GB"``.
    kind : {"all", "part", "percentage", "amount"}
        Which of these.
    first, second : float
        The two numbers of a part, a percentage, or a number of bytes.
    salt : int
        Chooses other chunks; not for parts, which together are all chunks.

    Examples
    --------
    >>> parts = [Sample.parse(f"{n}/3").chosen("a", np.arange(9)) for n in (1, 2, 3)]
    >>> sum(part.astype(int) for part in parts).tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1]
    """

    text: str
    kind: Literal["all", "part", "percentage", "amount"]
    first: float = 0
    second: float = 0
    salt: int = 0

    @classmethod
    def parse(cls, text: str) -> Sample:
        """Return what a text asks for.

        Raises
        ------
        ValueError
            It is none of these.
        """
        if text == "all":
            return cls(text, "all")
        if found := _PART.fullmatch(text):
            if 1 <= int(found[1]) <= int(found[2]):
                return cls(text, "part", int(found[1]), int(found[2]))
        elif found := _PERCENTAGE.fullmatch(text):
            if 0 < float(found[1]) <= 100:
                return cls(text, "percentage", float(found[1]))
        elif found := _AMOUNT.fullmatch(text):
            return cls(text, "amount", float(found[1]) * _UNITS[found[2]])
        raise ValueError(
            "what is read is 'all', a part such as '3/30', a percentage such as '1%', or an "
            f"amount such as '10GB', not {text!r}"
        )

    def out_of(self, nbytes: int) -> Sample:
        """Return an amount as a percentage of so many bytes; anything else as it is."""
        if self.kind != "amount":
            return self
        percentage = min(100.0, 100 * self.first / max(nbytes, 1))
        return structs.replace(self, kind="percentage", first=percentage)

    def chosen(self, array: str, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which chunks of an array are read, given by their numbers."""
        if self.kind == "all":
            return np.ones(len(numbers), np.bool_)
        if self.kind == "part":
            remainders: npt.NDArray[np.uint64] = _hashes(array, 0, numbers) % np.uint64(self.second)
            return np.equal(remainders, np.uint64(self.first - 1))
        limit = round(_ALL * self.first / 100)
        if limit >= _ALL:
            return np.ones(len(numbers), np.bool_)
        return np.less(_hashes(array, self.salt, numbers), np.uint64(limit))


def _hashes(array: str, salt: int, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return a hash of each chunk: splitmix64, from a seed for each array."""
    digest = hashlib.sha256(f"{salt}:{array}".encode(errors="surrogatepass")).digest()
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += np.frombuffer(digest[:8], "<u8")
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class CheckOptions(Struct, frozen=True):
    """How chunks are checked.

    Parameters
    ----------
    sample : Sample or None
        Which are read; None for none.
    decode : bool
        Whether those are decoded.
    """

    sample: Sample | None = None
    decode: bool = False

    @property
    def key(self) -> str:
        """A text that differs if anything is checked otherwise."""
        if self.sample is None:
            return "objects"
        salt = f"#{self.sample.salt}" if self.sample.kind in ("percentage", "amount") else ""
        return f"bytes {self.sample.text}{salt}{' decoded' if self.decode else ''}"

    def chosen(self, array: str, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which chunks of an array are read, by number."""
        if self.sample is None:
            return np.zeros(len(numbers), np.bool_)
        return self.sample.chosen(array, numbers)


class ChunkBlock(Struct, frozen=True):
    """Some chunks of an array. They are identified by their positions here.

    Parameters
    ----------
    array : str
        Path of the array.
    key : str
        Of the block: the array, the digest of the document, the chunks, and how they are checked.
    grid_shape : tuple of int
        Number of chunks of the array along each dimension.
    numbers : ndarray of int64
        Chunk number of each.
    ranged : ndarray of int64
        The chunks that are ranges of objects.
    ranges : ManyRanges
        The ranges; one that stops at -1 runs to the end of its object.
    inline : dict of int to bytes
        The chunks whose bytes the manifest holds.
    checksums : dict of int to str
        What the bytes of chunks must match.
    wanted : ndarray of bool
        Which chunks are to be read.
    empty : int
        Number of chunks that are declared empty.
    most : int
        Longer chunks are refused, as by readers.
    is_native : bool
        Whether objects that are missing are chunks of fill values.
    metadata : dict or None
        Of the array, if chunks are to be decoded.
    """

    array: str
    key: str
    grid_shape: tuple[int, ...]
    numbers: npt.NDArray[np.int64]
    ranged: npt.NDArray[np.int64]
    ranges: ManyRanges
    inline: dict[int, bytes]
    checksums: dict[int, str]
    wanted: npt.NDArray[np.bool_]
    empty: int
    most: int
    is_native: bool
    metadata: Mapping[str, Any] | None

    def __len__(self) -> int:
        return len(self.numbers)

    def index(self, position: int) -> tuple[int, ...]:
        """Return the grid index of a chunk."""
        return grid_index(self.grid_shape, int(self.numbers[position]))

    def name(self, position: int) -> str:
        """Return the canonical key of a chunk."""
        return format_canonical(self.index(position))


class NativeArray(Struct, frozen=True):
    """A native array, of any version of Zarr.

    Parameters
    ----------
    node : Node
        Its path, and what its metadata say of chunks, as of Zarr v3.
    metadata : mapping
        Its metadata.
    grid : ChunkGrid
        Its chunks.
    decoded_size : int
        Of one chunk, in bytes; 0 if it varies.
    """

    node: Node
    metadata: Mapping[str, Any]
    grid: ChunkGrid
    decoded_size: int

    @classmethod
    def of(cls, node: Node) -> NativeArray | None:
        """Return the array at a node; None if its chunk grid is unknown."""
        described = structs.replace(node, metadata=_as_v3(node.metadata)) if node.is_v2 else node
        grid = ChunkGrid.from_metadata(described.metadata)
        if grid is None:
            return None
        size = element_size(described.metadata) if math.prod(grid.counts) else 0
        size = size and size * grid.elements((0,) * len(grid.counts))
        return cls(described, node.metadata, grid, size)

    @property
    def stated_bytes(self) -> int:
        """Number of bytes of all chunks, decoded."""
        return math.prod(self.grid.counts) * self.decoded_size

    def chunks(self, most: int) -> Iterator[tuple[npt.NDArray[np.int64], list[str]]]:
        """Yield numbers and keys of all chunks of the grid, so many at a time."""
        shape, total = tuple(self.grid.counts), math.prod(self.grid.counts)
        encoding = ChunkKeyEncoding(self.node.metadata, len(shape))
        below = f"{self.node.path}/" if self.node.path else ""
        for first in range(0, total, most):
            numbers = np.arange(first, min(first + most, total))
            indices = grid_indices(shape, numbers)
            yield numbers, [f"{below}{encoding.encode(tuple(each))}" for each in indices.tolist()]


def _as_v3(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the metadata of a Zarr v2 array say of its chunks."""
    stated: Any = metadata.get("dtype")
    sized = re.fullmatch(r"[<>|]([a-zA-Z])([0-9]{1,9})(\[\w+\])?", str(stated))
    length = int(sized[2]) * (4 if sized[1] == "U" else 1) if sized else 0
    separator = metadata.get("dimension_separator") or "."
    return {
        "shape": metadata.get("shape"),
        "data_type": {"name": str(stated), "configuration": {"length_bytes": length}},
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": metadata.get("chunks")},
        },
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": separator}},
    }


def manifest_blocks(
    array: DeclaredArray, loaded: LoadedManifest, checksum: str, asked: CheckOptions, limits: Limits
) -> Iterator[ChunkBlock]:
    """Yield the chunks of a manifest document in blocks.

    Parameters
    ----------
    array : DeclaredArray
        The array.
    loaded : LoadedManifest
        A valid document.
    checksum : str
        Of the document.
    asked : CheckOptions
        How they are checked.
    limits : Limits
        Of the reader.
    """
    table = loaded.manifest
    columns = table.columns()
    wanted = asked.chosen(array.path, columns.numbers)
    for first, last in parts_of(
        np.where(wanted, np.maximum(columns.lengths, 0), 0) + EACH, _MOST_BYTES
    ):
        numbers = columns.numbers[first:last]
        indices = grid_indices(table.grid_shape, numbers)
        most = max(map(array.decoded_size, _extremes(array.chunk_grid, indices)), default=0)
        most = 4 * most + limits.chunk_bytes
        path_numbers = columns.path_numbers[first:last]
        ranged = np.flatnonzero(path_numbers >= 0)
        extras = table.extras_of(range(first, last))
        yield ChunkBlock(
            array.path,
            _key(array.path, checksum, numbers, asked),
            table.grid_shape,
            numbers,
            ranged,
            ranges_of(table, loaded.locations, first + ranged),
            {n: each.data for n, each in extras if each.data is not None},
            {n: each.checksum for n, each in extras if each.checksum is not None},
            wanted[first:last],
            int(np.count_nonzero(path_numbers == EMPTY)),
            most,
            False,
            array.metadata if asked.decode else None,
        )


def native_blocks(
    array: NativeArray,
    numbers: npt.NDArray[np.int64],
    keys: Sequence[str],
    checksum: str,
    asked: CheckOptions,
    limits: Limits,
) -> Iterator[ChunkBlock]:
    """Yield chunks of a native array in blocks.

    Parameters
    ----------
    array : NativeArray
        The array.
    numbers : ndarray of int64
        Chunk numbers, sorted.
    keys : sequence of str
        Where they are in the hierarchy's own store.
    checksum : str
        Of the array's metadata.
    asked, limits
        As for :func:`manifest_blocks`.
    """
    path = array.node.path
    wanted = asked.chosen(path, numbers)
    for first, last in parts_of(np.where(wanted, array.decoded_size, 0) + EACH, _MOST_BYTES):
        count = last - first
        objects = [SourceObject(StoreLocation(key), NO_CONDITIONS) for key in keys[first:last]]
        ranges = ManyRanges(
            objects, np.arange(count), np.zeros(count, np.int64), np.full(count, TO_THE_END)
        )
        yield ChunkBlock(
            path,
            _key(path, checksum, numbers[first:last], asked),
            tuple(array.grid.counts),
            numbers[first:last],
            np.arange(count),
            ranges,
            {},
            {},
            wanted[first:last],
            0,
            4 * array.decoded_size + limits.chunk_bytes,
            True,
            array.metadata if asked.decode else None,
        )


def parts_of(sizes: npt.NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield where parts begin and end that have about so many bytes together."""
    owners = (np.cumsum(sizes) - 1) // most
    edges = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(sizes)]
    for first, last in pairwise(edges):
        if first < last:
            yield first, last


def _extremes(grid: ChunkGrid, indices: npt.NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Return the chunks of which the largest is one: any, if all are alike."""
    some = indices[:1] if grid.regular is not None else indices
    return [tuple(index) for index in some.tolist()]


def _key(path: str, checksum: str, numbers: npt.NDArray[np.int64], asked: CheckOptions) -> str:
    return f"{path} {checksum} {numbers[0]}-{numbers[-1]} {asked.key}"
