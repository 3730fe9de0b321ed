"""Listing: the keys that zarr's own stores list, whatever is in a directory, and in any order."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore

import zarr_manifest as zm
from tests.counted_requests import Requests
from tests.hierarchies import FIELD, copy_into, write_manifest_array

_NAMES = st.sampled_from(["a", "b", "c", "0", "1", "zarr.json"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)


async def _collect(keys: Any) -> list[str]:
    return [key async for key in keys]


def keys(store: Store, prefix: str = "") -> list[str]:
    return sorted(sync(_collect(store.list_prefix(prefix))))


def names(store: Store, prefix: str) -> list[str]:
    return sorted(sync(_collect(store.list_dir(prefix))))


@pytest.mark.slow
@given(st.sets(_PATHS, max_size=8), st.dictionaries(_PATHS, _PATHS, max_size=4), _PATHS)
def test_directories(files: set[str], links: dict[str, str], prefix: str) -> None:
    """Files, directories, links to either that stay inside, and links to nothing."""
    directory = Path(tempfile.mkdtemp())
    try:
        for path in sorted(files):
            file = directory / path
            if not any(part.is_file() for part in [file, *file.parents]) and not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b'{"node_type": "group"}' * (1 + len(path)))
        for path, target in links.items():
            link = directory / path
            # Not links that lead round in a circle: to ask for what is behind those is an error.
            if link.parent.is_dir() and not os.path.lexists(link) and path != target:
                link.symlink_to(directory / (target if (directory / target).exists() else "none"))
        own, store = LocalStore(directory), zm.ManifestStore(directory)
        for below in ("", prefix, f"{prefix}/"):
            assert keys(store, below) == keys(own, below)
            assert names(store, below) == names(own, below)
            assert sync(store.getsize_prefix(below)) == sync(own.getsize_prefix(below))
    finally:
        shutil.rmtree(directory)


def hierarchy(root: Path) -> dict[str, list[str]]:
    """Native arrays and manifest arrays; the keys that are to be listed of each."""
    zarr.create_group(root)
    expected: dict[str, list[str]] = {"": ["zarr.json"]}
    for number in range(6):
        path = f"{'nm'[number % 2]}{number}"
        if number % 2:
            write_manifest_array(root, path, FIELD, (3, 4), {"0.1": {}}, fill_value=-1)
            # What the manifest does not name is not there.
            (root / path / "c/1").mkdir(parents=True)
            (root / path / "c/1/1").write_bytes(b"hidden")
            chunks = ["c/0/1", "manifest.json"]
        else:
            zarr.create_array(root / path, data=FIELD, chunks=(3, 4))
            chunks = [f"c/{i}/{j}" for i, j in np.ndindex(2, 2)]
        expected[path] = sorted(f"{path}/{name}" for name in ["zarr.json", *chunks])
    return expected


class Shuffled(MemoryStore):
    """Lists its keys in an order of its own."""

    reverse = False

    async def list_prefix(self, prefix: str) -> Any:
        found = [key async for key in super().list_prefix(prefix)]
        for key in sorted(found, reverse=self.reverse):
            yield key


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
def test_keys_come_before_or_after_the_metadata_of_their_array(
    tmp_path: Path, reverse: bool
) -> None:
    expected = hierarchy(tmp_path)
    memory = Shuffled()
    copy_into(memory, tmp_path)
    memory.reverse = reverse
    store = zm.ManifestStore(memory)
    everything = sorted(key for keys in expected.values() for key in keys)
    assert keys(store) == keys(store) == everything
    assert keys(zm.ManifestStore(memory), "m1/") == expected["m1"]
    assert keys(zm.ManifestStore(memory), "n2/") == expected["n2"]


@pytest.mark.slow
def test_each_array_is_looked_at_once(tmp_path: Path) -> None:
    hierarchy(tmp_path)
    store = Requests(LocalStore(tmp_path))
    through = zm.ManifestStore(store)
    first = keys(through)
    assert store.numbers()["list"] == 1
    # The root is asked first: whether it is an array of which the prefix names chunks.
    assert store.numbers()["get"] == 1 + 6 + 3  # and the manifests
    store.made.clear()
    assert keys(through) == first
    assert store.numbers() == {"list": 1}
