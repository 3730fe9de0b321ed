"""After any changes, cleaning keeps what is in use, removes the rest, and finds nothing again."""

from __future__ import annotations

import gzip
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import obstore.store
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import LocalStore, MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import consolidate
from tests.properties import examples
from tests.settled import stored
from zarr_manifest import conversion
from zarr_manifest.writing import guarded_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
    pytest.mark.filterwarnings("ignore:Object at .* is not recognized as a component"),
]

PATHS = ["a", "g/b"]
CHUNK = 600  # more than is written into a manifest by an edit
CREATION: dict[str, Any] = {
    "shape": 4 * CHUNK,
    "chunks": CHUNK,
    "dtype": "u1",
    "compressors": None,
    "dimension_names": ["x"],
}
SOURCE = "raw/raw-0123456789abcdef.bin"


def entry(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["data", "path", "empty"]))
    if kind == "data":
        return {"data": bytes([draw(st.integers(0, 1))]) * CHUNK}
    return {"path": SOURCE, "length": CHUNK} if kind == "path" else {}


@st.composite
def forms(draw: st.DrawFn) -> dict[str, Any]:
    """How a manifest is written."""
    form = draw(
        st.sampled_from(
            [
                {},
                {"inline": True},
                {"inline": False},
                {"codecs": ["gzip"]},
                {"manifest_url": "./plain.json"},
                {"manifest_url": "./{digest}.json"},
                {"partition_shape": [1]},
                {"partition_shape": [2], "manifest_url": "./m/{partition}_{digest}.json"},
                {"partition_shape": [2], "manifest_url": "./m/{partition}.json"},
            ]
        )
    )
    entries = {(n,): entry(draw) for n in draw(st.sets(st.integers(0, 3)))}
    return {"entries": entries, **form}


type Act = Callable[[Any], object]


@st.composite
def acts(draw: st.DrawFn) -> Act:
    path = draw(st.sampled_from(PATHS))
    kind = draw(
        st.sampled_from(["write", "write", "write", "edit", "edit", "overwrite", "copy", "remove"])
    )
    if kind == "write":
        form = draw(forms()) | {"base": "../" * (path.count("/") + 1)}
        return lambda store: write(store, path, form)
    if kind == "edit":
        index, value = draw(st.integers(0, 3)), draw(st.integers(0, 2))
        return lambda store: edit(store, path, index, value)
    if kind == "overwrite":
        number = draw(st.integers(0, 2))
        return lambda store: conversion.write_hierarchy(
            store, nodes(number), overwrite=True, inline_below=0
        )
    if kind == "copy":
        return lambda store: consolidate(store)
    return lambda store: remove(store, path)


def write(store: Any, path: str, form: dict[str, Any]) -> None:
    if f"{path}/zarr.json" in stored(store):
        zm.write_manifest(store, path, **form)
    else:
        zm.create_array(store, path, **form, **CREATION)


def edit(store: Any, path: str, index: int, value: int) -> None:
    if f"{path}/zarr.json" in stored(store):
        with zm.edit(store) as root:
            root[path][index * CHUNK : (index + 1) * CHUNK] = 250 + value


def remove(store: Any, path: str) -> None:
    if f"{path}/zarr.json" in stored(store):
        with zm.edit(store) as root:
            del root[path]


def nodes(number: int) -> list[Any]:
    grid = {"name": "regular", "configuration": {"chunk_shape": [CHUNK]}}
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4 * CHUNK],
        "data_type": "uint8",
        "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
    }
    manifest = zm.Manifest.from_columns((4,), paths=SOURCE, offsets=[number] * 4, lengths=CHUNK)
    return [conversion.GroupNode("", {}), conversion.ArrayNode("a", metadata, manifest)]


STORES: dict[str, Callable[[Path], Any]] = {
    "directory": LocalStore,
    "memory": lambda _: MemoryStore(),
    "obstore": lambda _: ObjectStore(obstore.store.MemoryStore()),
}


def values(store: Any) -> dict[str, list[int]]:
    """Return what readers see, of the own metadata and of consolidated ones."""
    found: dict[str, list[int]] = {}
    for use in (False, None):
        root = zarr.open_group(zm.ManifestStore(store), mode="r", use_consolidated=use)
        for path in PATHS:
            if path in root:
                found[f"{path} {use}"] = np.asarray(root[path]).tolist()
    return found


DIGITS = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def mentioned(contents: dict[str, bytes]) -> set[str]:
    """Return all digests that are written down in metadata, or in the documents they mention."""
    found: set[str] = set()
    bodies = {key: body for key, body in contents.items() if key.endswith("zarr.json")}
    while bodies:
        new: set[str] = set()
        for body in bodies.values():
            text = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
            new |= {each.decode() for each in DIGITS.findall(text)}
        found |= new
        bodies = {
            key: body
            for key, body in contents.items()
            if any(each[:16] in key.rpartition("/")[2] for each in new) and "/chunks/" not in key
        }
    return found


@pytest.mark.parametrize("kind", combinations(STORES, besides=["directory"]))
@examples(0.5)
@given(changes=st.lists(acts(), min_size=1, max_size=8))
def test_after_any_changes(kind: str, changes: list[Act]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = STORES[kind](Path(directory) / "h")
        guarded_store(store).put(SOURCE, bytes(range(200)) * 4)
        conversion.write_hierarchy(store, nodes(0), inline_below=0)
        for change in changes:
            change(store)
        before, contents = values(store), stored(store)
        report = zm.clean(store, older_than=0)
        assert values(store) == before
        left = stored(store)
        assert left.items() <= contents.items()
        assert {each.key for each in report.unused} == contents.keys() - left.keys()
        used = mentioned(left)
        for key in left:
            name = key.rpartition("/")[2]
            digits = re.search(r"(?<![0-9a-z])([0-9a-f]{64}|[0-9a-f]{16})(?![0-9a-z])", name)
            if digits is not None and key != SOURCE:
                assert any(each.startswith(digits[1]) for each in used), key
        assert not zm.clean(store, older_than=0).unused
