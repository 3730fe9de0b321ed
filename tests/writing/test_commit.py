"""Changes that meet others between two of their steps: nothing is lost, and copies follow."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zarr
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.settled import settled_attributes
from zarr_manifest.conversion import GroupNode, write_hierarchy
from zarr_manifest.errors import InvalidConfigurationError, WriteConflictError
from zarr_manifest.sources import OwnFiles
from zarr_manifest.writing import Change, GuardedStore, Stored, guarded_store

pytestmark = [
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
    pytest.mark.usefixtures("without_pauses"),
]

type Nodes = dict[str, dict[str, Any] | None]

CREATION: dict[str, Any] = {"shape": 3, "chunks": 1, "dtype": "u1", "compressors": None}


def group(**attributes: Any) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def array(**attributes: Any) -> dict[str, Any]:
    memory = MemoryStore()
    zarr.create_array(memory, attributes=attributes, **CREATION)
    found: dict[str, Any] = json.loads(memory._store_dict["zarr.json"].to_bytes())
    return found


class Meeting(GuardedStore):
    """A store in which another writer acts right before a step of this one."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._guarded = guarded_store(store)
        self.before: dict[tuple[str, str], Callable[[], object]] = {}

    def _meet(self, step: str, key: str) -> None:
        self.before.pop((step, key), lambda: None)()

    def create(self, key: str, body: bytes) -> bool:
        self._meet("create", key)
        return self._guarded.create(key, body)

    def replace(self, key: str, before: Stored, body: bytes) -> Stored:
        self._meet("replace", key)
        return self._guarded.replace(key, before, body)

    def remove(self, key: str, before: Stored) -> None:
        self._meet("remove", key)
        self._guarded.remove(key, before)


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda *_: 0)


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def store(memory: MemoryStore) -> Meeting:
    return Meeting(memory)


def change(memory: MemoryStore, nodes: Nodes, *, consolidate: bool = False) -> None:
    """Change nodes, as another writer does."""
    make(guarded_store(memory), nodes, consolidate=consolidate)


def make(store: Any, nodes: Nodes, *, consolidate: bool = False) -> list[str]:
    changed = Change(store)
    for path, metadata in nodes.items():
        if metadata is None:
            changed.remove(path)
        else:
            changed.set(path, metadata)
    return changed.commit(consolidate=consolidate)


def stored(memory: MemoryStore, path: str) -> dict[str, Any] | None:
    found = memory._store_dict.get(f"{path}/zarr.json".lstrip("/"))
    return None if found is None else json.loads(found.to_bytes())


def attributes(memory: MemoryStore) -> dict[str, Any]:
    """Attributes of all nodes; requires own metadata and copies to be alike, and complete."""
    return settled_attributes({key: body.to_bytes() for key, body in memory._store_dict.items()})


def written(memory: MemoryStore, nodes: Nodes, *consolidated: str) -> None:
    """Write nodes as zarr does."""
    for path, metadata in nodes.items():
        make(guarded_store(memory), {path: metadata})
    for path in consolidated:
        zarr.consolidate_metadata(memory, path=path)


# Others commit meanwhile -------------------------------------------------------------------


def test_changes_of_different_nodes_are_merged(memory: MemoryStore, store: Meeting) -> None:
    written(memory, {"": group(), "a": array(), "b": array(), "c": array()}, "")
    other: Nodes = {"": group(t=1), "b": array(x=2), "c": None, "d": array()}
    store.before["replace", "zarr.json"] = lambda: change(memory, other)
    assert make(store, {"a": array(x=1)}) == ["a"]
    assert attributes(memory) == {"": {"t": 1}, "a": {"x": 1}, "b": {"x": 2}, "d": {}}


@pytest.mark.parametrize("consolidated", [(), ("",)])
@pytest.mark.parametrize("other", [array(x=2), group(), None])
def test_the_same_node_is_refused_by_name(
    memory: MemoryStore, store: Meeting, consolidated: tuple[str, ...], other: Any
) -> None:
    written(memory, {"": group(), "a": array()}, *consolidated)
    changed = Change(store)
    changed.set("a", array(x=1))
    changed.read("a")
    change(memory, {"a": other})
    with pytest.raises(WriteConflictError, match="another writer") as raised:
        changed.commit()
    assert raised.value.array == "a"
    assert attributes(memory) == {"": {}} | ({} if other is None else {"a": other["attributes"]})


def test_what_another_has_made_alike_is_no_conflict(memory: MemoryStore, store: Meeting) -> None:
    """As if the response of the first request had been lost, and others had gone on."""
    written(memory, {"": group(), "a": array(), "b": array()}, "")
    nodes: Nodes = {"a": array(x=1), "b": None, "c": array()}

    def already() -> None:
        change(memory, nodes)
        change(memory, {"": group(t=1)})

    store.before["replace", "zarr.json"] = already
    make(store, nodes)
    assert attributes(memory) == {"": {"t": 1}, "a": {"x": 1}, "c": {}}


@pytest.mark.slow
def test_who_always_meets_others_gives_up(memory: MemoryStore) -> None:
    written(memory, {"": group(), "a": array()}, "")
    numbers = iter(range(1000))

    class Busy(Meeting):
        def replace(self, key: str, before: Stored, body: bytes) -> Stored:
            change(memory, {"b": array(x=next(numbers))})
            return super().replace(key, before, body)

    with pytest.raises(WriteConflictError, match="another writer"):
        make(Busy(memory), {"a": array(x=1)})
    assert attributes(memory)["a"] == {}


def test_two_hierarchies_are_not_mixed(memory: MemoryStore, store: Meeting) -> None:
    """Their roots are alike."""
    store.before["replace", "zarr.json"] = lambda: change(
        memory, {"": group(), "b": array()}, consolidate=True
    )
    with pytest.raises(WriteConflictError):
        make(store, {"": group(), "a": array()}, consolidate=True)
    assert attributes(memory) == {"": {}, "b": {}}


# Groups above ------------------------------------------------------------------------------


def test_new_groups_above_are_shared(memory: MemoryStore, store: Meeting) -> None:
    written(memory, {"": group()}, "")
    changes = [Change(store), Change(store)]
    for number, (each, shared) in enumerate(zip(changes, (group(x=1), group()), strict=True)):
        each.set_default("g", shared)
        each.set(f"g/{number}", array())
        each.read_many(["g/0", "g/1"])
    for each in changes:
        each.commit()
    assert attributes(memory) == {"": {}, "g": {"x": 1}, "g/0": {}, "g/1": {}}


@pytest.mark.parametrize("other", [None, array()])
def test_a_group_that_is_gone_meanwhile_gets_no_node(
    memory: MemoryStore, store: Meeting, other: Any
) -> None:
    written(memory, {"": group(), "g": group(), "a": array()}, "")
    store.before["replace", "zarr.json"] = lambda: change(memory, {"g": other})
    with pytest.raises(WriteConflictError) as raised:
        make(store, {"g/a": array(), "a": array(x=1)})
    assert raised.value.array == "g"
    assert attributes(memory) == {"": {}, "a": {}} | ({} if other is None else {"g": {}})


@pytest.mark.parametrize("new", [None, array()])
def test_a_group_that_gets_a_node_meanwhile_stays(
    memory: MemoryStore, store: Meeting, new: Any
) -> None:
    written(memory, {"": group(), "g": group(), "g/a": array()}, "")
    store.before["replace", "zarr.json"] = lambda: change(memory, {"g/new": array()})
    with pytest.raises(WriteConflictError, match=r"'g' is to be removed or is an array") as raised:
        make(store, {"g/a": None, "g": new})
    assert raised.value.array == "g/new"
    assert attributes(memory) == {"": {}, "g": {}, "g/a": {}, "g/new": {}}


# Copies ------------------------------------------------------------------------------------


def test_copies_that_appear_meanwhile_follow(memory: MemoryStore, store: Meeting) -> None:
    written(memory, {"": group(), "a": array(), "b": array()})
    store.before["replace", "a/zarr.json"] = lambda: change(
        memory, {"b": array(x=2), "": group(t=1)}
    )
    make(store, {"a": array(x=1)})
    assert "consolidated_metadata" in (stored(memory, "") or {})
    assert attributes(memory) == {"": {"t": 1}, "a": {"x": 1}, "b": {"x": 2}}


def test_copies_above_that_appear_meanwhile_follow(memory: MemoryStore, store: Meeting) -> None:
    written(memory, {"": group(), "g": group(), "g/a": array(), "b": array()}, "g")
    store.before["replace", "g/zarr.json"] = lambda: change(
        memory, {"b": array(x=2), "": group(t=1)}
    )
    make(store, {"g/a": array(x=1)})
    assert attributes(memory) == {"": {"t": 1}, "g": {}, "g/a": {"x": 1}, "b": {"x": 2}}


def test_copies_unlike_own_metadata_are_replaced_if_asked_for(memory: MemoryStore) -> None:
    written(memory, {"": group(), "g": group(), "g/a": array(), "g/b": array()}, "g", "")
    memory._store_dict["g/a/zarr.json"] = memory._store_dict["g/b/zarr.json"]
    zarr.open_array(memory, path="g/a").attrs["x"] = 1
    with pytest.raises(InvalidConfigurationError, match="differ in 'attributes'"):
        change(memory, {"g/a": array(x=1)})
    assert zm.recover(memory, trust="own") == ["g/a"]
    assert attributes(memory) == {"": {}, "g": {}, "g/a": {"x": 1}, "g/b": {}}
    del memory._store_dict["g/a/zarr.json"]
    change(memory, {"g/a": None})
    assert attributes(memory) == {"": {}, "g": {}, "g/b": {}}


@pytest.mark.parametrize("path", ["", "g"])
def test_a_group_that_the_copies_lack_stays(memory: MemoryStore, path: str) -> None:
    """Created since by zarr, with consolidated metadata of its own."""
    written(memory, {"": group(), "g": group()}, "")
    below = f"{path}/new".lstrip("/")
    zarr.create_group(memory, path=below, attributes={"x": 1})
    zarr.create_array(memory, name=f"{below}/a", **CREATION)
    zarr.consolidate_metadata(memory, path=below)
    change(memory, {f"{below}/a": array(x=2)})
    assert attributes(memory) == {"": {}, "g": {}, below: {"x": 1}, f"{below}/a": {"x": 2}}


def test_a_new_root_gets_copies_of_what_is_there(memory: MemoryStore) -> None:
    written(memory, {"g": group(), "g/a": array(), "b": array()}, "g")
    zm.create_array(memory, "g/new", {}, **CREATION)
    assert set(attributes(memory)) == {"", "g", "g/a", "g/new", "b"}


def test_the_root_gets_copies_if_asked_for(memory: MemoryStore) -> None:
    """Also by the change of one node, of which a group below has a copy."""
    written(memory, {"": group(), "g": group(), "g/a": array()}, "g")
    change(memory, {"g/a": array(x=1)}, consolidate=True)
    assert "consolidated_metadata" in (stored(memory, "") or {})
    assert attributes(memory) == {"": {}, "g": {}, "g/a": {"x": 1}}


def test_copies_within_copies_are_replaced(memory: MemoryStore) -> None:
    written(memory, {"": group(), "g": group(), "g/a": array()}, "")
    root: Any = stored(memory, "")
    copies = root["consolidated_metadata"]["metadata"]
    copies["g"]["consolidated_metadata"]["metadata"] = {"a": copies.pop("g/a")}
    buffer = type(memory._store_dict["zarr.json"])
    memory._store_dict["zarr.json"] = buffer.from_bytes(json.dumps(root).encode())
    change(memory, {"g/a": array(x=1)})
    assert attributes(memory) == {"": {}, "g": {}, "g/a": {"x": 1}}


def test_a_group_with_copies_becomes_an_array_and_a_group_again(memory: MemoryStore) -> None:
    written(memory, {"": group(), "g": group(), "g/a": array()}, "g", "")
    change(memory, {"g": array(x=1), "g/a": None})
    assert set(stored(memory, "g") or {}) == set(array())
    assert attributes(memory) == {"": {}, "g": {"x": 1}}
    change(memory, {"g": group(), "g/b": array()})
    assert attributes(memory) == {"": {}, "g": {}, "g/b": {}}


def test_a_root_becomes_an_array_and_a_group_again(memory: MemoryStore) -> None:
    written(memory, {"": group(), "a": array()}, "")
    change(memory, {"": array(x=1), "a": None})
    assert attributes(memory) == {"": {"x": 1}}
    change(memory, {"": group(), "a": array()})
    assert attributes(memory) == {"": {}, "a": {}}


def test_many_nodes_without_a_root(memory: MemoryStore) -> None:
    written(memory, {"a": array(), "b": array()})
    with pytest.raises(WriteConflictError, match="Create a group at the root first"):
        change(memory, {"a": array(x=1), "b": array(x=1)})
    change(memory, {"a": array(x=1)})
    assert attributes(memory) == {"a": {"x": 1}, "b": {}}


# Own metadata that follow ------------------------------------------------------------------


def test_a_late_write_does_not_undo_what_others_committed_since(
    memory: MemoryStore, store: Meeting
) -> None:
    """They have made the node what it was when the write began."""
    written(memory, {"": group(), "a": array()}, "")
    change(memory, {"a": array()})

    def others() -> None:
        zm.recover(memory)
        change(memory, {"a": array()})

    store.before["replace", "a/zarr.json"] = others
    make(store, {"a": array(x=1)})
    assert attributes(memory) == {"": {}, "a": {}}


@pytest.mark.parametrize("again", [array(), array(x=1)])
def test_a_late_removal_does_not_remove_what_others_created_since(
    memory: MemoryStore, store: Meeting, again: Any
) -> None:
    written(memory, {"": group(), "a": array()}, "")

    def others() -> None:
        zm.recover(memory)
        change(memory, {"a": again})

    store.before["remove", "a/zarr.json"] = others
    make(store, {"a": None})
    assert attributes(memory) == {"": {}, "a": again["attributes"]}


def test_others_finish_at_the_same_time(memory: MemoryStore, store: Meeting) -> None:
    nodes: Nodes = {"": group(), "g": group(), "g/a": array(), "b": array(), "c": array()}
    written(memory, nodes, "g", "")
    for step in [("replace", "g/a/zarr.json"), ("remove", "b/zarr.json"), ("replace", "zarr.json")]:
        store.before[step] = lambda: zm.recover(memory)
    make(store, {"g/a": array(x=1), "b": None, "c": array(x=1), "d": array()})
    expected = {"": {}, "g": {}, "g/a": {"x": 1}, "c": {"x": 1}, "d": {}}
    assert attributes(memory) == expected


def test_own_metadata_that_zarr_changes_meanwhile_stay(memory: MemoryStore, store: Meeting) -> None:
    """zarr knows no conditions: both changes are there, and they contradict each other."""
    written(memory, {"": group(), "a": array(), "b": array()}, "")

    def edit() -> None:
        zarr.open_group(memory, use_consolidated=False)["b"].attrs["theirs"] = 1

    store.before["replace", "b/zarr.json"] = edit
    make(store, {"b": array(ours=1)})
    own, root = stored(memory, "b"), stored(memory, "")
    assert own is not None
    assert root is not None
    assert own["attributes"] == {"theirs": 1}
    copies = root["consolidated_metadata"]
    assert copies["metadata"]["b"]["attributes"] == {"ours": 1}
    assert "pending" not in copies


def test_new_nodes_stay_if_zarr_replaces_the_root_meanwhile(
    memory: MemoryStore, store: Meeting
) -> None:
    """With copies of what it finds, or without copies: what is pending is forgotten."""
    for consolidates in (True, False):
        memory._store_dict.clear()
        written(memory, {"": group(), "a": array()}, "")

        def replace(consolidates: bool = consolidates) -> None:
            root: Any = stored(memory, "")
            del root["consolidated_metadata"]
            buffer = type(memory._store_dict["zarr.json"])
            memory._store_dict["zarr.json"] = buffer.from_bytes(json.dumps(root).encode())
            if consolidates:
                zarr.consolidate_metadata(memory)

        store.before["replace", "new/zarr.json"] = replace
        make(store, {"new": array(x=1)})
        assert stored(memory, "new") == array(x=1)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_lock_on_own_metadata_leaves_them_pending(tmp_path: Path) -> None:
    write_hierarchy(tmp_path, [GroupNode("", {}), GroupNode("g", {})])
    for name in "ab":
        zm.create_array(tmp_path, name, {"0": {"data": b"1"}}, **CREATION)
    with OwnFiles(str(tmp_path)).locked("a/zarr.json"):
        with pytest.raises(WriteConflictError, match="held the lock") as raised:
            zm.write_manifest(tmp_path, "a", {"0": {"data": b"2"}})
        assert "The change was made all the same" in str(raised.value.__notes__)
    assert b'"pending"' in (tmp_path / "zarr.json").read_bytes()
    consolidated = zarr.open_group(zm.ManifestStore(tmp_path), mode="r")
    assert consolidated["a"][0] == ord("2")  # type: ignore[index]
    assert zm.recover(tmp_path) == ["a"]
    assert zm.recover(tmp_path) == []
    assert b'"pending"' not in (tmp_path / "zarr.json").read_bytes()
    assert zm.validate(tmp_path) == []


@pytest.mark.parametrize("stated", [{"a": None}, {"gone": "sha256:" + "0" * 64}, {"x/y": None}])
def test_what_is_pending_but_not_behind_is_forgotten(memory: MemoryStore, stated: Any) -> None:
    written(memory, {"": group(), "a": array()}, "")
    root: Any = stored(memory, "")
    root["consolidated_metadata"]["pending"] = stated
    buffer = type(memory._store_dict["zarr.json"])
    memory._store_dict["zarr.json"] = buffer.from_bytes(json.dumps(root).encode())
    assert zm.recover(memory) == []
    assert attributes(memory) == {"": {}, "a": {}}


def test_what_is_behind_links_is_not_written(tmp_path: Path) -> None:
    """A stranger's hierarchy may say that anything is pending."""
    root, outside = tmp_path / "h", tmp_path / "outside"
    zarr.create_group(root)
    zarr.create_group(outside, attributes={"private": True})
    zarr.consolidate_metadata(root)
    (root / "g").symlink_to(outside)
    node = json.loads((root / "zarr.json").read_text())
    node["consolidated_metadata"]["metadata"]["g"] = group(x=1)
    for stated in (None, "sha256:" + "0" * 64):
        node["consolidated_metadata"]["pending"] = {"g": stated, "g/new": None}
        node["consolidated_metadata"]["metadata"]["g/new"] = group()
        (root / "zarr.json").write_text(json.dumps(node))
        for write in (zm.recover, lambda root: zm.create_array(root, "a", {}, **CREATION)):
            with pytest.raises(zm.errors.LocationNotAllowedError, match="symbolic link"):
                write(root)
    assert [path.name for path in outside.iterdir()] == ["zarr.json"]
    assert json.loads((outside / "zarr.json").read_text())["attributes"] == {"private": True}
