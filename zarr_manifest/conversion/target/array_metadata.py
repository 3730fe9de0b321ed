"""Whether readers can open an array with this metadata; checked before anything refers to it.

Our own checks cover what this package needs; zarr's parser covers the rest, and looks up
the codecs and the data type.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import zarr
from zarr.buffer import default_buffer_prototype
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

# Its annotations name types of packages that may not be installed.
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

    A file may have thousands of arrays that differ in their lengths and attributes only: zarr
    opens one of them.
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
