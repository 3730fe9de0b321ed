"""Manifest arrays of shards for the tests of bulk reads: how they are laid out, and damaged."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
import zarr.codecs
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array
from zarr_manifest.format import compute_checksum

__all__ = [
    "DAMAGES",
    "POISON",
    "ShardedArray",
    "both_ways",
    "encode_shards",
    "outcome_of",
    "selections",
    "sharded_arrays",
    "sharding",
    "write_sharded",
]

POISON = b"\xee"

_FILL = -1


class ShardedArray(NamedTuple):
    """How an array is divided and encoded, and its values."""

    values: np.ndarray[Any, Any]
    shards: tuple[int, ...]
    options: dict[str, Any]


_INNER_CODECS: dict[str, tuple[Any, ...]] = {
    "none": (),
    "zstd": (zarr.codecs.ZstdCodec(level=1),),
    "gzip": (zarr.codecs.GzipCodec(level=1),),
    "crc32c": (zarr.codecs.Crc32cCodec(),),
    "zstd and crc32c": (zarr.codecs.ZstdCodec(level=1), zarr.codecs.Crc32cCodec()),
}


def sharding(
    chunks: tuple[int, ...],
    *,
    inner: str = "none",
    index_location: Any = "end",
    index_checksum: bool = True,
    endian: Any = "little",
    transposed: bool = False,
) -> dict[str, Any]:
    """Return the options of arrays with such shards."""
    ndim = len(chunks)
    before = [zarr.codecs.TransposeCodec(order=tuple(range(ndim))[::-1])] if transposed else []
    index: list[Any] = [zarr.codecs.BytesCodec(endian=endian)]
    serializer = zarr.codecs.ShardingCodec(
        chunk_shape=chunks,
        codecs=[*before, zarr.codecs.BytesCodec(endian=endian), *_INNER_CODECS[inner]],
        index_codecs=[*index, zarr.codecs.Crc32cCodec()] if index_checksum else index,
        index_location=index_location,
    )
    return {"serializer": serializer, "fill_value": _FILL}


@st.composite
def sharded_arrays(draw: st.DrawFn) -> ShardedArray:
    """Arrays of several shards, of which some inner chunks and some whole shards are missing."""
    ndim = draw(st.integers(1, 3))
    chunks = tuple(draw(st.integers(1, 3)) for _ in range(ndim))
    shards = tuple(c * draw(st.integers(1, 3)) for c in chunks)
    shape = tuple(draw(st.integers(1, 2 * n + 1)) for n in shards)
    dtype = draw(st.sampled_from(["<i4", "<f8", "i1"]))
    values = (np.arange(np.prod(shape)) % 100).astype(dtype).reshape(shape)
    values[draw(boxes(shape))] = draw(st.sampled_from([_FILL, 5]))
    options = sharding(
        chunks,
        inner=draw(st.sampled_from(list(_INNER_CODECS))),
        index_location=draw(st.sampled_from(["start", "end"])),
        index_checksum=draw(st.booleans()),
        endian=draw(st.sampled_from(["little", "big"])),
        transposed=draw(st.integers(0, 4)) == 0,
    )
    return ShardedArray(values, shards, options)


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """Some elements that lie together."""
    starts = [draw(st.integers(0, n - 1)) for n in shape]
    return tuple(
        slice(start, draw(st.integers(start + 1, n)))
        for start, n in zip(starts, shape, strict=True)
    )


@st.composite
def selections(draw: st.DrawFn, shape: tuple[int, ...]) -> Callable[[Any], Any]:
    """Ways to select elements of an array, or of an ndarray."""
    kind = draw(st.sampled_from(["all", "box", "basic", "orthogonal", "coordinates", "mask"]))
    if kind == "all":
        return lambda array: array[...]
    if kind == "box":
        box = draw(boxes(shape))
        return lambda array: array[box]
    if kind == "basic":
        basic = tuple(draw(_basic_parts(n)) for n in shape)
        return lambda array: array[basic]
    if kind == "orthogonal":
        parts = tuple(draw(_basic_parts(n) | _lists(n)) for n in shape)
        return lambda array: _orthogonal(array, parts)
    if kind == "mask":
        mask = np.array(
            draw(
                st.lists(st.booleans(), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
            )
        )
        mask = mask.reshape(shape)
        return lambda array: array[mask] if isinstance(array, np.ndarray) else array.vindex[mask]
    count = draw(st.integers(1, 6))
    points = tuple(
        np.array(draw(st.lists(st.integers(0, n - 1), min_size=count, max_size=count)))
        for n in shape
    )
    return lambda array: array[points] if isinstance(array, np.ndarray) else array.vindex[points]


def _basic_parts(n: int) -> st.SearchStrategy[Any]:
    def made(ends: tuple[int, int, int]) -> slice:
        return slice(min(ends[:2]), max(ends[:2]) + 1, ends[2])

    index = st.integers(0, n - 1)
    return index | st.tuples(index, index, st.integers(1, 4)).map(made)


def _lists(n: int) -> st.SearchStrategy[Any]:
    return st.lists(st.integers(0, n - 1), min_size=1, max_size=4).map(np.array)


def _orthogonal(array: Any, parts: tuple[Any, ...]) -> Any:
    if not isinstance(array, np.ndarray):
        return array.oindex[parts]
    for axis, part in reversed(list(enumerate(parts))):
        array = array[(slice(None),) * axis + (part,)]
    return array


# Writing ---------------------------------------------------------------------


def encode_shards(array: ShardedArray) -> dict[str, bytes]:
    """Return the encoded shards by canonical key; shards and inner chunks of fill are missing."""
    contents: dict[str, Any] = {}
    written = zarr.create_array(
        contents,
        shape=array.values.shape,
        dtype=array.values.dtype,
        chunks=array.shards,
        compressors=None,
        **array.options,
    )
    written[...] = array.values
    return {
        key.removeprefix("c/").replace("/", "."): value.to_bytes()
        for key, value in contents.items()
        if key != "zarr.json"
    }


def write_sharded(
    root: Path, array: ShardedArray, forms: Callable[[str], str], *, damage: Any = None
) -> None:
    """Write a hierarchy in which each shard has a form: `entry`, `open`, `data`, `empty`, `absent`.

    `damage` is a shard's key and a function of its bytes, or of its entry.
    """
    source = bytearray(POISON * 7)
    manifest: dict[str, dict[str, Any]] = {}
    for key, encoded in encode_shards(array).items():
        form, body = forms(key), encoded
        if damage is not None and damage[0] == key:
            body = damage[1](body)
        if form == "absent":
            continue
        if form == "empty":
            manifest[key] = {}
        elif form == "data":
            manifest[key] = {"data": base64.b64encode(body).decode()}
        elif form == "open":
            (root / f"{key}.bin").write_bytes(POISON * 3 + body)
            manifest[key] = {"path": f"../{key}.bin", "offset": 3}
        else:
            manifest[key] = {"path": "../source.bin", "offset": len(source), "length": len(body)}
            if form == "checked":
                manifest[key]["checksum"] = compute_checksum("crc32c", body)
            elif form == "wrong":
                manifest[key]["checksum"] = compute_checksum("crc32c", encoded + b"!")
            source += body + POISON * (len(source) % 5)
    beyond = [key for key in manifest if forms(key) == "beyond"]
    if beyond:
        # The object ends before the shard does.
        last = max(beyond, key=lambda key: manifest[key]["offset"])
        entry = manifest[last]
        body = bytes(source[entry["offset"] : entry["offset"] + entry["length"]])
        (root / "cut.bin").write_bytes(body[: len(body) - 1 - len(body) // 3])
        manifest[last] = {"path": "../cut.bin", "offset": 0, "length": len(body)}
    (root / "source.bin").write_bytes(source)
    write_manifest_array(root, "x", array.values, array.shards, manifest, **array.options)


def _flipped(place: Callable[[int], int]) -> Callable[[bytes], bytes]:
    def flip(body: bytes) -> bytes:
        changed = bytearray(body)
        changed[place(len(body))] ^= 0x41
        return bytes(changed)

    return flip


# Each is a function of the bytes of a shard; the index may be at either end.
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "the last byte": _flipped(lambda n: n - 1),
    "the first byte": _flipped(lambda n: 0),
    "an offset at the end": _flipped(lambda n: max(0, n - 20)),
    "a length": _flipped(lambda n: min(n - 1, 8)),
    "a high byte": _flipped(lambda n: min(n - 1, 7)),
    "the middle": _flipped(lambda n: n // 2),
    "cut at the end": lambda body: body[: len(body) - 1],
    "cut at the start": lambda body: body[1:],
    "hardly anything": lambda body: body[:3],
}


# Reading ---------------------------------------------------------------------


def outcome_of(read: Callable[[], Any]) -> tuple[Any, ...]:
    """Return the values that a call returns, or what its error says."""
    try:
        values = np.asanyarray(read())
        return "values", values.dtype, values.shape, values.tobytes()
    except zm.ManifestError as error:
        return type(error), error.code, str(error), error.array, error.chunk, error.location
    except Exception as error:
        return type(error), str(error)


def both_ways(root: Path, **options: Any) -> tuple[Any, Any]:
    """Open the array twice: to be read chunk by chunk, and in bulk."""
    with zarr.config.set({"zarr_manifest.bulk": False}):
        single = zarr.open_array(zm.ManifestStore(root, **options), path="x", mode="r")
    bulk = zarr.open_array(zm.ManifestStore(root, **options), path="x", mode="r")
    return single, bulk
