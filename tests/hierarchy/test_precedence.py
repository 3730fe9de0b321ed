"""Readers see a change of several nodes as a whole, wherever its writer is, or has stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchy.windows import BELOW, CHANGES, Array, Change, Nodes, Window, windows
from tests.properties import THOROUGH
from zarr_manifest.hierarchy import Node, list_nodes, open_for_reading

# Documents and chunks that nothing refers to any more stay.
pytestmark = pytest.mark.filterwarnings("ignore:Object at .* is not recognized as a component")

type Snapshot = dict[str, tuple[dict[str, Any], list[int] | None]]
"""By path of a node: its attributes, and the values of an array."""

type Reader = Callable[[zm.ManifestStore], Snapshot]


def snapshot_of(nodes: Nodes) -> Snapshot:
    return {
        path: (node.metadata["attributes"], list(node.values))
        if isinstance(node, Array)
        else (node.attributes, None)
        for path, node in nodes.items()
    }


def seen(root: Any) -> Snapshot:
    """What zarr sees of all nodes."""
    found: Snapshot = {"": (dict(root.attrs), None)}
    node: Any
    for path, node in root.members(max_depth=None):
        found[path] = contents(node)
    return found


def contents(node: Any) -> tuple[dict[str, Any], list[int] | None]:
    return dict(node.attrs), np.asarray(node).tolist() if isinstance(node, zarr.Array) else None


def by_zarr(consolidated: bool) -> Reader:
    return lambda store: seen(zarr.open_group(store, mode="r", use_consolidated=consolidated))


def by_path(store: zm.ManifestStore) -> Snapshot:
    """Nodes are opened one by one, by paths that are listed, once the root has been seen."""
    root = zarr.open_group(store, mode="r", use_consolidated=False)
    found: Snapshot = {"": (dict(root.attrs), None)}
    for key in sync(_collect(store.list())):
        path, _, name = key.rpartition("/")
        if name == "zarr.json" and path:
            node = zarr.open(store, path=path, mode="r", use_consolidated=False)
            found[path] = contents(node)
    return found


def by_directories(store: zm.ManifestStore) -> Snapshot:
    """Each directory is listed, and each node asked for."""
    zarr.open_group(store, mode="r", use_consolidated=False)
    found: Snapshot = {}

    def visit(path: str) -> None:
        key = f"{path}/zarr.json" if path else "zarr.json"
        assert sync(store.exists(key))
        assert sync(store.getsize(key)) > 0
        node = zarr.open(store, path=path, mode="r", use_consolidated=False)
        found[path] = contents(node)
        if isinstance(node, zarr.Array):
            return
        for name in sync(_collect(store.list_dir(path))):
            below = f"{path}/{name}" if path else name
            if name != "zarr.json" and sync(store.exists(f"{below}/zarr.json")):
                visit(below)

    visit("")
    return found


async def _collect(keys: Any) -> list[str]:
    return [key async for key in keys]


READERS: dict[str, Reader] = {
    "consolidated": by_zarr(consolidated=True),
    "not consolidated": by_zarr(consolidated=False),
    "by directories": by_directories,
}


def every(names: Iterable[str] = CHANGES) -> list[Any]:
    """Return changes and windows: of those while nodes are written, all in the thorough tier."""
    found: list[Any] = []
    for name in names:
        before, committed, *written, after = windows(CHANGES[name])
        half = written if THOROUGH else [written[len(written) // 2]]
        for window in (before, committed, *half, after):
            marks = [] if window.name == "committed" else [pytest.mark.combinations]
            identity = f"{name}: {window.name}"
            found.append(pytest.param(CHANGES[name], window, id=identity, marks=marks))
    return found


def state(change: Change, window: Window) -> Nodes:
    return change.new if window.is_committed else change.old


# Reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("change", "window"), every())
def test_the_old_state_or_the_new(change: Change, window: Window, reader: str) -> None:
    store = zm.ManifestStore(window.store())
    assert READERS[reader](store) == snapshot_of(state(change, window))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", combinations(CHANGES, besides=["removed nodes", "copies below the root"])
)
def test_a_reader_of_one_window_in_the_next(name: str) -> None:
    """It has seen that a change was being written, which is finished meanwhile."""
    change = CHANGES[name]
    _, *steps = windows(change)
    memory = MemoryStore()
    for number, window in enumerate(steps):
        for later in steps[number + 1 :]:
            window.into(memory)
            store = zm.ManifestStore(memory)
            zarr.open_group(store, mode="r")
            later.into(memory)
            assert by_path(store) == snapshot_of(change.new)


@pytest.mark.parametrize("name", ["append", "trim", "attributes", "copies below the root"])
@pytest.mark.parametrize("consolidated", [True, False])
def test_what_was_opened_before_stays_as_it_was(name: str, consolidated: bool) -> None:
    change = CHANGES[name]
    memory = MemoryStore()
    before, *others = windows(change)
    before.into(memory)
    root = zarr.open_group(zm.ManifestStore(memory), mode="r", use_consolidated=consolidated)
    nodes = dict(root.members(max_depth=None))
    for window in others:
        window.into(memory)
        for path, node in nodes.items():
            if isinstance(node, zarr.Array):
                expected = change.old[path]
                assert isinstance(expected, Array)
                np.testing.assert_array_equal(node[:], expected.values)


@pytest.mark.parametrize(("change", "window"), every(["append", "trim", "attributes"]))
def test_an_array_opened_directly_is_as_its_own_metadata_say(
    change: Change, window: Window
) -> None:
    is_written = window.name in ("sst written", "t written", "after")
    expected = (change.new if is_written else change.old)["sst"]
    assert isinstance(expected, Array)
    found: Any = zarr.open_array(zm.ManifestStore(window.store()), path="sst", mode="r")
    assert found[:].tolist() == list(expected.values)


@pytest.mark.slow
def test_a_group_with_copies_of_its_own_opens_consolidated() -> None:
    change = CHANGES["copies below the root"]
    for window in windows(change):
        store = zm.ManifestStore(window.store())
        zarr.open_group(store, mode="r")
        found = zarr.open_group(store, path="g", mode="r", use_consolidated=True)
        expected = snapshot_of(state(change, window))
        below = {path[2:]: node for path, node in expected.items() if path.startswith("g/")}
        assert seen(found) == {"": expected["g"]} | below


@pytest.mark.parametrize("window", list(windows(BELOW)), ids=lambda window: window.name)
def test_copies_in_a_group_alone(window: Window) -> None:
    """The root has no consolidated metadata, so that the group's are the commit."""
    expected = snapshot_of(state(BELOW, window))
    assert by_directories(zm.ManifestStore(window.store())) == expected
    below = {path[2:]: node for path, node in expected.items() if path.startswith("g/")}
    for consolidated in (True, False):
        store = zm.ManifestStore(window.store())
        group = zarr.open_group(store, path="g", mode="r", use_consolidated=consolidated)
        assert seen(group) == {"": expected["g"]} | below
        assert seen(zarr.open_group(store, mode="r")) == expected


@pytest.mark.slow
def test_listings_show_what_is_committed() -> None:
    for name in ("new nodes", "removed nodes"):
        for window in windows(CHANGES[name]):
            store = zm.ManifestStore(window.store())
            zarr.open_group(store, mode="r")
            paths = {path for path in state(CHANGES[name], window) if path}
            listed = {key.removesuffix("/zarr.json") for key in sync(_collect(store.list()))}
            assert listed.intersection(("native", "g", "g/sst", "g/h", "g/h/sst", "other")) <= paths
            assert paths <= listed
            if window.name == "committed":
                names = set(sync(_collect(store.list_dir(""))))
                assert names == {"zarr.json"} | {path.partition("/")[0] for path in paths}
                for path in ("native", "g"):
                    assert sync(store.is_empty(path)) == (path not in paths)


def test_a_malformed_member_is_an_error() -> None:
    memory = list(windows(CHANGES["append"]))[1].store()
    body = memory._store_dict["zarr.json"].to_bytes().replace(b'"sst": "sha256:', b'"sst": "md5:')
    memory._store_dict["zarr.json"] = type(memory._store_dict["zarr.json"]).from_bytes(body)
    with pytest.raises(zm.errors.InvalidConfigurationError, match="'pending' says"):
        zarr.open_group(zm.ManifestStore(memory), mode="r")


def test_zarr_is_not_shown_it() -> None:
    for window in windows(CHANGES["append"]):
        store = zm.ManifestStore(window.store())
        shown = sync(store.get("zarr.json"))
        assert shown is not None
        assert b"pending" not in shown.to_bytes()


# Nodes as stored --------------------------------------------------------------------------


async def _nodes(store: Store, **options: Any) -> list[Node]:
    return await list_nodes(await open_for_reading(store), **options)


@pytest.mark.parametrize(("change", "window"), every())
def test_the_walk_over_nodes(change: Change, window: Window) -> None:
    nodes = sync(_nodes(window.store()))
    expected = state(change, window)
    assert [node.path for node in nodes] == sorted(expected, key=lambda path: path.split("/"))
    for node in nodes:
        found = expected[node.path]
        attributes = found.metadata["attributes"] if isinstance(found, Array) else found.attributes
        assert node.metadata["attributes"] == attributes
        assert node.kind == ("array" if isinstance(found, Array) else "group")


def test_the_walk_below_a_node() -> None:
    for name in ("new nodes", "removed nodes", "copies below the root"):
        for window in windows(CHANGES[name]):
            expected = [path for path in state(CHANGES[name], window) if path.startswith("g")]
            found = sync(_nodes(window.store(), below="g"))
            assert sorted(node.path for node in found) == sorted(expected)


def test_the_walk_over_nodes_as_stored() -> None:
    for window in windows(CHANGES["removed nodes"]):
        found = {node.path for node in sync(_nodes(window.store(), as_stored=True))}
        own = {
            key.removesuffix("/zarr.json") for key in window.objects if key[-10:] == "/zarr.json"
        }
        assert found == {"", *own}


@pytest.mark.parametrize(
    ("change", "window"),
    [
        *every(["new nodes", "removed nodes", "other kinds of nodes"]),
        *(pytest.param(BELOW, window) for window in windows(BELOW)),
    ],
)
def test_validation_says_what_is_behind(change: Change, window: Window) -> None:
    written = {key for key in window.objects if key.endswith("zarr.json")}
    for arrays in (None, [path for path, node in change.new.items() if isinstance(node, Array)]):
        if arrays is not None and not window.is_committed:
            continue
        found = zm.validate(window.store(), arrays=arrays, strict=True)
        assert {problem.code for problem in found} <= {"metadata_behind", "checksums_missing"}
        behind = [problem for problem in found if problem.code == "metadata_behind"]
        if window.name in ("before", "after"):
            assert behind == []
        for problem in behind:
            assert problem.is_note
            assert "recover" in problem.message
        new = {path for path in change.new if path not in change.old}
        missing = {path for path in new if f"{path}/zarr.json" not in written}
        removed = {path for path in change.old if path not in change.new}
        left = {path for path in removed if f"{path}/zarr.json" in written}
        if window.is_committed and arrays is None:
            assert missing | left <= {problem.array for problem in behind}
            assert left == {p.array for p in behind if "has been removed" in p.message}


def test_locations_of_what_counts() -> None:
    """Documents of removed nodes are not read."""
    _, committed, *_ = windows(CHANGES["removed nodes"])
    memory = committed.store()
    del memory._store_dict["other/m-1.json"]
    assert zm.ManifestStore(memory).locations() == []
