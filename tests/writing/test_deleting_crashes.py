"""A deletion that is interrupted anywhere leaves a node as it was, or one that does not open."""

from __future__ import annotations

import itertools
import pickle
import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.interrupted_stores import Interrupted, InterruptedDirectory, InterruptedMemory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
    pytest.mark.filterwarnings("ignore:Object at"),
]
VALUES = np.arange(1, 5, dtype="u1")
ENTRIES = {(i,): {"data": VALUES[i : i + 1].tobytes()} for i in range(4)}
CREATION: dict[str, Any] = {"shape": 4, "chunks": 1, "dtype": "u1", "fill_value": 255}
ARRAYS = ["native", "whole", "parts", "inline", "g/parts", "g/native", "old"]


def write(store: Any) -> None:
    for path in ("", "top", "top/g"):
        zarr.create_group(store, path=path)
    for name in ("top/native", "top/g/native"):
        zarr.create_array(store, name=name, compressors=None, **CREATION)[:] = VALUES
    zm.create_array(store, "top/whole", ENTRIES, **CREATION, inline=False)
    zm.create_array(store, "top/inline", ENTRIES, inline=True, **CREATION)
    for name in ("top/parts", "top/g/parts"):
        zm.create_array(store, name, ENTRIES, partition_shape=[2], **CREATION)
    entries = {"0": {"path": "raw/f"}, "1": {"path": "../native/c/0"}}
    zm.create_array(store, "top/kept", entries, shape=2, chunks=1, dtype="u1", inline=False)
    old = MemoryStore()
    zarr.create_array(old, zarr_format=2, **CREATION)[:] = VALUES
    for key, value in {**old._store_dict, "../kept/raw/f": old._store_dict["0"]}.items():
        store._store_dict[posixpath.normpath(f"top/old/{key}")] = value


@pytest.fixture(scope="module")
def hierarchies() -> dict[bool, dict[str, Any]]:
    """Contents of a store, with and without consolidated metadata."""
    contents = {}
    for consolidated in (False, True):
        store = MemoryStore()
        write(store)
        if consolidated:
            with pytest.warns(UserWarning, match="onsolidated"):
                zarr.consolidate_metadata(zm.ManifestStore(store))
        contents[consolidated] = store._store_dict
    return contents


def by_path(store: Any, path: str) -> Any:
    return zarr.open_array(zm.ManifestStore(store), path=path, mode="r")


def by_group(store: Any, path: str) -> Any:
    return zarr.open_group(zm.ManifestStore(store), mode="r", use_consolidated=False)[path]


def by_consolidated(store: Any, path: str) -> Any:
    return zarr.open_group(zm.ManifestStore(store), mode="r")[path]


type Stores = Callable[[bool], Any]


@pytest.fixture
def new_store(
    kind: str, tmp_path: Path, hierarchies: dict[bool, dict[str, Any]]
) -> Callable[[bool], Any]:
    numbers = itertools.count()

    def make(consolidated: bool) -> Any:
        contents = hierarchies[consolidated]
        if kind == "memory":
            return InterruptedMemory(dict(contents))
        root = tmp_path / str(next(numbers))
        for key, value in contents.items():
            (root / key).parent.mkdir(parents=True, exist_ok=True)
            (root / key).write_bytes(value.to_bytes())
        return InterruptedDirectory(root)

    return make


def interrupted(
    new_store: Stores, path: str, *, consolidated: bool = False, opened: bool = False
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield a store after each number of deletions, and the arrays that were open before."""
    for left in itertools.count():
        store = new_store(consolidated)
        reader = zm.ManifestStore(store)
        names = ARRAYS if opened else []
        arrays = {name: zarr.open_array(reader, path=f"top/{name}", mode="r+") for name in names}
        store.left = left
        try:
            sync(zm.ManifestStore(store).delete_dir(path))
        except Interrupted:
            store.left = 10**9
            yield store, arrays
        else:
            assert left > 0
            return


# A directory sees every kind of change, but not every hierarchy.
PLACES = pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("memory", "top"),
        ("memory", "top/parts"),
        ("memory", "top/native"),
        ("memory", "top/old"),
        ("directory", "top/g"),
    ],
)


@PLACES
def test_a_reader_that_comes_afterwards(new_store: Stores, path: str) -> None:
    opened, closed = 0, 0
    for store, _ in interrupted(new_store, path):
        for name in ARRAYS:
            for read in (by_path, by_group):
                try:
                    array = read(store, f"top/{name}")
                except (FileNotFoundError, KeyError):
                    closed += 1
                    continue
                opened += 1
                np.testing.assert_array_equal(array[:], VALUES)
    assert opened
    assert closed


@PLACES
def test_a_reader_of_consolidated_metadata(new_store: Stores, path: str) -> None:
    """These still describe the arrays: what is gone must be an error."""
    failed = 0
    for store, _ in interrupted(new_store, path, consolidated=True):
        for name in ARRAYS[:-1]:
            try:
                values = by_consolidated(store, f"top/{name}")[:]
            except (FileNotFoundError, KeyError, zm.errors.ManifestError):
                failed += 1
                continue
            np.testing.assert_array_equal(values, VALUES)
    assert failed or path == "top/old"


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize(("kind", "path"), [("memory", "top"), ("directory", "top/parts")])
def test_a_manifest_array_that_is_open(new_store: Stores, path: str) -> None:
    for store, arrays in interrupted(new_store, path, opened=True):
        for name in ("whole", "parts", "inline", "g/parts"):
            each = [arrays[name]]
            if isinstance(store, InterruptedDirectory):
                each.append(pickle.loads(pickle.dumps(arrays[name])))
            for array in each:
                try:
                    values = array[:]
                except zm.errors.ManifestError:
                    continue
                np.testing.assert_array_equal(values, VALUES)


async def keys_of(store: Any, prefix: str = "") -> set[str]:
    return {key async for key in store.list_prefix(prefix)}


@pytest.mark.parametrize(("kind", "path"), [("memory", ""), ("directory", "top/kept")])
def test_deleting_again_finishes_and_keeps_sources(new_store: Stores, path: str) -> None:
    sources = {"top/kept/raw/f", "top/native/c/0"}
    for store, _ in interrupted(new_store, path):
        assert sources <= sync(keys_of(store))
        again = zm.ManifestStore(store)
        sync(again.delete_dir(path))
        opening = {key.rpartition("/")[2] for key in sync(keys_of(store, f"{path}/".lstrip("/")))}
        assert opening <= {"0", "f"}
