"""A reader of manifests that is small and slow: straight from the specification.

Shares no code with the package. Copies the chunks of one array into a native array, which zarr
reads. Small enough to be checked by eye; knows only what the fuzzer writes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import itertools
import json
import posixpath
import zlib
from typing import Any
from urllib.parse import unquote

import google_crc32c
import numpy as np
import zarr
import zstandard
from zarr.buffer import cpu

type Files = dict[str, bytes]
type Index = tuple[int, ...]


class BrokenError(Exception):
    """The bytes of a chunk are not as its entry says."""


def native_copy(files: Files, path: str) -> tuple[dict[str, Any], dict[Index, Exception]]:
    """Return a native array as a store of keys and values, and the chunks that are broken."""
    metadata = json.loads(files[f"{path}/zarr.json"])
    (transformer,) = metadata.pop("storage_transformers")
    configuration = transformer["configuration"]
    contents = {"zarr.json": json.dumps(metadata).encode()}
    broken: dict[Index, Exception] = {}
    counts = [len(edges) for edges in chunk_edges(metadata)]
    for index in itertools.product(*map(range, counts)):
        entry = _entry(files, path, metadata, configuration, index)
        try:
            body = None if not entry else _bytes(files, path, configuration, entry)
        except BrokenError as error:
            broken[index] = error
            continue
        if body is not None:
            contents[_own_key(metadata, index)] = body
    return {key: cpu.Buffer.from_bytes(body) for key, body in contents.items()}, broken


def read(contents: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(zarr.open_array(contents, mode="r")[...])


def chunk_edges(metadata: dict[str, Any]) -> list[list[int]]:
    """Where the chunks end along each dimension."""
    grid = metadata["chunk_grid"]
    if grid["name"] == "regular":
        lengths = grid["configuration"]["chunk_shape"]
        return [
            list(range(length, size + length, length))
            for length, size in zip(lengths, metadata["shape"], strict=True)
        ]
    edges: list[list[int]] = []
    for given, size in zip(grid["configuration"]["chunk_shapes"], metadata["shape"], strict=True):
        lengths: list[int] = []
        for run in [[given, -(-size // given)]] if isinstance(given, int) else given:
            length, count = (run, 1) if isinstance(run, int) else run
            lengths += [length] * count
        edges.append(list(itertools.accumulate(lengths)))
    return edges


def _own_key(metadata: dict[str, Any], index: Index) -> str:
    encoding = metadata["chunk_key_encoding"]
    default = "." if encoding["name"] == "v2" else "/"
    separator = encoding.get("configuration", {}).get("separator", default)
    if encoding["name"] == "v2":
        return separator.join(map(str, index)) or "0"
    return separator.join(["c", *map(str, index)])


def _entry(
    files: Files, path: str, metadata: Any, configuration: Any, index: Index
) -> dict[str, Any] | None:
    """Return the entry of a chunk; None if it is missing."""
    document: Any = configuration["manifest"]
    if isinstance(document, str):
        block = configuration.get("partition_shape")
        if block is not None:
            owner = ".".join(str(i // n) for i, n in zip(index, block, strict=True)) or "0"
            document = document.replace("{partition}", owner)
        key = _resolve(path, document)
        if block is not None and key not in files:
            return None
        document = json.loads(_decoded(files[key], configuration.get("codecs", [])))
    for key in (".".join(map(str, index)) or "0", _own_key(metadata, index)):
        if key in document:
            entry: dict[str, Any] = document[key]
            return entry
    return None


def _decoded(body: bytes, codecs: list[Any]) -> bytes:
    for codec in reversed(codecs):
        if codec["name"] == "gzip":
            body = gzip.decompress(body)
        elif codec["name"] == "zstd":
            body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
        else:
            body = body[:-4]
    return body


def _bytes(files: Files, path: str, configuration: Any, entry: dict[str, Any]) -> bytes:
    if "data" in entry:
        body = base64.b64decode(entry["data"])
    else:
        base = _resolve(path, configuration.get("base", "./"))
        source = files.get(_resolve(base, entry["path"]))
        offset = entry.get("offset", 0)
        if source is None or offset >= len(source):
            raise BrokenError("no such bytes")
        end = offset + entry["length"] if "length" in entry else len(source)
        if end > len(source):
            raise BrokenError("the object is too short")
        body = source[offset:end]
    if "checksum" in entry and entry["checksum"] != checksum(
        entry["checksum"].partition(":")[0], body
    ):
        raise BrokenError("another checksum")
    return body


def checksum(algorithm: str, body: bytes) -> str:
    if algorithm == "crc32":
        return f"crc32:{zlib.crc32(body):08x}"
    if algorithm == "crc32c":
        value: int = google_crc32c.value(body)  # type: ignore[attr-defined,no-untyped-call,unused-ignore]
        return f"crc32c:{value:08x}"
    return f"{algorithm}:{hashlib.new(algorithm, body).hexdigest()}"


def _resolve(directory: str, reference: str) -> str:
    return posixpath.normpath(posixpath.join(directory, unquote(reference)))
