"""Arrays as zarr itself writes them: metadata, and encoded chunks to store inline."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import zarr
from zarr.buffer import cpu
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.storage import MemoryStore

from zarr_manifest.format import ChunkGrid

if TYPE_CHECKING:
    import numpy as np

# Not all of its functions have known types.
_untyped_zarr: Any = zarr

type Encoded = tuple[dict[str, Any], dict[tuple[int, ...], bytes]]

# Larger arrays are chunked along their first dimension, so that parts can be read alone.
_CHUNK_BYTES = 4 * 2**20


def unwritten_array(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    dimension_names: Sequence[str | None],
    attributes: Mapping[str, Any],
    fill_value: Any,
    chunks: tuple[int, ...] | None = None,
) -> dict[str, Any]:
    """Return the metadata of an array without chunks.

    Examples
    --------
    >>> import numpy as np
    >>> metadata = unwritten_array(
    ...     (3,), np.dtype("i2"), dimension_names=["x"], attributes={}, fill_value=-1
    ... )
    >>> metadata["data_type"], metadata["shape"], metadata["fill_value"]
    ('int16', [3], -1)
    """
    contents: dict[str, Any] = {}
    if chunks is None:
        row = max(1, math.prod(shape[1:]) * dtype.itemsize)
        rows = max(1, _CHUNK_BYTES // row)
        chunks = tuple(max(1, n) for n in (min(rows, shape[0]), *shape[1:])) if shape else ()
    _untyped_zarr.create_array(
        MemoryStore(contents),
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        # Like the chunks of other files that it may be combined with.
        compressors=None,
        fill_value=fill_value,
        dimension_names=dimension_names,
        attributes=dict(attributes),
        zarr_format=3,
    )
    return array_in_memory(contents, "")[0]


def encoded_chunks(metadata: ArrayV3Metadata, values: Any) -> dict[tuple[int, ...], bytes]:
    r"""Return the chunks of an array with these values.

    Examples
    --------
    >>> import numpy as np
    >>> metadata = unwritten_array(
    ...     (3,), np.dtype("u1"), dimension_names=["x"], attributes={}, fill_value=0, chunks=(2,)
    ... )
    >>> encoded_chunks(ArrayV3Metadata.from_dict(metadata), [1, 2, 3])
    {(0,): b'\x01\x02', (1,): b'\x03\x00'}
    """
    contents = metadata.to_buffer_dict(cpu.buffer_prototype)
    config = {"write_empty_chunks": True}
    target = _untyped_zarr.open_array(MemoryStore(contents), mode="r+", config=config)
    target[...] = values
    return array_in_memory(contents, "")[1]


def decoded_values(metadata: ArrayV3Metadata, chunks: Mapping[tuple[int, ...], bytes]) -> Any:
    """Return the values of an array with these chunks.

    Examples
    --------
    >>> import numpy as np
    >>> metadata = unwritten_array(
    ...     (3,), np.dtype("u1"), dimension_names=["x"], attributes={}, fill_value=7, chunks=(2,)
    ... )
    >>> decoded_values(ArrayV3Metadata.from_dict(metadata), {(0,): b"12"})
    array([49, 50,  7], dtype=uint8)
    """
    contents = metadata.to_buffer_dict(cpu.buffer_prototype)
    for index, data in chunks.items():
        contents[metadata.encode_chunk_key(index)] = cpu.Buffer.from_bytes(data)
    return _untyped_zarr.open_array(MemoryStore(contents), mode="r")[...]


def array_in_memory(contents: Mapping[str, Any], path: str) -> Encoded:
    """Return the metadata and the chunks of an array in the mapping of a ``MemoryStore``."""
    root = f"{path}/" if path else ""
    metadata: dict[str, Any] = json.loads(contents[f"{root}zarr.json"].to_bytes())
    grid = ChunkGrid.from_metadata(metadata)
    assert grid is not None  # zarr has just written the metadata
    encoding = metadata["chunk_key_encoding"]
    separator = encoding.get("configuration", {}).get("separator", "/")
    chunks: dict[tuple[int, ...], bytes] = {}
    for key, value in contents.items():
        name = key.removeprefix(root)
        if key.startswith(root) and (name == "c" or name.startswith(f"c{separator}")):
            index = tuple(int(number) for number in name.split(separator)[1:])
            chunks[index] = value.to_bytes()
    return metadata, chunks
