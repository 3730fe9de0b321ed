"""Random hierarchies with one array that declares a manifest, and random changes to them."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import random
import warnings
from typing import Any

import google_crc32c
import numpy as np
import zarr
import zstandard
from zarr.codecs import Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

from tests.hierarchy.naive_reader import Files, checksum

__all__ = ["changed", "hierarchy", "selection"]

TYPES = ["u1", "<i2", ">i4", "<f8", "?", "<c8", "<u8"]
BASES = {"./": "g/a/", "../": "g/", "../../": "", "../src/": "g/src/"}
CHECKSUMS = ["crc32", "crc32c", "md5", "sha256", "sha512"]


def hierarchy(random: random.Random) -> Files:
    """Return the files of a hierarchy whose array is ``g/a``."""
    shape = tuple(random.randint(1, 6) for _ in range(random.randint(0, 3)))
    metadata, chunks = _encoded(random, shape)
    base = random.choice(list(BASES))
    packed = bytearray(random.randbytes(random.randint(0, 9)))
    files: Files = {}
    entries: dict[tuple[int, ...], dict[str, Any]] = {}
    for index, (key, body) in chunks.items():
        entry = _entry(random, body, files, BASES[base], packed)
        if entry is not None:
            entries[index] = {"own": key, **entry}
    files[f"{BASES[base]}packed%.bin"] = bytes(packed) + b"the rest"
    configuration = _declared(random, entries, files, metadata, len(shape))
    if base != "./" or random.random() < 0.5:
        configuration["base"] = base
    metadata["storage_transformers"] = [
        {"name": "chunk-manifest-json", "configuration": configuration}
    ]
    files["g/a/zarr.json"] = json.dumps(metadata).encode()
    group: dict[str, Any] = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    files["g/zarr.json"] = json.dumps(group).encode()
    if random.random() < 0.3:
        group["consolidated_metadata"] = {
            "kind": "inline",
            "must_understand": False,
            "metadata": {"g": json.loads(files["g/zarr.json"]), "g/a": metadata},
        }
    files["zarr.json"] = json.dumps(group).encode()
    return files


def _encoded(
    random: random.Random, shape: tuple[int, ...]
) -> tuple[dict[str, Any], dict[tuple[int, ...], tuple[str, bytes]]]:
    """Return the metadata of an array and its encoded chunks, by grid index."""
    dtype = np.dtype(random.choice(TYPES))
    data = np.frombuffer(random.randbytes(dtype.itemsize * int(np.prod(shape))), "u1")
    data = (data & 1).view(dtype) if dtype.kind == "b" else (data & 0x3F).view(dtype)
    chunks: Any = tuple(random.randint(1, n + 1) for n in shape)
    options: dict[str, Any] = {"compressors": None}
    kind = random.random()
    if shape and kind < 0.15:
        chunks = tuple(_lengths(random, n) for n in shape)
    elif shape and kind < 0.4:
        options["shards"] = tuple(c * random.randint(1, 2) for c in chunks)
    if random.random() < 0.4:
        options["compressors"] = random.choice([GzipCodec(level=1), ZstdCodec(), Crc32cCodec()])
    if len(shape) > 1 and random.random() < 0.2 and "shards" not in options:
        options["filters"] = [TransposeCodec(order=tuple(reversed(range(len(shape)))))]
    name = random.choice(["default", "v2"])
    contents: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(
            contents,
            shape=shape,
            dtype=dtype,
            chunks=chunks,
            fill_value=random.choice([0, 1]),
            chunk_key_encoding={"name": name, "separator": random.choice("./")},
            config={"write_empty_chunks": True},
            **options,
        )
        array[...] = data.reshape(shape)
    metadata = json.loads(contents.pop("zarr.json").to_bytes())
    found: dict[tuple[int, ...], tuple[str, bytes]] = {}
    for key, body in contents.items():
        index = tuple(int(part) for part in key.replace("/", ".").split(".") if part != "c")
        found[index if shape else ()] = (key, body.to_bytes())
    return metadata, found


def _lengths(random: random.Random, size: int) -> list[int]:
    lengths: list[int] = []
    while sum(lengths) < size:
        lengths.append(random.randint(1, size - sum(lengths)))
    return lengths


def _entry(
    random: random.Random, body: bytes, files: Files, base: str, packed: bytearray
) -> dict[str, Any] | None:
    kind = random.choice(["missing", "empty", "inline", "whole", "range", "range", "end", "broken"])
    if kind == "missing":
        return None
    if kind == "empty":
        return {}
    if kind == "inline":
        entry: dict[str, Any] = {"data": base64.b64encode(body).decode()}
    elif kind == "range":
        entry = {"path": "packed%25.bin", "offset": len(packed), "length": len(body)}
        packed += body + random.randbytes(random.randint(0, 3))
    elif kind == "broken" and random.random() < 0.2:
        entry = {"path": "./x/../nothing.bin", "length": len(body)}
    else:
        name = f"é {len(files)}.bin"
        start = random.randint(0, 4) if kind == "end" else 0
        files[f"{base}{name}"] = random.randbytes(start) + body
        entry = {"path": f"./%C3%A9%20{len(files) - 1}.bin"}
        if start:
            entry["offset"] = start
        if random.random() < 0.5:
            entry["length"] = len(body)
    if random.random() < 0.2:
        entry["checksum"] = checksum(random.choice(CHECKSUMS), body)
    if random.random() < 0.1:
        entry["_note"] = [1, {"a": None}]
    return entry


def _declared(
    random: random.Random,
    entries: dict[tuple[int, ...], dict[str, Any]],
    files: Files,
    metadata: dict[str, Any],
    ndim: int,
) -> dict[str, Any]:
    """Write the documents, and return the configuration that declares them."""
    by_key = {}
    for index, entry in entries.items():
        own = entry.pop("own")
        by_key[index] = (own if random.random() < 0.1 else ".".join(map(str, index)) or "0", entry)
    if random.random() < 0.3:
        return {"manifest": dict(by_key.values())}
    configuration: dict[str, Any] = {}
    codecs = random.sample(["gzip", "zstd", "crc32c"], random.choice([0, 0, 1, 2]))
    if codecs:
        configuration["codecs"] = [{"name": name} for name in codecs]
    if random.random() < 0.5:
        files["g/a/m.json"] = _stored(dict(by_key.values()), codecs)
        return {"manifest": "m.json", **configuration}
    block = [random.randint(1, 3) for _ in range(ndim)]
    parts: dict[str, dict[str, Any]] = {}
    for index, (key, entry) in by_key.items():
        owner = ".".join(str(i // n) for i, n in zip(index, block, strict=True)) or "0"
        parts.setdefault(owner, {})[key] = entry
    for owner, part in parts.items():
        files[f"g/m/{owner}.json"] = _stored(part, codecs)
    return {"manifest": "../m/{partition}.json", "partition_shape": block, **configuration}


def _stored(document: dict[str, Any], codecs: list[str]) -> bytes:
    body = json.dumps(document).encode()
    for name in codecs:
        if name == "gzip":
            body = gzip.compress(body, 1)
        elif name == "zstd":
            body = zstandard.compress(body)
        else:
            value: int = google_crc32c.value(body)  # type: ignore[attr-defined,no-untyped-call,unused-ignore]
            body += value.to_bytes(4, "little")
    return body


def selection(random: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index or a slice for each dimension."""
    chosen: list[Any] = []
    for size in shape:
        start = random.randrange(size)
        stop = random.randint(start, size)
        step = random.choice([1, 1, 1, 2])
        chosen.append(random.choice([start, slice(None), slice(start, stop, step)]))
    return tuple(chosen)


# Changes --------------------------------------------------------------------------------

_VALUES: list[Any] = [
    None, True, -1, 0, 1.5, 2**53, 2**63, 10**400, "", "0", "\ud800", "é\x00", "../" * 30, [], {},
    [[]], {"0": {}}, "//h/x", "s3://b/k", "file:///etc/passwd", "%2e%2e/x", "a" * 9000, [2**62],
    float("nan"), "gzip", ["zstd"], "chunk-manifest-json",
]  # fmt: skip


def changed(random: random.Random, files: Files) -> Files:
    """Return the files with a few changes to one of their JSON documents."""
    key = random.choice([key for key in files if key.endswith(".json")])
    files = dict(files)
    try:
        document = json.loads(files[key])
    except ValueError:  # it is encoded
        body = bytearray(files[key])
        body[random.randrange(len(body))] ^= 1 << random.randrange(8)
        files[key] = bytes(body)
        return files
    for _ in range(random.choice([1, 1, 2, 4])):
        _change(random, document)
    body_text = json.dumps(document)
    how = random.random()
    if how < 0.1:  # duplicate members
        body_text = body_text.replace("{", '{"0": {}, "shape": [1], ', 1)
    elif how < 0.15:
        body_text = body_text[: random.randrange(len(body_text) + 1)]
    elif how < 0.2:
        body_text = body_text.replace("1", "[" * 300 + "]" * 300, 1)
    files[key] = body_text.encode()
    return files


def _change(random: random.Random, document: Any) -> None:
    places = list(_places(document))
    if not places:
        return
    holder, name = random.choice(places)
    how = random.random()
    if how < 0.2:
        del holder[name]
    elif how < 0.3 and isinstance(holder, dict):
        holder[random.choice(["x", "0.0", "c/0", "\ud800", "path", "data"])] = holder.pop(name)
    elif how < 0.4:
        other, at = random.choice(places)
        try:
            holder[name] = json.loads(json.dumps(other[at]))
        except (KeyError, IndexError):
            return
    else:
        holder[name] = copy.deepcopy(random.choice(_VALUES))


def _places(value: Any) -> Any:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for name, inner in list(items):
        yield value, name
        yield from _places(inner)
