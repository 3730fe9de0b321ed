"""Metadata written and deleted through a ManifestStore while a change is being written."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import zarr
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.hierarchy.test_precedence import READERS, Snapshot, every, snapshot_of, state
from tests.hierarchy.windows import CHANGES, Change, Window, windows
from zarr_manifest.format import digest_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:Object at .* is not recognized as a component"),
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
]


def opened(memory: MemoryStore, *, consolidated: bool) -> Any:
    return zarr.open_group(zm.ManifestStore(memory), mode="r+", use_consolidated=consolidated)


NOT_CONSOLIDATED = ("by path",)
EVERY = ("consolidated", *NOT_CONSOLIDATED)


def assert_seen(memory: MemoryStore, expected: Snapshot, readers: Sequence[str] = EVERY) -> None:
    for reader in readers:
        assert READERS[reader](zm.ManifestStore(memory)) == expected


def is_behind(change: Change, window: Window) -> bool:
    """Whether there are nodes whose own metadata are behind."""
    before, *_, last_written, after = windows(change)
    return window.name not in (before.name, last_written.name, after.name)


# The root ---------------------------------------------------------------------------------


@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize(("change", "window"), every())
def test_attributes_of_the_root(change: Change, window: Window, consolidated: bool) -> None:
    memory = window.store()
    opened(memory, consolidated=consolidated).attrs["x"] = 1
    expected = snapshot_of(state(change, window))
    expected[""] = (expected[""][0] | {"x": 1}, None)
    is_dropped = not consolidated and not is_behind(change, window)
    assert_seen(memory, expected, NOT_CONSOLIDATED if is_dropped else EVERY)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CHANGES if name != "other kinds of nodes"])
def test_attributes_of_a_root_that_was_opened_before(name: str) -> None:
    change = CHANGES[name]
    before, *others = windows(change)
    for consolidated in (True, False):
        for window in others[:-1]:
            memory = before.store()
            root = opened(memory, consolidated=consolidated)
            window.into(memory)
            root.attrs["x"] = 1
            expected = snapshot_of(change.new)
            expected[""] = (snapshot_of(change.old)[""][0] | {"x": 1}, None)
            is_dropped = not consolidated and not is_behind(change, window)
            assert_seen(memory, expected, NOT_CONSOLIDATED if is_dropped else EVERY)


@pytest.mark.parametrize(("change", "window"), every())
def test_consolidating(change: Change, window: Window) -> None:
    memory = window.store()
    zarr.consolidate_metadata(zm.ManifestStore(memory))
    assert_seen(memory, snapshot_of(state(change, window)))
    is_pending = b"pending" in memory._store_dict["zarr.json"].to_bytes()
    assert is_pending == is_behind(change, window)


# Other nodes ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("name", ["append", "trim", "attributes"])
def test_a_node_that_is_behind(name: str, consolidated: bool) -> None:
    """zarr has seen the copy, so what it writes counts."""
    for window in windows(CHANGES[name]):
        memory = window.store()
        opened(memory, consolidated=consolidated)["sst"].attrs["x"] = 1
        expected = snapshot_of(state(CHANGES[name], window))
        expected["sst"] = (expected["sst"][0] | {"x": 1}, expected["sst"][1])
        assert_seen(memory, expected, NOT_CONSOLIDATED)
        zarr.consolidate_metadata(zm.ManifestStore(memory))
        assert_seen(memory, expected)


@pytest.mark.parametrize("path", ["sst", "g", "g/t"])
def test_a_node_that_becomes_what_it_was(path: str) -> None:
    """What zarr writes counts, also if these are the bytes that the change replaces."""
    change = CHANGES["attributes"]
    before, committed, *_ = windows(change)
    former = snapshot_of(change.old)[path]
    memory = before.store()
    opened(memory, consolidated=False)[path].attrs.put(former[0])
    body = memory._store_dict[f"{path}/zarr.json"].to_bytes()  # as zarr writes it
    root = json.loads(committed.objects["zarr.json"])
    root["consolidated_metadata"]["pending"][path] = digest_of(body)
    memory._store_dict["zarr.json"] = type(memory._store_dict["zarr.json"]).from_bytes(
        json.dumps(root).encode()
    )
    assert_seen(memory, snapshot_of(change.new))
    opened(memory, consolidated=False)[path].attrs.put(former[0])
    assert_seen(memory, snapshot_of(change.new) | {path: former}, NOT_CONSOLIDATED)


def remove(root: Any, path: str) -> None:
    del root[path]


def remove_metadata(root: Any, path: str) -> None:
    root.store.delete_sync(f"{path}/zarr.json")


@pytest.mark.slow
@pytest.mark.parametrize("deletion", [remove, remove_metadata])
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("path", ["native", "other"])
def test_a_new_node_is_deleted(
    path: str, consolidated: bool, deletion: Callable[[Any, str], None]
) -> None:
    """Also where its own metadata are not written yet."""
    change = CHANGES["new nodes"]
    for window in list(windows(change))[1:]:
        memory = window.store()
        deletion(opened(memory, consolidated=consolidated), path)
        expected = snapshot_of(change.new)
        del expected[path]
        # Otherwise the copy stays, as without a change.
        is_copy_gone = window.name != "after" or (consolidated and deletion is remove)
        assert_seen(memory, expected, EVERY if is_copy_gone else NOT_CONSOLIDATED)


@pytest.mark.slow
def test_a_new_group_is_deleted_with_its_members() -> None:
    change = CHANGES["new nodes"]
    for window in list(windows(change))[1:]:
        memory = window.store()
        del opened(memory, consolidated=True)["g"]
        expected = {p: s for p, s in snapshot_of(change.new).items() if not p.startswith("g")}
        assert_seen(memory, expected)


@pytest.mark.slow
@pytest.mark.parametrize("consolidated", [True, False])
def test_a_replaced_node_is_deleted(consolidated: bool) -> None:
    change = CHANGES["append"]
    for window in list(windows(change))[1:]:
        memory = window.store()
        del opened(memory, consolidated=consolidated)["sst"]
        expected = snapshot_of(change.new)
        del expected["sst"]
        assert_seen(memory, expected, EVERY if consolidated else NOT_CONSOLIDATED)


def test_nothing_is_created_in_place_of_what_is_being_removed() -> None:
    """Its chunks may still be there."""
    _, committed, *_ = windows(CHANGES["removed nodes"])
    for path in ("native", "other"):
        memory = committed.store()
        root = opened(memory, consolidated=False)
        with pytest.raises(zm.errors.WriteConflictError, match="another writer has changed"):
            root.create_array(path, shape=4, chunks=2, dtype="i4", fill_value=-1)
        root.create_array(path, shape=4, chunks=2, dtype="i4", fill_value=-1, overwrite=True)
        expected = snapshot_of(CHANGES["removed nodes"].new) | {path: ({}, [-1] * 4)}
        assert_seen(memory, expected, NOT_CONSOLIDATED)


def test_what_was_replaced_since_it_was_opened_is_not_replaced_again() -> None:
    before, committed, *_ = windows(CHANGES["append"])
    memory = before.store()
    array = zarr.open_array(zm.ManifestStore(memory), path="sst", mode="r+")
    group = opened(memory, consolidated=True)
    committed.into(memory)
    for node in (array, group["sst"]):
        with pytest.raises(zm.errors.WriteConflictError, match=r"array 'sst'.*recover"):
            node.attrs["x"] = 1
    assert_seen(memory, snapshot_of(CHANGES["append"].new))
