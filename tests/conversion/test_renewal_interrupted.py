"""A relocation that is interrupted anywhere: all arrays are as before, or as after."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.interrupted_stores import InterruptedDirectory, every_change
from zarr_manifest.conversion import ArrayNode, recover, relocate, write_hierarchy
from zarr_manifest.errors import WriteConflictError

pytestmark = pytest.mark.slow


def node(path: str, source: Path, number: int) -> ArrayNode:
    metadata = {
        "zarr_format": 3, "node_type": "array", "shape": [8], "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": [{"name": "bytes"}], "attributes": {},
    }  # fmt: skip
    url = (source / f"{number}.bin").as_uri()
    manifest = zm.Manifest.from_columns(
        (2,), paths=url, offsets=[0, 4], lengths=4, conditions={url: {"size": 8}}
    )
    return ArrayNode(path, metadata, manifest)


def places(root: Any) -> set[str | None]:
    """Where the arrays are, as each kind of reader sees it."""
    found: set[str | None] = set()
    for consolidated in (True, False):
        store = zm.ManifestStore(root, allow=["/"], read_only=True)
        group = zarr.open_group(store, mode="r", use_consolidated=consolidated)
        for name in ("a", "g/b"):
            array: Any = group[name]
            values: Any = array[...]
            assert list(values) == list(range(8))
        found |= {place.prefix for place in store.locations()}
    return found


@pytest.mark.parametrize("partitions", [None, [1]])
def test_all_arrays_move_at_once(tmp_path: Path, partitions: list[int] | None) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for place in (old, new):
        place.mkdir()
        for number in range(2):
            (place / f"{number}.bin").write_bytes(np.arange(8, dtype="u1").tobytes())
    nodes = [node("a", old, 0), node("g/b", old, 1)]
    write_hierarchy(tmp_path / "h", nodes, partition_shape=partitions)
    before, after = {f"{old.as_uri()}/"}, {f"{new.as_uri()}/"}
    count = 0

    def make() -> InterruptedDirectory:
        nonlocal count
        count += 1
        return InterruptedDirectory(shutil.copytree(tmp_path / "h", tmp_path / str(count)))

    def change(store: Any) -> None:
        assert not relocate(store, {str(old): str(new)}).refused

    seen: list[set[str | None] | None] = []
    for _, is_last in every_change(make, change):
        root = tmp_path / str(count)
        try:
            found = places(root)
        except WriteConflictError:
            seen.append(None)
            assert recover(root, "finish" if len(seen) % 2 else "undo") is not None
            assert places(root) == (after if len(seen) % 2 else before)
        else:
            assert found in (before, after)
            seen.append(found)
        if not is_last and places(root) == before:
            if (root / "zarr.json.unfinished").exists():
                with pytest.raises(WriteConflictError, match=r"interrupted.*recover"):
                    relocate(root, {str(old): str(new)})
                recover(root, "undo")
            relocate(root, {str(old): str(new)})
        assert places(root) == after
        assert zm.validate(root) == []
    assert seen[0] == before
    assert None in seen
    assert seen[-1] == after
