"""Whether chunks can be decoded: by zarr, with the codecs of their array, without a store."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import zarr
from zarr.buffer import default_buffer_prototype
from zarr.errors import UnstableSpecificationWarning
from zarr.storage import MemoryStore

from zarr_manifest.format import ArrayMetadata, ChunkGrid, dump_node

# Not all of its functions have known types.
_untyped_zarr: Any = zarr


class ChunkDecoding:
    """Decodes the chunks of one array; in several threads at the same time.

    Parameters
    ----------
    metadata : dict
        Of the array: of Zarr v3, with its declaration or without, or of Zarr v2.

    Examples
    --------
    >>> array = zarr.create_array({}, shape=4, chunks=2, dtype="u1", compressors=None)
    >>> decoding = ChunkDecoding(array.metadata.to_dict())
    >>> decoding.failure((0,), b"12") is None, decoding.failure((0,), b"123") is None
    (True, False)
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._buffer: Callable[[bytes], Any] = default_buffer_prototype().buffer.from_bytes
        is_v2 = metadata.get("zarr_format") == 2
        plain = dict(metadata) if is_v2 else ArrayMetadata("", dict(metadata)).undeclared
        name = ".zarray" if is_v2 else "zarr.json"
        self._stored: dict[str, Any] = {name: self._buffer(dump_node(plain))}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableSpecificationWarning)
            store = MemoryStore(self._stored)
            version = 2 if is_v2 else 3
            self._array = _untyped_zarr.open_array(store, mode="r", zarr_format=version)
        chunks = ChunkGrid(self._array.shape, self._array.chunks, None) if is_v2 else None
        grid = chunks or ChunkGrid.from_metadata(plain)
        assert grid is not None  # its chunks are known
        self._grid = grid

    def failure(self, index: tuple[int, ...], body: bytes | memoryview) -> str | None:
        """Return why a chunk cannot be decoded to its size; None if it can.

        Parameters
        ----------
        index : tuple of int
            Grid index of the chunk.
        body : bytes or memoryview
            All of its encoded bytes.
        """
        key = self._array.metadata.encode_chunk_key(index)
        region = self._grid.region(index)
        self._stored[key] = self._buffer(bytes(body))
        try:
            decoded = self._array[region]
        except Exception as error:  # of any codec
            return f"a chunk cannot be decoded: {type(error).__name__}: {error}"
        finally:
            del self._stored[key]
        expected = tuple(part.stop - part.start for part in region)
        if getattr(decoded, "shape", ()) != expected:
            return f"a chunk is decoded to the shape {decoded.shape}, and should have {expected}"
        return None
