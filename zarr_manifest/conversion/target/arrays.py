"""Arrays as zarr has them: whether it opens metadata, which it writes, and encoded chunks.

Metadata are checked before anything refers to them: our own checks cover what this package needs;
zarr's parser covers the rest, and looks up the codecs and the data type.
"""

from __future__ import annotations

import functools
import json
import math
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import zarr
from zarr.buffer import cpu, default_buffer_prototype
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.storage import MemoryStore, StorePath

from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format import (
    ArrayMetadata,
    ChunkGrid,
    dump_node,
    interpret_chunk_grid,
    interpret_codecs,
    interpret_members,
    strict,
)

if TYPE_CHECKING:
    import numpy as np


# Its annotations name types of packages that may not be installed, or are not known.
_untyped_zarr: Any = zarr


def require_valid_array(metadata: dict[str, Any]) -> ChunkGrid:
    """Return the chunk grid of valid Zarr v3 array metadata.

    Raises
    ------
    InvalidConfigurationError
        It is not valid, or this version of zarr does not know a codec or the data type.

    Examples
    --------
    >>> require_valid_array({"zarr_format": 3, "node_type": "array", "shape": None})
    Traceback (most recent call last):
    zarr_manifest.errors.InvalidConfigurationError: ...'shape' is null, not a list
    """
    strict(interpret_members(metadata))
    strict(interpret_codecs(metadata["codecs"]))
    if ArrayMetadata("", metadata).declaration:
        raise InvalidConfigurationError("the metadata already declares storage transformers")
    with _reasons():
        open_with_zarr(metadata)
    grid = strict(interpret_chunk_grid(metadata))
    if grid is None:
        raise InvalidConfigurationError("the chunk grid is of an unknown kind")
    return grid


def require_valid_group(metadata: dict[str, Any]) -> None:
    """Refuse group metadata that is not valid Zarr v3.

    Raises
    ------
    InvalidConfigurationError
    """
    with _reasons():
        document = default_buffer_prototype().buffer.from_bytes(dump_node(metadata))
        _untyped_zarr.open(MemoryStore({"zarr.json": document}), mode="r", zarr_format=3)


def open_with_zarr(metadata: dict[str, Any]) -> None:
    """Let zarr open an array, and raise whatever zarr raises.

    A file may have thousands of arrays that differ in their lengths and attributes only: zarr,
    which takes a millisecond for each, opens one of them.
    """
    try:
        _open_once(json.dumps(_without_lengths(metadata)))
    except Exception:  # whatever it is: this may be about what was left out
        _open(metadata)


@functools.lru_cache(1000)
def _open_once(document: str) -> None:
    _open(json.loads(document))


def _open(metadata: dict[str, Any]) -> None:
    # Without a store's round trip, which takes longer than all else about a small array.
    _untyped_zarr.Array.from_dict(StorePath(MemoryStore({})), json.loads(json.dumps(metadata)))


def _without_lengths(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata that zarr accepts if it accepts these."""
    reduced = dict(metadata)
    if isinstance(reduced.get("attributes"), dict):
        reduced["attributes"] = {}
    names = reduced.get("dimension_names")
    if isinstance(names, list) and all(
        name is None or isinstance(name, str) for name in cast("list[object]", names)
    ):
        reduced["dimension_names"] = [None] * len(cast("list[object]", names))
    match reduced:
        case {
            "shape": [*shape],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [*chunks]}},
        } if (
            len(shape) == len(chunks)
            and all(type(length) is int and length >= 0 for length in shape)
            and all(type(length) is int and length > 0 for length in chunks)
            # Shards have to be multiples of the chunks in them.
            and "shard" not in json.dumps(reduced.get("codecs"))
        ):
            ones = [1] * len(shape)
            grid = {"name": "regular", "configuration": {"chunk_shape": ones}}
            reduced |= {"shape": ones, "chunk_grid": grid}
        case _:
            pass
    return reduced


@contextmanager
def _reasons() -> Generator[None]:
    try:
        with warnings.catch_warnings():
            # Data types outside the core specification can be read all the same.
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # whatever zarr's parsers and codecs raise is the reason
        raise InvalidConfigurationError(
            f"zarr cannot open this metadata: {type(error).__name__}: {error}"
        ) from error


# Values, encoded and decoded ------------------------------------------------------------

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


def encoded_chunks(metadata: dict[str, Any], values: Any) -> dict[tuple[int, ...], bytes]:
    r"""Return the chunks of an array with these values.

    Examples
    --------
    >>> import numpy as np
    >>> metadata = unwritten_array(
    ...     (3,), np.dtype("u1"), dimension_names=["x"], attributes={}, fill_value=0, chunks=(2,)
    ... )
    >>> encoded_chunks(metadata, [1, 2, 3])
    {(0,): b'\x01\x02', (1,): b'\x03\x00'}
    """
    contents: dict[str, Any] = {"zarr.json": cpu.Buffer.from_bytes(dump_node(metadata))}
    config = {"write_empty_chunks": True}
    target = _untyped_zarr.open_array(MemoryStore(contents), mode="r+", config=config)
    target[...] = values
    return array_in_memory(contents, "")[1]


def decoded_values(metadata: dict[str, Any], chunks: Mapping[tuple[int, ...], bytes]) -> Any:
    """Return the values of an array with these chunks.

    Examples
    --------
    >>> import numpy as np
    >>> metadata = unwritten_array(
    ...     (3,), np.dtype("u1"), dimension_names=["x"], attributes={}, fill_value=7, chunks=(2,)
    ... )
    >>> decoded_values(metadata, {(0,): b"12"})
    array([49, 50,  7], dtype=uint8)
    """
    contents: dict[str, Any] = {"zarr.json": cpu.Buffer.from_bytes(dump_node(metadata))}
    encode = ArrayV3Metadata.from_dict(metadata).encode_chunk_key
    for index, data in chunks.items():
        contents[encode(index)] = cpu.Buffer.from_bytes(data)
    return _untyped_zarr.open_array(MemoryStore(contents), mode="r")[...]


def array_in_memory(contents: Mapping[str, Any], path: str) -> Encoded:
    """Return the metadata and the chunks of an array in the mapping of a ``MemoryStore``."""
    root = f"{path}/" if path else ""
    metadata: dict[str, Any] = json.loads(contents[f"{root}zarr.json"].to_bytes())
    encoding = metadata["chunk_key_encoding"]
    separator = encoding.get("configuration", {}).get("separator", "/")
    chunks: dict[tuple[int, ...], bytes] = {}
    for key, value in contents.items():
        name = key.removeprefix(root)
        if key.startswith(root) and (name == "c" or name.startswith(f"c{separator}")):
            index = tuple(int(number) for number in name.split(separator)[1:])
            chunks[index] = value.to_bytes()
    return metadata, chunks
