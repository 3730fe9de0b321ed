"""Random manifest arrays and selections, for reading them in bulk and chunk by chunk.

Every kind of data type, codec, chunk grid, entry and source; and, in troubled cases, whatever may
be wrong with them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import obstore as obs
import obstore.store
import zarr
from hypothesis import strategies as st
from zarr.abc.codec import BytesBytesCodec
from zarr.buffer import cpu
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.codecs import numcodecs as wrapped
from zarr.registry import register_codec
from zarr.storage import LocalStore, MemoryStore, ObjectStore

import zarr_manifest as zm
from zarr_manifest.format import ChunkGrid

__all__ = ["ARRAY", "Case", "cases"]

ARRAY = "g/a"
HAS_RECTILINEAR = zarr.config.get("array.rectilinear_chunks", None) is not None
REMOTE = "s3://remote/d"

KINDS = [
    "|b1", "|i1", "|u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">u8", "<f2", ">f2",
    "<f4", ">f4", "<f8", ">f8", "<c8", ">c8", "<c16", "<M8[s]", ">M8[ms]", "<m8[ns]", "<U3", ">U2",
    "|S4", "|V5", "record", "text", "bytes",
]  # fmt: skip
RECORD = np.dtype([("a", "<i4"), ("b", "u1"), ("c", "<f8")])


class Reversed(BytesBytesCodec):
    """Turns bytes round; of a kind that zarr can decode, but not without an event loop."""

    is_fixed_size = True

    @classmethod
    def from_dict(cls, data: Any) -> Reversed:
        return cls()

    def to_dict(self) -> Any:
        return {"name": "test.reversed"}

    def compute_encoded_size(self, byte_length: int, _spec: Any) -> int:
        return byte_length

    async def _decode_single(self, body: Any, spec: Any) -> Any:
        return spec.prototype.buffer.from_bytes(body.to_bytes()[::-1])

    _encode_single = _decode_single


register_codec("test.reversed", Reversed)


@dataclass
class Case:
    """A hierarchy with one manifest array, and the settings of its reader.

    Parameters
    ----------
    files : dict of str to bytes
        The hierarchy.
    remote : dict of str to bytes
        The objects of a store that stands in for remote ones.
    disk : dict of str to bytes
        The files of a local directory outside the hierarchy; ``@DISK@`` in a manifest is its URL.
    place : str
        What the hierarchy lies in.
    settings : dict
        Of the :class:`zarr_manifest.ManifestStore`.
    select : callable
        Reads from an opened array.
    selection : str
        What is read, for people.
    config : dict
        Of zarr.
    """

    files: dict[str, bytes]
    remote: dict[str, bytes]
    disk: dict[str, bytes]
    place: str
    settings: dict[str, Any]
    select: Callable[[Any], Any]
    selection: str
    config: dict[str, Any] = field(default_factory=dict)

    def written(self, directory: Path) -> Callable[[], zm.ManifestStore]:
        """Write everything, and return what opens a reader of the hierarchy."""
        disk = directory / "disk"
        for name, body in self.disk.items():
            (disk / name).parent.mkdir(parents=True, exist_ok=True)
            (disk / name).write_bytes(body)
        remote = obstore.store.MemoryStore()
        for name, body in self.remote.items():
            obs.put(remote, name, body)
        here = {
            key: body.replace(b"@DISK@", disk.as_uri().encode()) for key, body in self.files.items()
        }
        place = _in_place(self.place, here, directory / "h")
        allow: Any = {disk.as_uri(): None, REMOTE: remote}
        return lambda: zm.ManifestStore(place, allow=allow, read_only=True, **self.settings)


def _in_place(place: str, files: dict[str, bytes], directory: Path) -> Any:
    if place == "memory":
        return MemoryStore({key: cpu.Buffer.from_bytes(body) for key, body in files.items()})
    if place == "obstore":
        inner = obstore.store.MemoryStore()
        for key, body in files.items():
            obs.put(inner, key, body)
        return ObjectStore(inner)
    for key, body in files.items():
        (directory / key).parent.mkdir(parents=True, exist_ok=True)
        (directory / key).write_bytes(body)
    return LocalStore(directory)


# Values and chunks ---------------------------------------------------------------------


def _dtype(kind: str) -> Any:
    if kind == "record":
        return RECORD
    if kind == "text":
        return np.dtypes.StringDType()
    if kind == "bytes":
        return "variable_length_bytes"
    return np.dtype(kind)


def _values(kind: str, shape: tuple[int, ...], seed: int) -> Any:
    chance = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if kind in ("text", "bytes"):
        words = ["", "a", "été", "x" * 9, "b\0"]
        chosen = [words[i] for i in chance.integers(0, len(words), count)]
        if kind == "text":
            return np.array(chosen, np.dtypes.StringDType()).reshape(shape)
        values = np.empty(count, object)
        values[:] = [word.encode() for word in chosen]
        return values.reshape(shape)
    dtype = _dtype(kind)
    if dtype.kind == "U":
        return np.array([chr(97 + i) * 2 for i in chance.integers(0, 9, count)], dtype).reshape(
            shape
        )
    body = chance.integers(0, 2 if dtype.kind == "b" else 256, count * dtype.itemsize, "u1")
    return np.frombuffer(body.tobytes(), dtype).reshape(shape)


@st.composite
def _codecs(draw: Any, kind: str, ndim: int) -> dict[str, Any]:
    options: dict[str, Any] = {"compressors": None}
    simple = kind not in ("text", "bytes")
    number = simple and np.dtype(_dtype(kind)).kind in "iuf"
    chain = draw(st.sampled_from(["none", "none", "zstd", "gzip", "blosc", "crc32c", "shuffle",
                                  "two", "slow"]))  # fmt: skip
    if chain != "none":
        options["compressors"] = {
            "zstd": ZstdCodec(level=1, checksum=draw(st.booleans())),
            "gzip": GzipCodec(level=1),
            "blosc": BloscCodec(typesize=1, cname="lz4", shuffle="shuffle"),
            "crc32c": Crc32cCodec(),
            "shuffle": [
                wrapped.Shuffle(elementsize=np.dtype(_dtype(kind)).itemsize if simple else 1),
                wrapped.Zlib(level=1),
            ],
            "two": [ZstdCodec(level=1), Crc32cCodec()],
            "slow": Reversed(),
        }[chain]
    filters: list[Any] = []
    if ndim > 1 and simple and draw(st.sampled_from([False, False, True])):
        filters.append(TransposeCodec(order=tuple(draw(st.permutations(range(ndim))))))
    if number and np.dtype(kind).isnative and draw(st.sampled_from([False, False, True])):
        # Last: it makes chunks one-dimensional.
        filters.append(wrapped.Delta(dtype=np.dtype(kind).str))
    if filters:
        options["filters"] = filters
    return options


@st.composite
def _grid(draw: Any, shape: tuple[int, ...], rectilinear: bool) -> Any:
    if rectilinear:
        return tuple(_lengths(draw, n) for n in shape)
    return tuple(draw(st.integers(1, n + 1)) for n in shape)


def _lengths(draw: Any, size: int) -> list[int]:
    lengths: list[int] = []
    while sum(lengths) < size:
        lengths.append(draw(st.integers(1, size - sum(lengths))))
    return lengths


def _encoded(
    data: Any, kind: str, chunks: Any, options: dict[str, Any]
) -> tuple[dict[str, Any], dict[tuple[int, ...], tuple[str, bytes]]]:
    """Return the metadata of an array, and its keys and encoded chunks by grid index."""
    contents: dict[str, Any] = {}
    with warnings.catch_warnings(), zarr.config.set({"array.rectilinear_chunks": True}):
        warnings.simplefilter("ignore")
        array = zarr.create_array(
            contents,
            shape=data.shape,
            dtype=_dtype(kind),
            chunks=chunks,
            config={"write_empty_chunks": True},
            **options,
        )
        array[...] = data
    metadata = json.loads(contents["zarr.json"].to_bytes())
    grid = ChunkGrid.from_metadata(metadata)
    assert grid is not None
    found = {}
    for index in np.ndindex(*grid.counts):
        key = array.metadata.encode_chunk_key(index)
        found[index] = (key, contents[key].to_bytes())
    return metadata, found


# Entries -------------------------------------------------------------------------------

_SOUND = ["range", "range", "range", "whole", "end", "inline", "empty", "missing"]
_BROKEN = [
    "past the end", "no object", "denied", "garbled", "too short", "too long", "nothing there",
]  # fmt: skip
_CHECKSUMS = ["crc32c", "md5", "sha256"]


@dataclass
class _Objects:
    """The sources as they are written, and how manifests name them."""

    own: dict[str, bytearray] = field(default_factory=dict)
    remote: dict[str, bytearray] = field(default_factory=dict)
    disk: dict[str, bytearray] = field(default_factory=dict)

    def at(self, where: str, name: str) -> tuple[str, bytearray]:
        holder = getattr(self, where)
        path = {"own": "../src/", "remote": f"{REMOTE}/", "disk": "@DISK@/"}[where] + name
        return path, holder.setdefault(name, bytearray())


def _entry(draw: Any, kind: str, body: bytes, objects: _Objects) -> dict[str, Any] | None:
    if kind == "missing":
        return None
    if kind == "empty":
        return {}
    if kind == "garbled":
        body = draw(st.sampled_from([b"garbage", body[:-1] + b"\0", b"\x28\xb5\x2f\xfd" + body]))
    elif kind == "too short":
        body = body[: len(body) // 2]
    elif kind == "too long":
        body += body
    if kind == "inline":
        return {"data": base64.b64encode(body).decode()}
    where = draw(st.sampled_from(["own", "own", "remote", "disk"]))
    if kind == "denied":
        return {"path": f"s3://denied/{draw(st.integers(0, 1))}", "offset": 0, "length": 3}
    if kind == "no object":
        path, _ = objects.at(where, "x")
        return {"path": f"{path}.gone", **draw(st.sampled_from([{}, {"offset": 1, "length": 3}]))}
    if kind in ("whole", "end"):
        path, source = objects.at(where, f"alone{len(getattr(objects, where))}")
        source += b"before"[: 6 * (kind == "end")] + body
        return {"path": path, **({"offset": 6} if kind == "end" else {})}
    path, source = objects.at(where, f"o{draw(st.integers(0, 1))}")
    source += b"gap"[: draw(st.sampled_from([0, 0, 3]))]
    entry = {"path": path, "offset": len(source), "length": len(body)}
    source += body
    if kind == "past the end":
        entry["offset"] += 1000
    elif kind == "nothing there":
        return {"path": path, "offset": 100_000}
    return entry


def _state(draw: Any, entry: dict[str, Any], body: bytes, place: str, troubled: bool) -> None:
    """State checksums and conditions, some of them wrong."""
    wrong = troubled and draw(st.sampled_from([False] * 5 + [True]))
    if ("path" in entry or "data" in entry) and draw(st.sampled_from([False, False, True])):
        algorithm = draw(st.sampled_from(_CHECKSUMS))
        entry["checksum"] = _checksum(algorithm, b"other" if wrong else body)
    elif "path" in entry and draw(st.sampled_from([False, False, False, True])):
        if place == "memory" and entry["path"].startswith("../src/") and not troubled:
            return  # zarr's own store in memory knows no conditions
        if wrong:
            stated = [{"etag": '"x"'}, {"last_modified": "2001-01-01T00:00:00Z"}]
        else:
            stated = [{"last_modified": "2999-01-01T00:00:00Z"}]
        entry.update(draw(st.sampled_from(stated)))


def _checksum(algorithm: str, body: bytes) -> str:
    if algorithm == "crc32c":
        value: int = google_crc32c.value(body)  # type: ignore[attr-defined,no-untyped-call,unused-ignore]
        return f"crc32c:{value:08x}"
    return f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"


def _declare(
    draw: Any, entries: dict[tuple[int, ...], dict[str, Any]], ndim: int, troubled: bool
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the configuration of the declaration, and the documents."""
    files: dict[str, bytes] = {}
    keys = {index: ".".join(map(str, index)) or "0" for index in entries}
    form = draw(st.sampled_from(["inline", "one", "one", "parts", "parts"]))
    if form == "inline":
        return {"manifest": {keys[index]: entry for index, entry in entries.items()}}, files
    if form == "one":
        document = json.dumps({keys[index]: entry for index, entry in entries.items()})
        if troubled and draw(st.sampled_from([False] * 9 + [True])):
            document = draw(st.sampled_from(["", "[]", '{"0": {"path": ""}}', document[:-1]]))
        files[f"{ARRAY}/m.json"] = document.encode()
        return {"manifest": "m.json"}, files
    block = [draw(st.integers(1, 3)) for _ in range(ndim)]
    parts: dict[str, dict[str, Any]] = {}
    for index, entry in entries.items():
        owner = ".".join(str(i // n) for i, n in zip(index, block, strict=True)) or "0"
        parts.setdefault(owner, {})[keys[index]] = entry
    configuration: dict[str, Any] = {"manifest": "m/{partition}.json", "partition_shape": block}
    if draw(st.booleans()):
        configuration["partitions"] = sorted(parts)
    for owner, part in parts.items():
        document = json.dumps(part)
        if troubled and draw(st.sampled_from([False] * 11 + [True])):
            if draw(st.booleans()):
                continue
            document = "{"
        files[f"{ARRAY}/m/{owner}.json"] = document.encode()
    return configuration, files


# Selections ----------------------------------------------------------------------------


@st.composite
def _selections(draw: Any, shape: tuple[int, ...], kind: str) -> tuple[Callable[[Any], Any], str]:
    ways = ["basic", "basic", "basic", "all"]
    if shape:
        ways += ["orthogonal", "orthogonal", "coordinates", "mask", "blocks", "out"]
    if kind == "record":
        ways += ["fields"]
    way = draw(st.sampled_from(ways))
    if way == "all":
        return lambda array: array[...], "[...]"
    if way == "basic":
        basic = tuple(draw(_one(n, False)) for n in shape)
        return lambda array: array[basic], f"[{basic}]"
    if way == "orthogonal":
        chosen = tuple(draw(_one(n, True)) for n in shape)
        return lambda array: array.oindex[chosen], f".oindex[{chosen}]"
    if way == "coordinates":
        count = draw(st.integers(1, 8))
        points = tuple(
            draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)) for n in shape
        )
        return lambda array: array.vindex[points], f".vindex[{points}]"
    if way == "mask":
        size = int(np.prod(shape))
        mask = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        return lambda array: array.vindex[mask.reshape(shape)], f".vindex[{mask}]"
    if way == "blocks":
        first = tuple(draw(st.sampled_from([0, -1, slice(None), slice(0, 2)])) for _ in shape)
        return lambda array: array.blocks[first], f".blocks[{first}]"
    if way == "fields":
        fields = draw(st.sampled_from(["a", "c", ["a", "c"], ["b"]]))
        return (
            lambda array: array.get_basic_selection(..., fields=fields),
            f"[...], fields={fields}",
        )
    return _into_given_memory, "[...], out="


def _into_given_memory(array: Any) -> Any:
    out = cpu.NDBuffer.create(shape=array.shape, dtype=array.dtype, order="F")
    array.get_basic_selection(..., out=out)
    return out.as_numpy_array()


@st.composite
def _one(draw: Any, size: int, advanced: bool) -> Any:
    kinds = ["int", "list", "list", "slice"] if advanced else ["all", "all", "slice", "step", "int"]
    kind = draw(st.sampled_from(kinds))
    start = draw(st.integers(0, size - 1))
    stop = draw(st.integers(start, size))
    if kind == "list":
        return draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=6))
    return {
        "all": slice(None),
        "slice": slice(start, stop),
        "step": slice(start, stop, draw(st.integers(2, 3))),
        "int": start,
    }[kind]


# Cases ---------------------------------------------------------------------------------


@st.composite
def cases(draw: Any, *, troubled: bool = False) -> Case:
    """Draw a hierarchy, and what is read of it; in troubled ones some things are wrong."""
    kind = draw(st.sampled_from(KINDS))
    # zarr cannot encode bytes of variable length without a dimension.
    fewest = 1 if kind == "bytes" else 0
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=fewest, max_size=3)))
    options = draw(_codecs(kind, len(shape)))
    rarely = st.sampled_from([False, False, False, True])
    rectilinear = HAS_RECTILINEAR and bool(shape) and draw(rarely)
    chunks = draw(_grid(shape, rectilinear))
    if shape and not rectilinear and draw(rarely):
        options["shards"] = tuple(n * draw(st.integers(1, 3)) for n in chunks)
    options["chunk_key_encoding"] = {
        "name": draw(st.sampled_from(["default", "default", "v2"])),
        "separator": draw(st.sampled_from("./")),
    }
    data = _values(kind, shape, draw(st.integers(0, 99)))
    metadata, encoded = _encoded(data, kind, chunks, options)
    objects = _Objects()
    entries = {}
    place = draw(st.sampled_from(["memory", "obstore", "disk"]))
    for index, (_, body) in encoded.items():
        broken = troubled and draw(st.sampled_from([False] * 5 + [True]))
        entry = _entry(draw, draw(st.sampled_from(_BROKEN if broken else _SOUND)), body, objects)
        if entry is not None:
            _state(draw, entry, body, place, troubled)
            entries[index] = entry
    configuration, files = _declare(draw, entries, len(shape), troubled)
    metadata["storage_transformers"] = [
        {"name": "chunk-manifest-json", "configuration": configuration}
    ]
    files[f"{ARRAY}/zarr.json"] = json.dumps(metadata).encode()
    files |= {f"g/src/{name}": bytes(body) for name, body in objects.own.items()}
    select, selection = draw(_selections(shape, kind))
    settings: dict[str, Any] = {"verify": draw(st.sampled_from(["auto", "always", "never"]))}
    if draw(st.booleans()):
        settings["max_gap"] = draw(st.sampled_from([-1, 0, 1]))
    if troubled and draw(st.sampled_from([False, False, True])):
        settings["limits"] = zm.Limits(chunk_bytes=draw(st.integers(0, 60)))
    config: dict[str, Any] = {}
    if draw(st.sampled_from([False, False, True])):
        config["array.read_missing_chunks"] = False
    if draw(st.sampled_from([False, False, True])):
        config["array.order"] = "F"
    return Case(
        files,
        {name: bytes(body) for name, body in objects.remote.items()},
        {name: bytes(body) for name, body in objects.disk.items()},
        place,
        settings,
        select,
        selection,
        config,
    )
