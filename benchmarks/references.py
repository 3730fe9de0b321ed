"""Where the chunks of one array are, as columns: what every participant writes in its own form."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.store import Store
from zarr.codecs import BytesCodec, ZstdCodec
from zarr.storage import MemoryStore

#: Size of the decoded chunks of `consecutive`.
CHUNK_BYTES = 1024
PER_OBJECT = 1000

_NAME = "references.pickle"
_PLACES = "places.json"


@dataclass(frozen=True)
class Places:
    """What those who open references have to know: it is read while the time is taken.

    Attributes
    ----------
    sources, native
        As of `References`.
    """

    sources: str
    native: str

    @classmethod
    def load(cls, directory: Path) -> Places:
        return cls(**json.loads((directory / _PLACES).read_bytes()))


@dataclass(frozen=True, eq=False)
class References:
    """References to chunks of an array `data`, in the order of its chunk grid.

    Attributes
    ----------
    shape, chunks, dtype, zstd
        Of the array; for a sharded one, `chunks` are the shards, and `inner` the chunks in them.
    urls
        The objects with the chunks.
    objects, offsets, lengths
        One row for each chunk: number of the object, and where in it.
    sources
        Prefix of all URLs.
    native
        A hierarchy with the same chunks as Zarr keeps them: a path or URL; may be "".
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: str
    urls: tuple[str, ...]
    objects: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    sources: str
    native: str = ""
    zstd: bool = False
    inner: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(-(-n // chunk) for n, chunk in zip(self.shape, self.chunks, strict=True))

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `zarr.create_array`."""
        return {
            "shape": self.shape,
            "chunks": self.chunks if self.inner is None else self.inner,
            "shards": None if self.inner is None else self.chunks,
            "dtype": self.dtype,
            "compressors": [ZstdCodec(level=1)] if self.zstd else None,
            "serializer": BytesCodec(),
            "dimension_names": ["time", "y", "x"][-len(self.shape) :],
        }

    def create_array(self, store: Store | str | Path) -> zarr.Array[Any]:
        """Create a group with the array, without chunks."""
        return zarr.create_group(store).create_array("data", **self.options)

    def metadata(self) -> Any:
        return self.create_array(MemoryStore()).metadata

    def paths(self) -> list[str]:
        """Return the URL of each chunk."""
        urls = self.urls
        return [urls[number] for number in self.objects.tolist()]

    def chunk_keys(self) -> list[str]:
        """Return the grid index of each chunk, joined with a dot."""
        return [".".join(map(str, index)) for index in self.indices().tolist()]

    def indices(self, start: int = 0) -> npt.NDArray[np.int64]:
        """Return the grid index of each chunk: one row each, from the chunk of a number."""
        numbers = np.arange(start, start + len(self))
        return np.stack(np.unravel_index(numbers, self.grid), axis=1)

    def save(self, directory: Path) -> None:
        (directory / _NAME).write_bytes(pickle.dumps(self))
        (directory / _PLACES).write_text(json.dumps(asdict(Places(self.sources, self.native))))

    @staticmethod
    def load(directory: Path) -> References:
        loaded: References = pickle.loads((directory / _NAME).read_bytes())
        return loaded


def first_chunk(array: Any) -> Any:
    """Read the first chunk of an array."""
    return array[tuple(slice(0, size) for size in array.chunks)]


def consecutive(
    count: int, sources: str, *, grid: int | None = None, real: bytes = b"", every: int = 1000
) -> References:
    """Return references to chunks of irregular lengths, like those of compression.

    They follow each other in objects of `PER_OBJECT`. With `grid`, the array has that many chunks,
    and the references are those of the first ones. One chunk of `every` is `real`, of its length.
    """
    lengths = np.random.default_rng(0).integers(CHUNK_BYTES // 2, CHUNK_BYTES, count)
    if real:
        lengths[::every] = len(real)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    numbers = np.arange(count) // PER_OBJECT
    return References(
        shape=((grid or count) * CHUNK_BYTES,),
        chunks=(CHUNK_BYTES,),
        dtype="|u1",
        urls=tuple(f"{sources}2024/source-{n:06}.nc" for n in range(-(-count // PER_OBJECT))),
        objects=numbers.astype(np.int32),
        offsets=starts - starts[numbers * PER_OBJECT],
        lengths=lengths,
        sources=sources,
        zstd=True,
    )
