"""Changes of several nodes, and every state in which a writer of them can be met.

Written without the package itself, as the specification says: the root with ``pending``, then the
nodes' own metadata, then the root without it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

__all__ = ["BELOW", "CHANGES", "Change", "Nodes", "Window", "array", "group", "windows"]

type Objects = dict[str, bytes]

CHUNK = 2


class Array(NamedTuple):
    """An array of one dimension, and its metadata."""

    values: Sequence[int]
    metadata: dict[str, Any]
    is_native: bool


class Group(NamedTuple):
    """A group, and whether its own metadata have copies of those below it."""

    attributes: dict[str, Any]
    is_consolidated: bool


type Nodes = Mapping[str, Array | Group]


def array(*values: int, version: str = "", **attributes: Any) -> Array:
    """Return a manifest array; or a native one without a version of its document."""
    metadata: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [len(values)],
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [CHUNK]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "fill_value": -1,
        "attributes": attributes,
        "dimension_names": [f"of {len(values)}"],
    }
    if version:
        metadata["storage_transformers"] = [
            {"name": "chunk-manifest-json", "configuration": {"manifest": f"./m-{version}.json"}}
        ]
        metadata["chunk-manifest-json"] = {"must_understand": True}
    return Array(values, metadata, not version)


def group(*, is_consolidated: bool = False, **attributes: Any) -> Group:
    return Group(attributes, is_consolidated)


class Change(NamedTuple):
    """Two states of a hierarchy, and the group whose copies are the commit."""

    old: Nodes
    new: Nodes
    place: str = ""


class Window(NamedTuple):
    """A state in which a writer can be met: what is stored then, and whether it has committed."""

    name: str
    objects: Objects
    is_committed: bool

    def store(self) -> MemoryStore:
        """Return a new store with these objects."""
        store = MemoryStore()
        self.into(store)
        return store

    def into(self, store: MemoryStore) -> None:
        """Let a store have these objects, and no others."""
        make = default_buffer_prototype().buffer.from_bytes
        store._store_dict.clear()
        store._store_dict.update({key: make(body) for key, body in self.objects.items()})

    def write(self, directory: Path) -> None:
        """Let a directory have these objects, and no others."""
        shutil.rmtree(directory, ignore_errors=True)
        for key, body in self.objects.items():
            (directory / key).parent.mkdir(parents=True, exist_ok=True)
            (directory / key).write_bytes(body)


def windows(change: Change) -> Iterator[Window]:
    """Yield the states before, during and after a change."""
    place = change.place
    old, new = _documents(change.old, place), _documents(change.new, place)
    below = {path for path in {*old, *new} if path != place and old.get(path) != new.get(path)}
    objects = _data(change.old) | _data(change.new)
    group = json.loads(new[place])
    pending = {
        path.removeprefix(f"{place}/"): _digest(old[path]) if path in old else None
        for path in sorted(below)
    }
    consolidated = {**group["consolidated_metadata"], "pending": pending}
    stored = {key: body for path, body in old.items() for key in [_key(path)]}
    yield Window("before", objects | stored, False)
    stored[_key(place)] = json.dumps({**group, "consolidated_metadata": consolidated}).encode()
    yield Window("committed", objects | stored, True)
    for path in sorted(below):
        if path in new:
            stored[_key(path)] = new[path]
        else:
            del stored[_key(path)]
        yield Window(f"{path} written", objects | stored, True)
    stored[_key(place)] = new[place]
    yield Window("after", objects | stored, True)


def _key(path: str) -> str:
    return f"{path}/zarr.json" if path else "zarr.json"


def _digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _documents(nodes: Nodes, place: str) -> dict[str, bytes]:
    """Return the metadata of nodes, as stored, by path."""
    plain: dict[str, dict[str, Any]] = {
        path: node.metadata
        if isinstance(node, Array)
        else {"zarr_format": 3, "node_type": "group", "attributes": node.attributes}
        for path, node in nodes.items()
    }
    found: dict[str, bytes] = {}
    for path, node in nodes.items():
        document = plain[path]
        if isinstance(node, Group) and (node.is_consolidated or path == place):
            start = f"{path}/" if path else ""
            members = {
                below.removeprefix(start): plain[below]
                for below in sorted(plain)
                if below != path and below.startswith(start)
            }
            copies = {"kind": "inline", "must_understand": False, "metadata": members}
            document = {**document, "consolidated_metadata": copies}
        found[path] = json.dumps(document).encode()
    return found


def _data(nodes: Nodes) -> Objects:
    """Return the chunks of native arrays, and the manifest documents of others."""
    found: Objects = {}
    for path, node in nodes.items():
        if isinstance(node, Group):
            continue
        parts = [node.values[start : start + CHUNK] for start in range(0, len(node.values), CHUNK)]
        chunks = [np.array([*part, -1][:CHUNK], "<i4").tobytes() for part in parts]
        if node.is_native:
            found |= {f"{path}/c/{number}": chunk for number, chunk in enumerate(chunks)}
        else:
            reference = node.metadata["storage_transformers"][0]["configuration"]["manifest"]
            name = reference.removeprefix("./")
            entries = {
                str(number): {"data": base64.b64encode(chunk).decode()}
                for number, chunk in enumerate(chunks)
            }
            found[f"{path}/{name}"] = json.dumps(entries).encode()
    return found


_T = array(0, 1, 2, 3)
_SST = array(10, 11, 12, 13, version="1")

BELOW = Change(
    {"": group(), "g": group(), "g/sst": _SST, "g/old": array(1, 2), "t": _T},
    {
        "": group(),
        "g": group(title="new"),
        "g/sst": array(10, 11, 12, 13, 14, 15, version="2"),
        "g/new": array(3, 4, version="1"),
        "t": _T,
    },
    place="g",
)

CHANGES = {
    "append": Change(
        {"": group(), "t": _T, "sst": _SST, "same": array(7, 8)},
        {
            "": group(day=2),
            "t": array(0, 1, 2, 3, 4, 5),
            "sst": array(10, 11, 12, 13, 14, 15, version="2"),
            "same": array(7, 8),
        },
    ),
    "trim": Change(
        {"": group(), "t": _T, "sst": array(10, 11, 12, 13, 14, 15, version="1")},
        {"": group(), "t": _T, "sst": array(12, 13, 14, 15, version="2")},
    ),
    "new nodes": Change(
        {"": group(), "sst": _SST},
        {
            "": group(),
            "sst": _SST,
            "native": array(1, 2),
            "g": group(title="new"),
            "g/h": group(),
            "g/h/sst": array(5, 6, version="1"),
            "other": array(3, 4, version="1"),
        },
    ),
    "removed nodes": Change(
        {
            "": group(),
            "sst": _SST,
            "native": array(1, 2),
            "g": group(),
            "g/sst": array(5, 6, version="1"),
            "other": array(3, 4, version="1"),
            "kept": array(8, 9, version="1"),
        },
        {"": group(), "sst": _SST, "kept": array(8, 9, version="1")},
    ),
    "other kinds of nodes": Change(
        {
            "": group(),
            "a": array(1, 2),
            "b": array(3, 4, version="1"),
            "c": array(5, 6, version="1"),
            "d": group(),
        },
        {
            "": group(),
            "a": array(10, 20, version="1"),
            "b": array(30, 40),
            "c": group(title="was an array"),
            "c/x": array(50, 60, version="1"),
            "d": array(70, 80, version="1"),
        },
    ),
    "copies below the root": Change(
        {
            "": group(),
            "g": group(is_consolidated=True),
            "g/sst": _SST,
            "g/old": array(1, 2),
        },
        {
            "": group(),
            "g": group(is_consolidated=True),
            "g/sst": array(10, 11, 12, 13, 14, 15, version="2"),
            "g/new": array(3, 4, version="1"),
        },
    ),
    "attributes": Change(
        {"": group(), "sst": _SST, "g": group(title="old"), "g/t": _T},
        {
            "": group(title="new"),
            "sst": array(10, 11, 12, 13, version="1", units="K"),
            "g": group(title="new"),
            "g/t": array(0, 1, 2, 3, units="days"),
        },
    ),
}
