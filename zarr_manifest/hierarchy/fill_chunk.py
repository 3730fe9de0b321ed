"""The encoded form of a chunk whose elements are all the fill value.

Needed only where zarr is told that missing chunks are an error: an explicitly
empty chunk is present, and can then not be answered with nothing.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import numpy as np
import zarr.api.asynchronous
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarr_manifest.errors import SourceError
from zarr_manifest.format import ChunkGrid

__all__ = ["encode_fill_chunk"]


def encode_fill_chunk(metadata: dict[str, Any], index: tuple[int, ...], key: str) -> bytes:
    """Encode a chunk of fill values as an array's codecs do.

    Parameters
    ----------
    metadata : dict
        Metadata document of the array, without storage transformers.
    index : tuple of int
        Grid index of the chunk.
    key : str
        The array's own relative key of the chunk.

    Raises
    ------
    SourceError
        The codecs do not give the fill value back, or the grid is unknown.
    """
    grid = ChunkGrid.from_metadata(metadata)
    if grid is None:
        raise SourceError("the chunk is explicitly empty, and its extent is unknown")
    region = grid.region(index)

    async def encode() -> bytes:
        contents = {"zarr.json": cpu.Buffer.from_bytes(json.dumps(metadata).encode())}
        store = MemoryStore(contents)  # type: ignore[arg-type]
        asynchronous: Any = zarr.api.asynchronous
        # zarr 3.1 ignores the configuration that it is given when it opens an array.
        opened = await asynchronous.open_array(store=store)
        array = opened.with_config({"write_empty_chunks": True})
        fill = array.metadata.fill_value
        await array.setitem(region, fill)
        decoded = np.asarray(await array.getitem(region))
        if not np.array_equal(
            decoded, np.full_like(decoded, fill), equal_nan=decoded.dtype.kind in "fc"
        ):
            raise SourceError("the chunk is explicitly empty, and its codecs lose the fill value")
        return contents[key].to_bytes()

    # In a thread of its own: the caller may be inside an event loop, and must wait.
    outcome: list[bytes | BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(encode()))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="encode-fill-chunk")
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
