"""Builders of hierarchies for the tests: plain files, written without the package itself."""

from __future__ import annotations

import base64
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, cast

import numpy as np
import obstore.store
import zarr
from zarr.abc.store import Store
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore, ObjectStore

from zarr_manifest.format import ChunkGrid

__all__ = [
    "FIELD",
    "MANIFEST_ARRAYS",
    "SOURCES",
    "Values",
    "assert_same",
    "by_open_array",
    "consolidate",
    "copy_into",
    "declare_manifest",
    "declared",
    "document_of",
    "encode_chunks",
    "files_below",
    "in_memory",
    "in_memory_of_obstore",
    "read",
    "split_into_source",
    "without_partitions",
    "write_hierarchy",
    "write_manifest_array",
    "written_once",
]

Values = dict[str, np.ndarray[Any, Any]]

# Of the hierarchy that `write_hierarchy` writes.
MANIFEST_ARRAYS = ("a/b/external", "inline", "sharded_manifest")
SOURCES = ("raw/external.bin", "raw/inline.bin", "raw/shards.bin")


def consolidate(location: Any, path: str = "") -> None:
    """Copy the metadata of all nodes below a group into it, as other writers do."""
    store: Any = location
    if isinstance(location, str | Path):
        store = LocalStore(location)
    elif hasattr(location, "underneath"):
        store = location.underneath
    prototype = default_buffer_prototype()
    below, name = (f"{path}/" if path else ""), "zarr.json"

    async def change() -> None:
        keys = [key async for key in store.list_prefix(below) if key.rpartition("/")[2] == name]
        nodes = {key: json.loads((await store.get(key, prototype)).to_bytes()) for key in keys}
        group = nodes.pop(f"{below}{name}")
        for node in nodes.values():
            node.pop("consolidated_metadata", None)
        copies = {key[len(below) : -len(name) - 1]: nodes[key] for key in sorted(nodes)}
        members = {"kind": "inline", "must_understand": False, "metadata": copies}
        body = json.dumps({**group, "consolidated_metadata": members}, indent=2).encode()
        await store.set(f"{below}{name}", prototype.buffer.from_bytes(body))

    sync(change())


def written_once[**P](
    write: Callable[Concatenate[Path, P], Path],
) -> Callable[Concatenate[Path, P], Path]:
    """Let what a function writes into a directory be copied where it is written again."""
    known: dict[Any, dict[str, bytes]] = {}

    @functools.wraps(write)
    def copied(root: Path, *args: P.args, **kwargs: P.kwargs) -> Path:
        key = (args, tuple(kwargs.items()))
        if key not in known:
            write(root, *args, **kwargs)
            known[key] = files_below(root)
            return root
        for name, body in known[key].items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(body)
        return root

    return copied


def declare_manifest(
    array: Path, manifest: dict[str, Any] | str, *, base: str | None = None, **members: Any
) -> None:
    """Add the declaration to an array's ``zarr.json``, beside which a dict is written inline."""
    document = array / "zarr.json"
    metadata = json.loads(document.read_text())
    configuration: dict[str, Any] = {"manifest": manifest, **members}
    if base is not None:
        configuration["base"] = base
    metadata["storage_transformers"] = [
        {"name": "chunk-manifest-json", "configuration": configuration}
    ]
    document.write_text(json.dumps(metadata, indent=2))


def write_manifest_array(
    root: Path,
    path: str,
    data: np.ndarray[Any, Any],
    chunks: Any,
    manifest: dict[str, Any] | str,
    *,
    base: str | None = None,
    inline: bool = False,
    **create_array_options: Any,
) -> Path:
    """Make a v3 array that declares a manifest; `data` gives shape and dtype, and is not written.

    A `manifest` that is a dict is written to ``manifest.json``, or with `inline` into the
    declaration; one that is a string is what the declaration says, and nothing is written.
    Returns the array's directory.
    """
    array = root / path if path else root
    zarr.create_array(
        zarr.storage.LocalStore(array),
        shape=data.shape,
        dtype=data.dtype,
        chunks=chunks,
        **{"compressors": None, **create_array_options},
    )
    if isinstance(manifest, dict) and not inline:
        (array / "manifest.json").write_text(json.dumps(manifest))
        manifest = "./manifest.json"
    declare_manifest(array, manifest, base=base)
    return array


def split_into_source(
    data: np.ndarray[Any, Any], chunks: tuple[int, ...], *, path: str, start: int = 0
) -> tuple[dict[str, dict[str, Any]], bytes]:
    """Lay the raw chunks of an array end to end.

    Returns
    -------
    manifest, source
        Entries of `path`, offset and length for every chunk; and the bytes of that object,
        which begin with `start` bytes that belong to none.
    """
    manifest: dict[str, dict[str, Any]] = {}
    source = bytearray(b"\xee" * start)
    counts = tuple(-(-size // chunk) for size, chunk in zip(data.shape, chunks, strict=True))
    for index in np.ndindex(*counts):
        block = np.zeros(chunks, data.dtype)
        part = data[
            tuple(slice(i * chunk, (i + 1) * chunk) for i, chunk in zip(index, chunks, strict=True))
        ]
        block[tuple(slice(0, size) for size in part.shape)] = part
        body = block.tobytes()
        key = ".".join(map(str, index)) or "0"
        manifest[key] = {"path": path, "offset": len(source), "length": len(body)}
        source += body
    return manifest, bytes(source)


FIELD = np.arange(1, 49, dtype="<i4").reshape(6, 8)
"""The values of one array of :func:`write_hierarchy`; the others add to them."""

_CHUNKS = (3, 4)


def write_hierarchy(root: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Write a hierarchy with every kind of node, and return the values of its arrays by path.

    Groups, nested groups, native arrays (plain and sharded), a v2 group and arrays, and manifest
    arrays: external, inline, sharded. All sources lie in the hierarchy, so that it can be moved
    into any store; in a directory of their own, because zarr asks every file beside a node for
    its "zarr.json", which obstore's LocalStore refuses. No chunk consists of fill values.
    """
    root.mkdir(parents=True)
    values: dict[str, np.ndarray[Any, Any]] = {}
    dimensions = ("y", "x")
    for path in ("", "a", "a/b", "a/b/empty"):
        zarr.create_group(root / path, attributes={"path": path})
    for path, options in (("native", {}), ("a/sharded", {"shards": (6, 4)})):
        values[path] = FIELD + 1000 * len(values)
        native = zarr.create_array(
            root / path,
            data=values[path],
            chunks=_CHUNKS,
            dimension_names=dimensions,
            **options,
        )
        native.attrs["path"] = path
    zarr.create_group(root / "v2", zarr_format=2)
    for path in ("v2/inside", "old"):
        values[path] = FIELD + 1000 * len(values)
        zarr.create_array(root / path, data=values[path], chunks=_CHUNKS, zarr_format=2)

    path = "a/b/external"
    values[path] = FIELD + 1000 * len(values)
    manifest, source = split_into_source(
        values[path], _CHUNKS, path="../../../raw/external.bin", start=7
    )
    (root / "raw").mkdir()
    (root / "raw" / "external.bin").write_bytes(source)
    write_manifest_array(
        root, path, values[path], _CHUNKS, manifest, dimension_names=dimensions, fill_value=-1
    )

    path = "inline"
    values[path] = FIELD + 1000 * len(values)
    manifest, source = split_into_source(values[path], _CHUNKS, path="raw/inline.bin")
    (root / "raw" / "inline.bin").write_bytes(source)
    first = manifest["0.0"]["length"]
    manifest["0.0"] = {"data": base64.b64encode(source[:first]).decode()}
    write_manifest_array(
        root,
        path,
        values[path],
        _CHUNKS,
        manifest,
        base="../",
        inline=True,
        dimension_names=dimensions,
        fill_value=-1,
    )

    path = "sharded_manifest"
    values[path] = FIELD + 1000 * len(values)
    shards = {"shards": (6, 4), "dimension_names": dimensions, "fill_value": -1}
    native = zarr.create_array(
        root / "shards", data=values[path], chunks=_CHUNKS, compressors=None, **shards
    )
    assert native.shards == (6, 4)
    blobs = [(root / "shards" / "c" / "0" / str(i)).read_bytes() for i in range(2)]
    shutil.rmtree(root / "shards")
    (root / "raw" / "shards.bin").write_bytes(b"".join(blobs))
    manifest = {
        f"0.{i}": {
            "path": "../raw/shards.bin",
            "offset": sum(map(len, blobs[:i])),
            "length": len(blobs[i]),
        }
        for i in range(2)
    }
    write_manifest_array(root, path, values[path], _CHUNKS, manifest, **shards)
    return values


def files_below(root: Path) -> dict[str, bytes]:
    """Return the contents of all files below a directory, by relative path."""
    return {
        file.relative_to(root).as_posix(): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file()
    }


def encode_chunks(data: np.ndarray[Any, Any], chunks: Any, **options: Any) -> dict[str, bytes]:
    """Return the encoded chunks of an array, by canonical key, as zarr itself encodes them."""
    contents: dict[str, Any] = {}
    array = zarr.create_array(
        contents,
        shape=data.shape,
        dtype=data.dtype,
        chunks=chunks,
        config={"write_empty_chunks": True},
        **{"compressors": None, **options},
    )
    array[...] = data
    grid = ChunkGrid.from_metadata(json.loads(contents["zarr.json"].to_bytes()))
    assert grid is not None
    return {
        ".".join(map(str, index)) or "0": contents[
            array.metadata.encode_chunk_key(index)
        ].to_bytes()
        for index in np.ndindex(*grid.counts)
    }


def declared(root: Path, path: str) -> Any:
    """Return the storage transformers that an array declares in its ``zarr.json``."""
    document = json.loads((root / path / "zarr.json").read_text())
    return document.get("storage_transformers")


def document_of(root: Path, path: str) -> Path:
    """Return the only manifest document of an array, under the name that is declared."""
    configuration = declared(root, path)[0]["configuration"]
    digest = configuration.get("checksum", "").removeprefix("sha256:")[:16]
    return root / path / configuration["manifest"].replace("{digest}", digest)


def read(store: Any, path: str) -> np.ndarray[Any, Any]:
    """Return all values of an array."""
    return np.asarray(zarr.open_array(store, path=path, mode="r")[...])


def by_open_array(store: Store, path: str) -> Any:
    return zarr.open_array(store, path=path, mode="r")


def assert_same(actual: Any, values: Values, path: str) -> None:
    np.testing.assert_array_equal(np.asarray(actual), values[path], err_msg=path)


def copy_into(store: Store, root: Path) -> None:
    for key, body in files_below(root).items():
        sync(store.set(key, default_buffer_prototype().buffer.from_bytes(body)))


def in_memory(root: Path) -> MemoryStore:
    """Return a copy of a directory in zarr's store in memory."""
    store = MemoryStore()
    copy_into(store, root)
    return store


def in_memory_of_obstore(root: Path) -> Store:
    """Return a copy of a directory in obstore's store in memory."""
    store: Any = ObjectStore(obstore.store.MemoryStore())
    copy_into(store, root)
    return cast("Store", store)


def without_partitions(metadata: bytes | str) -> bytes:
    """The metadata of an array whose declaration does not say which documents exist."""
    document = json.loads(metadata)
    del document["storage_transformers"][0]["configuration"]["partitions"]
    return json.dumps(document).encode()
