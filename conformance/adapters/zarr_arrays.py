"""Shared by the adapters for zarr-python: arrays and stores, in terms of the protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.buffer import default_buffer_prototype

# Private, but clients of some stores live on zarr's own event loop, which has no public name.
from zarr.core.sync import sync

from conformance.adapters.json_lines import RefusedError, Values

__all__ = [
    "MISSING_ERROR",
    "array_of",
    "chunk_bytes",
    "consolidated_above",
    "listed_chunks",
    "missing_chunks",
    "read_values",
]

type ZarrArray = zarr.Array[Any]

# zarr has it from 3.2 on.
_CHUNK_NOT_FOUND: type[Exception] | None = getattr(zarr.errors, "ChunkNotFoundError", None)
MISSING_ERROR = () if _CHUNK_NOT_FOUND is None else ("missing-error",)


@contextmanager
def missing_chunks(are_errors: bool) -> Iterator[None]:
    """Let zarr treat missing chunks as errors or not, and report them as the protocol does."""
    with zarr.config.set({"array.read_missing_chunks": not are_errors}):
        try:
            yield
        except Exception as error:
            if _CHUNK_NOT_FOUND is None or not isinstance(error, _CHUNK_NOT_FOUND):
                raise
            raise RefusedError("missing_chunk", "chunk", str(error)) from error


def array_of(group: zarr.Group, path: str) -> ZarrArray:
    """Return an array below a group."""
    found = group[path]
    if not isinstance(found, zarr.Array):
        raise TypeError(f"{path!r} is a group")
    return found


def consolidated_above(store: Store, array: str) -> tuple[str, str] | None:
    """Return the topmost group above an array that has consolidated metadata, and the path there.

    None if no group has.
    """
    names = array.split("/") if array else []
    for depth in range(len(names)):
        group = "/".join(names[:depth])
        key = f"{group}/zarr.json".lstrip("/")
        document = sync(store.get(key, default_buffer_prototype()))
        node = None if document is None else json.loads(document.to_bytes())
        if isinstance(node, dict) and node.get("consolidated_metadata"):
            return group, "/".join(names[depth:])
    return None


def read_values(array: ZarrArray, selection: Sequence[Sequence[int]] | None) -> Values:
    """Read a selection, one ``[start, stop]`` per dimension, or everything."""
    key = ... if selection is None else tuple(slice(start, stop) for start, stop in selection)
    values: np.ndarray[Any, Any] = np.asarray(array[key])
    little = values.astype(values.dtype.newbyteorder("<"))
    return Values(values.shape, _data_type(array), little.tobytes(order="C"))


def _data_type(array: ZarrArray) -> str:
    """Return the Zarr v3 name of the data type, whatever the array's format."""
    metadata: Any = array.metadata
    # A v2 array has it as `dtype`.
    declared = getattr(metadata, "data_type", None) or metadata.dtype
    name = declared.to_json(zarr_format=3)
    return str(name if isinstance(name, str) else name["name"])


def chunk_bytes(
    array: ZarrArray, index: tuple[int, ...], part: Mapping[str, int] | None
) -> bytes | None:
    """Return the store's value for a chunk, under the array's own chunk key."""
    key = _store_key(array, array.metadata.encode_chunk_key(index))

    async def get() -> bytes | None:
        found = await array.store.get(key, default_buffer_prototype(), _byte_request(part))
        return None if found is None else found.to_bytes()

    return sync(get())


def _byte_request(part: Mapping[str, int] | None) -> ByteRequest | None:
    match part:
        case None:
            return None
        case {"start": start, "stop": stop}:
            return RangeByteRequest(start, stop)
        case {"start": start}:
            return OffsetByteRequest(start)
        case {"last": count}:
            return SuffixByteRequest(count)
        case _:
            raise ValueError(f"invalid byte range {part!r}")


def listed_chunks(array: ZarrArray) -> list[str]:
    """Return the canonical keys of the chunks that the array's store lists."""
    below = _store_key(array, "")
    keys = sync(_list_prefix(array.store, below))
    indices = {_grid_index(array, key.removeprefix(below)) for key in keys} - {None}
    return [".".join(map(str, index)) or "0" for index in sorted(_present(indices))]


async def _list_prefix(store: Store, prefix: str) -> list[str]:
    return [key async for key in store.list_prefix(prefix)]


def _present(indices: Iterable[tuple[int, ...] | None]) -> Iterable[tuple[int, ...]]:
    return (index for index in indices if index is not None)


def _grid_index(array: ZarrArray, key: str) -> tuple[int, ...] | None:
    """Return the grid index of a chunk key; None for other keys."""
    # Whatever the separator, only the spelling that zarr itself would write counts.
    numbers = [int(n) for n in re.findall(r"[0-9]+", key)]
    index = tuple(numbers) if array.ndim else ()
    if len(index) != array.ndim or array.metadata.encode_chunk_key(index) != key:
        return None
    return index


def _store_key(array: ZarrArray, relative: str) -> str:
    return f"{array.path}/{relative}" if array.path else relative
