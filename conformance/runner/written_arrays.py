"""Whether a writer wrote the array that it was asked for: the runner's own reader of manifests.

Reads nothing but what the request can lead to, and no sources. Messages are the same in every run.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from conformance.runner.errors import UsageError
from conformance.runner.written_documents import (
    Entries,
    WrongError,
    entries_of,
    parse_object,
    require,
)

__all__ = ["left_behind", "wrong_array"]

_NAME = "chunk-manifest-json"
_LOCK = {"must_understand": True}
_DEFAULTS: Mapping[str, Any] = {
    "base": "./",
    "codecs": [],
    "partition_shape": None,
    "partitions": None,
    "checksum": None,
}
_CHECKSUM = re.compile(r"sha256:([0-9a-f]{64})")
_DIGITS = 16  # of a digest, in the name of a document
_MOST_BLOCKS = 10_000


def wrong_array(hierarchy: Path, request: Mapping[str, Any]) -> str:
    """Return what is wrong with the array that a request to write it led to; empty if nothing."""
    try:
        node = parse_object(_read(hierarchy, _path(request, "zarr.json")), "zarr.json")
        _check_metadata(node, request["metadata"])
        configuration = _configuration(node, request)
        _check_lock(node)
        found = _written(hierarchy, request, configuration)
        _compare(_asked(request), found)
    except WrongError as error:
        return str(error)
    return ""


def left_behind(hierarchy: Path, request: Mapping[str, Any]) -> str:
    """Return what a refused request left that a reader takes for the array; empty if nothing."""
    there = (hierarchy / _path(request, "zarr.json")).exists()
    return "the refused array has a zarr.json all the same" if there else ""


def _path(request: Mapping[str, Any], name: str) -> str:
    return posixpath.join(request["array"], name)


def _read(hierarchy: Path, key: str) -> bytes:
    try:
        return (hierarchy / key).read_bytes()
    except OSError:
        raise WrongError(f"{key} was not written") from None


# ------------------------------------------------------------------ the declaration


def _check_metadata(node: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    for member, value in asked.items():
        require(_same_json(node.get(member), value), f"zarr.json: {member} is not what was asked")


def _same_json(one: Any, other: Any) -> bool:
    """Compare JSON values, for which true is not 1, and 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_json, one, other))
    return bool(one == other)


def _configuration(node: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Check the declaration; return its configuration, with all members."""
    declared = node.get("storage_transformers")
    if not isinstance(declared, list) or len(declared) != 1 or not isinstance(declared[0], dict):
        raise WrongError("zarr.json does not have one storage transformer, an object")
    (transformer,) = declared
    require(transformer.get("name") == _NAME, f"the storage transformer is not {_NAME}")
    unknown = transformer.keys() - {"name", "configuration", "must_understand"}
    require(not unknown, "the declaration has members that are not defined")
    require(transformer.get("must_understand", True) is True, "must_understand is not true")
    stated = transformer.get("configuration")
    if not isinstance(stated, dict) or "manifest" not in stated:
        raise WrongError("the configuration is not an object with a manifest")
    require(stated.keys() <= {"manifest", *_DEFAULTS}, "the configuration has unknown members")
    require(None not in stated.values(), "a member of the configuration is null")
    configuration = {**_DEFAULTS, **stated}
    kind = dict if request["inline"] else str
    require(isinstance(stated["manifest"], kind), "the manifest is inline or not, as not asked")
    require(configuration["base"] == "./", "base is not the array's own location")
    _check_codecs(configuration["codecs"], request["codecs"] or [])
    _check_partition_shape(configuration["partition_shape"], request["partition_shape"])
    alone = configuration["checksum"] is not None and (
        request["inline"] or request["partition_shape"]
    )
    require(not alone, "checksum is not that of a single document")
    return configuration


def _check_codecs(stated: Any, asked: Sequence[Any]) -> None:
    require(isinstance(stated, list), "codecs is not a list")
    require(list(map(_codec, stated)) == list(map(_codec, asked)), "other codecs than asked for")


def _codec(stated: Any) -> Any:
    return stated.get("name") if isinstance(stated, dict) else stated


def _check_partition_shape(stated: Any, asked: Sequence[int] | None) -> None:
    same = stated == asked and all(type(number) is int for number in stated or ())
    require(same, "another partition_shape than asked for")


def _check_lock(node: Mapping[str, Any]) -> None:
    """Check the lock, which a writer need not write."""
    is_lock = _same_json(node.get(_NAME, _LOCK), _LOCK)
    require(is_lock, f'the lock {_NAME} is not {{"must_understand": true}}')


# ------------------------------------------------------------------ the documents


def _written(
    hierarchy: Path, request: Mapping[str, Any], configuration: Mapping[str, Any]
) -> Entries:
    """Return the entries of all documents."""
    grid, manifest = _grid(request["metadata"]), configuration["manifest"]
    if request["inline"]:
        return entries_of(manifest, "the inline manifest", grid)
    key = _document_key(manifest, request)
    if configuration["partition_shape"] is None:
        return _document(hierarchy, key, configuration, grid, configuration["checksum"])
    require(key.count("{partition}") == 1, "the manifest's name does not have {partition} once")
    found: Entries = {}
    stated = configuration["partitions"]
    checksums = stated if isinstance(stated, dict) else {}
    for block in _blocks_with_documents(configuration, grid):
        number = ".".join(map(str, block)) or "0"
        name = key.replace("{partition}", number)
        if stated is None and not (hierarchy / name).exists():
            continue
        checksum = checksums.get(number)
        require(checksum is not None or not checksums, f"block {number} has no checksum")
        for chunk, entry in _document(hierarchy, name, configuration, grid, checksum).items():
            inside = _block_of(chunk, configuration["partition_shape"]) == block
            require(inside, f"{name}: {_key(chunk)} belongs to another block")
            found[chunk] = entry
    return found


def _document(
    hierarchy: Path,
    key: str,
    configuration: Mapping[str, Any],
    grid: Sequence[int],
    checksum: str | None,
) -> Entries:
    key = _with_digest(key, checksum)
    data = _read(hierarchy, key)
    right = checksum in (None, f"sha256:{hashlib.sha256(data).hexdigest()}")
    require(right, f"{key} has another checksum")
    for codec in reversed([_codec(stated) for stated in configuration["codecs"]]):
        if codec != "gzip":
            raise UsageError(f"a case of the corpus asks for {codec}, which the runner lacks")
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            raise WrongError(f"{key} is not gzip") from None
    return entries_of(parse_object(data, key), key, grid)


def _with_digest(key: str, checksum: Any) -> str:
    """Return the key of a document, in which a part of its digest may stand."""
    if checksum is None:
        require("{digest}" not in key, "the manifest's name has {digest}, and there is no checksum")
        return key
    require(key.count("{digest}") <= 1, "the manifest's name has {digest} more than once")
    form = _CHECKSUM.fullmatch(checksum) if isinstance(checksum, str) else None
    if form is None:
        raise WrongError("the checksum of a document is not sha256 in 64 hex digits")
    return key.replace("{digest}", form[1][:_DIGITS])


def _document_key(reference: str, request: Mapping[str, Any]) -> str:
    """Return the key of the document, which lies in the hierarchy."""
    if not reference or reference.startswith("/") or set(reference) & set(":?#\\"):
        raise WrongError("the manifest is not named relative to the array")
    key = posixpath.normpath(_path(request, unquote(reference)))
    require(not key.startswith(".."), "the manifest's name climbs out of the hierarchy")
    return key


def _blocks_with_documents(
    configuration: Mapping[str, Any], grid: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield the blocks that must have documents, or, without `partitions`, may have them."""
    counts = [-(-n // m) for n, m in zip(grid, configuration["partition_shape"], strict=True)]
    if math.prod(counts) > _MOST_BLOCKS:
        raise UsageError(f"a case of the corpus has more than {_MOST_BLOCKS:,} blocks")
    blocks = {".".join(map(str, b)) or "0": b for b in product(*map(range, counts))}
    names = configuration["partitions"]
    if names is None or names == "all":
        yield from blocks.values()
        return
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list and not isinstance(names, dict):
        raise WrongError('partitions is neither "all", nor a list of names, nor an object')
    require(len(set(names)) == len(names), "partitions names a block twice")
    for name in names:
        if name not in blocks:
            raise WrongError("partitions names what is not a block of the array")
        yield blocks[name]


def _block_of(chunk: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(i // n for i, n in zip(chunk, shape, strict=True))


def _grid(metadata: Mapping[str, Any]) -> list[int]:
    chunks = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    return [-(-n // m) for n, m in zip(metadata["shape"], chunks, strict=True)]


# ------------------------------------------------------------------ the entries


def _asked(request: Mapping[str, Any]) -> Entries:
    """Return the entries that a request asks for."""
    document = {}
    for stated in request["chunks"]:
        members = {k: v for k, v in stated.items() if k not in ("chunk", "empty")}
        document[_key(stated["chunk"])] = members
    try:
        return entries_of(document, "the request", _grid(request["metadata"]))
    except WrongError as error:
        raise UsageError(f"a case of the corpus asks for what is invalid: {error}") from error


def _key(chunk: Sequence[int]) -> str:
    return ".".join(map(str, chunk)) or "0"


def _compare(asked: Entries, found: Entries) -> None:
    for chunk in sorted(asked.keys() | found.keys()):
        if chunk not in found:
            raise WrongError(f"chunk {_key(chunk)} was asked for, and has no entry")
        if chunk not in asked:
            raise WrongError(f"chunk {_key(chunk)} has an entry that nobody asked for")
        if asked[chunk] != found[chunk]:
            raise WrongError(f"the entry of chunk {_key(chunk)} is not the one asked for")
