"""Fill chunks: explicitly empty chunks, encoded for readers that treat missing chunks as errors."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import zarr.api.asynchronous
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarr_manifest.errors import SourceError
from zarr_manifest.format import ChunkGrid
from zarr_manifest.showing import counted
from zarr_manifest.sources import in_own_loop

# Metadata may state any size, of which nothing has to exist.
_LARGEST_FILL_CHUNK = 2**31


def encode_fill_chunk(metadata: dict[str, Any], index: tuple[int, ...], key: str) -> bytes:
    """Encode a chunk of fill values with an array's codecs.

    Parameters
    ----------
    metadata : dict
        Metadata of the array, without storage transformers.
    index : tuple of int
        Grid index of the chunk.
    key : str
        The array's own relative key for the chunk.

    Raises
    ------
    SourceError
        If the codecs do not preserve the fill value, or the chunk grid is unknown.
    """
    grid = ChunkGrid.from_metadata(metadata)
    if grid is None:
        raise SourceError("the chunk is explicitly empty, but its extent is unknown")
    region = grid.region(index)

    async def encode() -> bytes:
        contents = {"zarr.json": cpu.Buffer.from_bytes(json.dumps(metadata).encode())}
        store = MemoryStore(contents)  # type: ignore[arg-type]
        asynchronous: Any = zarr.api.asynchronous
        # zarr 3.1 ignores a configuration passed when opening an array.
        opened = await asynchronous.open_array(store=store)
        array = opened.with_config({"write_empty_chunks": True})
        size = math.prod(part.stop - part.start for part in region) * array.dtype.itemsize
        if size > _LARGEST_FILL_CHUNK:
            raise SourceError(
                "the chunk is explicitly empty, and too large to encode fill values for it: "
                f"{counted(size, 'byte')}"
            )
        fill = array.metadata.fill_value
        await array.setitem(region, fill)
        decoded = np.asarray(await array.getitem(region))
        if not np.array_equal(
            decoded, np.full_like(decoded, fill), equal_nan=decoded.dtype.kind in "fcmM"
        ):
            raise SourceError(
                "the chunk is explicitly empty, but its codecs do not preserve the fill value"
            )
        return contents[key].to_bytes()

    return in_own_loop(encode())
