"""Whether v2 metadata decodes what v3 metadata encodes: tried out on a small chunk.

Byte orders within filters, and what codecs infer from the array, differ between the two in
ways that depend on the codec.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.registry import get_numcodec
from zarr.storage import MemoryStore

from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import ArrayMetadata

__all__ = ["require_same_values"]

# Elements of the small chunk along each dimension.
_LENGTH = 3


def require_same_values(metadata: Mapping[str, Any], zarray: Mapping[str, Any]) -> None:
    """Refuse v2 metadata that decodes a chunk to other values than the v3 metadata does.

    Parameters
    ----------
    metadata : mapping
        Zarr v3 array metadata; storage transformers are ignored.
    zarray : mapping
        Zarr v2 array metadata.

    Raises
    ------
    NotConvertibleError
        It does, or cannot be decoded at all.
    """
    shape = [min(n, _LENGTH) for n in zarray["chunks"]]
    try:
        values, chunk = _written(_small(metadata, shape))
        decoded = _decoded(zarray, chunk, shape)
    except Exception as error:  # from whichever codec
        raise NotConvertibleError(
            f"its codecs could not be tried out as Zarr v2: {type(error).__name__}: {error}"
        ) from error
    if not _same(values, decoded):
        raise NotConvertibleError("as Zarr v2, its codecs decode chunks to other values")


def _small(metadata: Mapping[str, Any], shape: list[int]) -> dict[str, Any]:
    plain = ArrayMetadata("", dict(metadata)).undeclared
    plain.pop("dimension_names", None)
    return plain | {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
        "attributes": {},
    }


def _written(metadata: dict[str, Any]) -> tuple[np.ndarray[Any, Any], bytes]:
    """Return the values that zarr reads from a chunk that it has written, and the chunk."""
    body = default_buffer_prototype().buffer.from_bytes(json.dumps(metadata).encode())
    contents: dict[str, Any] = {"zarr.json": body}
    library = cast("Any", zarr)
    with warnings.catch_warnings():
        # Whether a data type is in the core specification does not matter here.
        warnings.simplefilter("ignore")
        opened = library.open_array(MemoryStore(contents), mode="r+", zarr_format=3)
        array = opened.with_config({"write_empty_chunks": True})
        array[...] = _values(array.dtype, array.shape)
        # With a dtype, because a text scalar is only as long as its content.
        values = np.asarray(array[...], array.dtype)
    del contents["zarr.json"]
    (chunk,) = contents.values()
    return values, chunk.to_bytes()


def _decoded(zarray: Mapping[str, Any], chunk: bytes, shape: list[int]) -> np.ndarray[Any, Any]:
    """Return the values that Zarr v2 reads from a chunk.

    This follows the specification instead of using zarr: 3.1 cannot read nested v2 data types.
    """
    steps: list[Any] = [*(zarray["filters"] or []), zarray["compressor"]]
    content: Any = chunk
    for step in reversed(steps):
        content = content if step is None else get_numcodec(step).decode(content)
    elements: Any = content if hasattr(content, "dtype") else np.frombuffer(content, "u1")
    elements = elements.reshape(-1, order="A")
    dtype = _numpy_type(zarray["dtype"])
    if "O" not in (dtype.kind, elements.dtype.kind):
        elements = elements.view(dtype)
    return np.asarray(elements.reshape(shape, order=zarray["order"]))


def _numpy_type(spec: Any) -> np.dtype[Any]:
    if isinstance(spec, str):
        return np.dtype(spec)
    return np.dtype([(name, _numpy_type(inner), *map(tuple, rest)) for name, inner, *rest in spec])


def _values(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return elements that differ from each other in more than one byte."""
    count = int(np.prod(shape, dtype=np.int64))
    numbers = np.arange(1, count + 1)
    if dtype.kind in "SUT":
        return np.array([f"{n}" for n in numbers]).astype(dtype).reshape(shape)
    if dtype.kind == "O":
        return np.array([b"%d" % n for n in numbers], object).reshape(shape)
    if dtype.kind == "V":
        content = np.arange(count * dtype.itemsize) % 97 + 1
        return np.frombuffer(content.astype("u1").tobytes(), dtype).reshape(shape)
    if dtype.kind == "b":
        return (numbers % 2).astype(dtype).reshape(shape)
    scale = 258 if dtype.itemsize > 1 else 1
    return (numbers * scale).astype("i8").astype(dtype).reshape(shape)


def _same(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    if first.dtype.kind in "OT" or second.dtype.kind in "OT":
        return bool(cast("list[Any]", first.tolist()) == second.tolist())
    one, other = first.dtype.newbyteorder("<"), second.dtype.newbyteorder("<")
    return bool(one == other and first.astype(one).tobytes() == second.astype(other).tobytes())
