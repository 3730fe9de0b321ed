"""A hierarchy is replaced as a whole: what opens is the old one or the new one, at any time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from obstore.store import MemoryStore as ObstoreMemoryStore
from zarr.storage import MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.conversion.inline_nodes import read, streamed, vector
from tests.hierarchies import consolidate, files_below
from zarr_manifest.conversion import GroupNode, Node, upgrade, write_hierarchy
from zarr_manifest.errors import WriteConflictError

pytestmark = pytest.mark.slow


def test_an_importer_that_fails_leaves_all_metadata_as_they_were() -> None:
    def nodes() -> Iterator[Node]:
        yield vector("a", [1])
        raise RuntimeError("cannot be read")

    store = MemoryStore()
    for there in ({}, {"b": [1, 2]}):
        if there:
            write_hierarchy(
                store, [vector(path, values) for path, values in there.items()], inline_below=0
            )
        before = dict(store._store_dict)
        with pytest.raises(RuntimeError, match="cannot be read"):
            write_hierarchy(store, nodes(), overwrite=bool(there), inline_below=0)
        assert before.items() <= store._store_dict.items()
        # Documents stay until they are cleaned away.
        more = store._store_dict.keys() - before.keys()
        assert {key.partition("-")[0] for key in more} <= {"a/manifest"}


def test_a_hierarchy_is_not_replaced_unless_told() -> None:
    store = MemoryStore()
    write_hierarchy(store, [vector("a", [1])], inline_below=0)
    before = dict(store._store_dict)
    with pytest.raises(WriteConflictError, match="overwrite=True"):
        write_hierarchy(store, [vector("a", [2])], inline_below=0)
    assert store._store_dict == before


def test_replacing_by_the_same_changes_nothing(tmp_path: Path) -> None:
    nodes = [vector("a", [1, 2, 3]), GroupNode("g/h", {"x": 1}), vector("g/b", [3])]
    write_hierarchy(tmp_path, nodes, partition_shape=[2])
    before = files_below(tmp_path)
    report = write_hierarchy(tmp_path, nodes, partition_shape=[2], overwrite=True)
    assert files_below(tmp_path) == before
    assert report.notes == []


def test_earlier_nodes_are_replaced_and_removed(tmp_path: Path) -> None:
    root = tmp_path / "h"
    native = zarr.create_array(root, name="native", shape=2, chunks=1, dtype="u1")
    native[:] = [8, 9]
    write_hierarchy(
        root,
        [vector("a", [1, 2]), vector("gone", [3]), vector("g/inside", [4]), vector("was", [5])],
        overwrite=True,
        inline_below=0,
    )
    zarr.create_array(root, name="was_native", shape=2, chunks=1, dtype="u1")[:] = [8, 9]
    report = write_hierarchy(
        root,
        [
            vector("a", [6, 7]),
            streamed("b", [8, 9]),
            vector("g", [10]),
            vector("was/array", [11]),
            vector("was_native", [12, 13]),
        ],
        overwrite=True,
        inline_below=0,
    )
    group = zarr.open_group(zm.ManifestStore(root), mode="r")
    expected = {"a": [6, 7], "b": [8, 9], "g": [10], "was/array": [11], "was_native": [12, 13]}
    assert {path: read(root, path) for path in expected} == expected
    assert set(dict(group.members(max_depth=None))) == {*expected, "was", "native"}
    assert group["native"][:].tolist() == [8, 9]
    assert [path for path, _ in report.notes] == ["g/inside", "gone", "was_native"]
    remaining = set(files_below(root))
    assert {path for path in remaining if path.startswith("was_native/c")}
    assert not {"gone/zarr.json", "g/inside/zarr.json"} & remaining
    assert zm.validate(root) == []


def members(store: Any, path: str = "") -> set[str]:
    """Return what the consolidated metadata of a group has, each the same as its own metadata."""
    opened = zm.ManifestStore(store)
    group = zarr.open_consolidated(opened, path=path, mode="r")
    own = zarr.open_group(opened, path=path, mode="r", use_consolidated=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Object at .* is not recognized")
        nodes = dict(own.members(max_depth=None, use_consolidated_for_children=False))
    found = dict(group.members(max_depth=None))
    for name, node in nodes.items():
        if isinstance(node, zarr.Array):
            assert node.metadata == found[name].metadata
        assert node.attrs.asdict() == found[name].attrs.asdict()
    assert found.keys() == nodes.keys()
    return set(found)


def test_consolidated_metadata_are_written_and_stay_current(tmp_path: Path) -> None:
    nodes = [vector("g/a", [1, 2]), vector("b", [3]), GroupNode("g", {"x": 1})]
    write_hierarchy(tmp_path, nodes, partition_shape=[1])
    assert members(tmp_path) == {"g", "g/a", "b"}
    zm.write_manifest(tmp_path, "b", {"0": {"data": b"\x09"}}, inline=True)
    assert members(tmp_path) == {"g", "g/a", "b"}
    more: Any = {"shape": 1, "chunks": 1, "dtype": "u1"}
    zm.create_array(tmp_path, "new/c", {"0": {"data": b"\x07"}}, **more, inline=False)
    assert members(tmp_path) == {"g", "g/a", "b", "new", "new/c"}
    upgrade(tmp_path)
    assert members(tmp_path) == {"g", "g/a", "b", "new", "new/c"}
    write_hierarchy(tmp_path, [vector("g/a", [4, 5])], partition_shape=[1], overwrite=True)
    assert members(tmp_path) == {"g", "g/a"}
    assert read(tmp_path, "g/a") == [4, 5]


def test_consolidated_metadata_of_a_group_stay(tmp_path: Path) -> None:
    write_hierarchy(tmp_path, [vector("g/a", [1, 2]), vector("g/h/b", [3])], inline_below=0)
    zarr.create_array(tmp_path, name="k/native", data=np.arange(3))
    for path in ("g", "k"):
        consolidate(tmp_path, path=path)
    write_hierarchy(tmp_path, [vector("g/a", [4])], overwrite=True, inline_below=0)
    assert members(tmp_path, "g") == {"a"}
    assert members(tmp_path, "k") == {"native"}
    assert members(tmp_path) == {"g", "g/a", "k", "k/native"}


@pytest.mark.parametrize("path", ["mask", "g/mask", "more/of/mask"])
def test_native_arrays_of_others_are_kept(tmp_path: Path, path: str) -> None:
    nodes = [vector("g/a", [1, 2]), vector("b", [3])]
    write_hierarchy(tmp_path, nodes, inline_below=0)
    added = zarr.create_array(tmp_path, name=path, data=np.arange(3), attributes={"by": "others"})
    if "/" in path:
        zarr.open_group(tmp_path, path=path.rpartition("/")[0]).attrs["by"] = "others"
    before = {key: body for key, body in files_below(tmp_path).items() if key.startswith(path)}
    report = write_hierarchy(tmp_path, [vector("a", [4])], overwrite=True, inline_below=0)
    after = files_below(tmp_path)
    assert before.items() <= after.items()
    assert [node for node, _ in report.notes] == ["b", *(["g"] if path[0] != "g" else []), "g/a"]
    root: Any = zarr.open_group(zm.ManifestStore(tmp_path), mode="r")
    assert root[path][:].tolist() == [0, 1, 2]
    assert root[path].metadata == added.metadata
    if path == "more/of/mask":
        assert root["more/of"].attrs["by"] == "others"
    assert {path, "a"} <= members(tmp_path)


def test_a_native_array_is_not_hidden_below_a_new_array(tmp_path: Path) -> None:
    write_hierarchy(tmp_path, [vector("g/a", [1, 2])], inline_below=0)
    zarr.create_array(tmp_path, name="g/mask", data=np.arange(3))
    before = files_below(tmp_path)
    with pytest.raises(WriteConflictError, match="would hide a native array") as caught:
        write_hierarchy(
            tmp_path, [vector("b", [1]), vector("g", [4])], overwrite=True, inline_below=0
        )
    assert caught.value.array == "g/mask"
    after = files_below(tmp_path)
    assert before.items() <= after.items()
    assert {key.partition("-")[0] for key in after.keys() - before.keys()} == {"b/manifest"}


class Full(MemoryStore):
    """No space is left for the own metadata of one node."""

    full = False

    async def set(self, key: str, *args: Any, **options: Any) -> None:
        if key == "g/b/zarr.json" and self.full:
            raise OSError(28, "No space left on device")
        await super().set(key, *args, **options)


def test_a_failure_after_the_commit_says_that_the_change_was_made() -> None:
    store = Full()
    write_hierarchy(store, [vector("a", [1]), vector("g/b", [2])], inline_below=0)
    store.full = True
    with pytest.raises(OSError, match="No space") as raised:
        write_hierarchy(
            store, [vector("a", [3]), vector("g/b", [4])], overwrite=True, inline_below=0
        )
    assert "The change was made all the same" in raised.value.__notes__[0]
    group: Any = zarr.open_group(zm.ManifestStore(store), mode="r")
    assert (group["a"][:].tolist(), group["g/b"][:].tolist()) == ([3], [4])
    store.full = False
    assert zm.recover(store) == ["g/b"]
    assert (read(store, "a"), read(store, "g/b")) == ([3], [4])
    assert zm.validate(store) == []


def test_files_outside_a_hierarchy_are_left_alone(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "others.zarr", name="native", data=np.arange(3))
    before = files_below(tmp_path)
    report = write_hierarchy(
        tmp_path, [vector("a", [1]), vector("b", [2])], overwrite=True, inline_below=0
    )
    assert report.notes == []
    after = files_below(tmp_path)
    assert before.items() <= after.items()
    assert {key for key in after if "/" not in key} == {"zarr.json"}


def test_a_failure_leaves_consolidated_metadata() -> None:
    store = MemoryStore()
    write_hierarchy(store, [vector("a", [1])], inline_below=0)
    consolidate(store)
    before = dict(store._store_dict)

    def nodes() -> Iterator[Node]:
        yield vector("a", [2])
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_hierarchy(store, nodes(), overwrite=True, inline_below=0)
    assert before.items() <= store._store_dict.items()
    report = write_hierarchy(store, [vector("a", [1])], overwrite=True, inline_below=0)
    assert report.notes == []
    assert members(store) == {"a"}


def test_somebody_else_writes_a_node_meanwhile() -> None:
    store = ObjectStore(ObstoreMemoryStore())
    write_hierarchy(store, [vector("a", [1]), vector("b", [2])], inline_below=0)

    def nodes() -> Iterator[Node]:
        yield vector("b", [3])
        zm.write_manifest(store, "a", {"0": {"data": b"\x09"}}, inline=False)
        yield vector("a", [4])

    with pytest.raises(WriteConflictError):
        write_hierarchy(store, nodes(), overwrite=True, inline_below=0)
    assert read(store, "a") == [9]

    def others() -> Iterator[Node]:
        yield vector("b", [3])
        zm.write_manifest(store, "a", {"0": {"data": b"\x08"}}, inline=False)

    with pytest.raises(WriteConflictError, match="its version was kept"):
        write_hierarchy(store, others(), overwrite=True, inline_below=0)
    assert read(store, "a") == [8]
    assert read(store, "b") == [2]
