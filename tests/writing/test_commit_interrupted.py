"""Writers that end between any two changes of a store: all readers see the old nodes or the new.

A state that a writer leaves is read from memory, wherever it was written, and only once.
"""

from __future__ import annotations

import functools
import itertools
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.conversion.inline_nodes import vector
from tests.hierarchies import consolidate
from tests.interrupted_stores import (
    InterruptedDirectory,
    InterruptedMemory,
    InterruptedObjects,
    InterruptedObstoreMemory,
    InterruptedS3,
    contents,
    every_change,
)
from tests.properties import THOROUGH
from tests.servers.s3 import S3Server
from tests.settled import assert_settled
from zarr_manifest.conversion import GroupNode, write_hierarchy
from zarr_manifest.errors import ManifestNotFoundError, WriteConflictError
from zarr_manifest.manifest import Manifest, references_of
from zarr_manifest.writing import ArrayWriter, Change, Form, guarded_store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
    pytest.mark.filterwarnings("ignore:Failed to open Zarr store with consolidated metadata"),
    pytest.mark.filterwarnings("ignore:Object at .* is not recognized as a component"),
]

type State = dict[str, bytes]
type Snapshot = dict[str, tuple[dict[str, Any], list[int] | None]]
type Writer = Callable[[Any], object]

CREATION: dict[str, Any] = {
    "shape": 4,
    "chunks": 2,
    "dtype": "u1",
    "compressors": None,
    "dimension_names": ["x"],
    "fill_value": 0,
}
BUFFER = default_buffer_prototype().buffer


def entries(first: int) -> dict[Any, Any]:
    return {(i,): {"data": bytes([first + 2 * i, first + 2 * i + 1])} for i in range(2)}


# Hierarchies -------------------------------------------------------------------------------


def plain(store: Any) -> None:
    """Groups and arrays, with documents of each kind, and without copies of metadata."""
    for path in ("", "g", "g/h"):
        zarr.create_group(store, path=path, attributes={"path": path})
    kinds: list[dict[str, Any]] = [
        {"partition_shape": [1]},
        {"inline": True},
        {"inline": False, "manifest_url": "./manifest.json"},
    ]
    for number, path in enumerate(("a", "b", "g/a", "g/h/a")):
        options = kinds[number % 3]
        zm.create_array(store, path, entries(10 * number + 1), **CREATION, **options)


def consolidated(store: Any) -> None:
    plain(store)
    consolidate(store)


def mixed(store: Any) -> None:
    """A native array beside the others."""
    plain(store)
    zarr.create_array(store, name="native", **CREATION)[:] = np.arange(4)
    consolidate(store)


def subgroups(store: Any) -> None:
    """Copies in groups below the root, and none in the root."""
    plain(store)
    for path in ("g/h", "g"):
        consolidate(store, path=path)


def all_groups(store: Any) -> None:
    subgroups(store)
    consolidate(store)


# Writers -----------------------------------------------------------------------------------


def replace(store: Any) -> None:
    zm.write_manifest(store, "a", entries(101), partition_shape=[1])


def replace_below(store: Any) -> None:
    zm.write_manifest(store, "g/h/a", entries(101), inline=False)


def create(store: Any) -> None:
    zm.create_array(store, "new/group/a", entries(101), **CREATION, inline=False)


def change_nodes(store: Any) -> None:
    """New, replaced and removed nodes at once."""
    own = guarded_store(store)
    change = Change(own)
    document = {
        str(i): {"data": b64encode(entry["data"]).decode()} for (i,), entry in entries(101).items()
    }
    references = references_of(Manifest.loads(json.dumps(document).encode(), grid_shape=(2,)))
    for path in ("a", "g/h/a", "g/new", "n/a"):
        metadata = change.node(path) or change.node("a") or {}
        writer = ArrayWriter(own, path, metadata, Form(inline=False))
        writer.write(references)
        change.set(path, {**metadata, "attributes": {"new": True}})
    change.set("n", {"zarr_format": 3, "node_type": "group", "attributes": {}})
    for path in ("b", "g/a"):
        change.remove(path)
    change.commit()


def change_attributes(store: Any) -> None:
    change = Change(guarded_store(store))
    for path in ("", "g", "g/h", "g/h/a"):
        change.set(path, {**(change.node(path) or {}), "attributes": {"new": path}})
    change.commit()


def change_attributes_of_a_group(store: Any) -> None:
    change = Change(guarded_store(store))
    change.set("g", {**(change.node("g") or {}), "attributes": {"new": True}})
    change.commit()


def overwrite(store: Any) -> None:
    nodes: list[Any] = [
        GroupNode("", {"new": True}),
        vector("a", [101, 102, 103]),
        vector("g/h/a", [104]),
        vector("g/b/c", [105]),
    ]
    for node in nodes[1:]:
        node.metadata["dimension_names"] = ["y"]
    write_hierarchy(store, nodes, overwrite=True, inline_below=0)


@functools.cache
def more() -> MemoryStore:
    store = MemoryStore()
    plain(store)
    for number, path in enumerate(("a", "b", "g/a", "g/h/a")):
        zm.write_manifest(store, path, entries(101 + 10 * number))
    return store


def append(store: Any) -> None:
    zm.append(store, more(), dim="x")


def trim(store: Any) -> None:
    zm.trim(store, dim="x", keep=2)


def edit(store: Any) -> None:
    """Chunks, references, attributes, and new, longer, replaced and removed arrays at once."""
    with zm.edit(store) as root:
        root["a"][1:] = 101
        root["g/h/a"].resize((5,))
        root["g/h/a"][4:] = 102
        zm.entries(root["g/a"])[0] = {"data": bytes([103, 104])}
        root["g"].attrs["new"] = True
        for path in ("n", "g/new"):
            new = root.create_array(
                path,
                **CREATION | {"shape": 600, "chunks": 600, "dimension_names": ["n"]},
                overwrite=True,
            )
            new[:] = 105
        if "b" in root:
            del root["b"]
        if "native" in root:
            root["native"][3:] = 106


def first(store: Any) -> None:
    """Nothing is there."""


USUAL: list[tuple[Writer, Writer]] = [
    (first, create),
    (first, overwrite),
    (plain, create),
    (plain, replace),
    (consolidated, overwrite),
    (subgroups, replace_below),
    (subgroups, change_attributes_of_a_group),
    (all_groups, change_nodes),
    (all_groups, change_attributes),
    (consolidated, append),
    (consolidated, trim),
    (mixed, edit),
]
# Each writer, and each kind of hierarchy, is met above, too.
MORE: list[tuple[Writer, Writer]] = [
    (plain, change_nodes),
    (consolidated, create),
    (consolidated, replace),
    (consolidated, change_nodes),
    (subgroups, change_nodes),
    (all_groups, replace_below),
    (all_groups, overwrite),
    (plain, append),
]
WRITERS: dict[str, tuple[Writer, Writer]] = {
    f"{write.__name__} in {prepare.__name__}": (prepare, write)
    for prepare, write in (USUAL + MORE if THOROUGH else USUAL)
}


# Stores ------------------------------------------------------------------------------------

type Make = Callable[[], Any]


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes an empty store each time it is called."""
    numbers = itertools.count()
    kind: str = request.param
    if kind == "S3":
        server: S3Server = request.getfixturevalue("s3_server")
        bucket: str = request.getfixturevalue("s3_bucket")
    makers: dict[str, Make] = {
        "memory": InterruptedMemory,
        "directory": lambda: InterruptedDirectory(tmp_path / str(next(numbers))),
        "obstore's memory": lambda: InterruptedObjects(InterruptedObstoreMemory()),
        "S3": lambda: InterruptedObjects(
            InterruptedS3(bucket, prefix=str(next(numbers)), **server.options)
        ),
    }
    return makers[kind]


# What readers see depends on the state alone, which is the same everywhere. How it comes about
# does not: each kind of storage sees creating, replacing and removing, which is one of these.
CHANGE = "change_nodes in all_groups"
ELSEWHERE = [
    CHANGE,
    "create in plain",
    "overwrite in consolidated",
    "append in consolidated",
    "trim in consolidated",
    "edit in mixed",
]
PLACES: dict[str, Iterable[str]] = {"memory": WRITERS}
PLACES |= (
    dict.fromkeys(("directory", "obstore's memory", "S3"), ELSEWHERE)
    if THOROUGH
    else {"directory": [CHANGE], "S3": [CHANGE]}
)
EVERYWHERE = [
    pytest.param(kind, name, id=f"{name}, {kind}")
    for kind, names in PLACES.items()
    for name in names
]


def filled(store: Any, state: State) -> Any:
    """Put what is in another store into one."""
    for key, body in state.items():
        if isinstance(store, InterruptedMemory):
            store._store_dict[key] = BUFFER.from_bytes(body)
        elif isinstance(store, InterruptedObjects):
            store.store.put(key, body)
        else:
            (store.root / key).parent.mkdir(parents=True, exist_ok=True)
            (store.root / key).write_bytes(body)
    return store


def in_memory(state: State) -> InterruptedMemory:
    store = InterruptedMemory()
    filled(store, state)
    return store


# Readers -----------------------------------------------------------------------------------


def snapshot(group: Any) -> Snapshot:
    found: Snapshot = {"": (dict(group.attrs), None)}
    for path, node in group.members(max_depth=None):
        values = np.asarray(node[:]).tolist() if isinstance(node, zarr.Array) else None
        found[path] = (dict(node.attrs), values)
    return found


def opened(store: MemoryStore, use_consolidated: bool | None) -> Any:
    """Open a hierarchy; with None, through consolidated metadata if there are any."""
    try:
        return zarr.open_group(zm.ManifestStore(store), mode="r", use_consolidated=use_consolidated)
    except FileNotFoundError:
        return None


def seen(store: MemoryStore, use_consolidated: bool | None) -> Snapshot | None:
    group = opened(store, use_consolidated)
    return None if group is None else snapshot(group)


def dataset(store: MemoryStore) -> Any:
    try:
        found: Any = xr.open_zarr(zm.ManifestStore(store), chunks=None)
    except FileNotFoundError:
        return None
    values = {name: found[name].to_numpy().tolist() for name in found.variables}
    return dict(found.attrs), values


def values_in(group: Any, path: str) -> list[int] | None:
    """Return the values of an array; None if there is none, or if it is refused."""
    try:
        return list(group[path][:].tolist())
    except (KeyError, ManifestNotFoundError):
        return None


class Readers:
    """What all kinds of readers see of a state, next to the old and the new one."""

    def __init__(self, prepare: Writer, write: Writer) -> None:
        store = InterruptedMemory()
        prepare(store)
        self.old = contents(store)
        write(store)
        self.new = contents(store)
        self._expected = [self._sights(state) for state in (self.old, self.new)]
        self._below = [self._sights_below(state) for state in (self.old, self.new)]
        self._known: dict[frozenset[tuple[str, bytes]], bool] = {}

    def is_new(self, state: State) -> bool:
        """Whether all readers of the root see the new nodes; otherwise, all see the old ones."""
        key = frozenset(state.items())
        if key not in self._known:
            self._known[key] = self._is_new(state)
        return self._known[key]

    def _is_new(self, state: State) -> bool:
        self._check_who_opened_before(state)
        for path, found in self._sights_below(state).items():
            assert found in [expected.get(path) for expected in self._below]
        sights = self._sights(state)
        assert sights in self._expected
        return sights != self._expected[0]

    def _sights(self, state: State) -> list[Any]:
        """What those see that open the hierarchy now, through copies or not."""
        store = in_memory(state)
        sights: list[Any] = [seen(store, None), seen(store, False)]
        # xarray reads as zarr does through copies.
        return [*sights, dataset(store)] if THOROUGH else sights

    def _sights_below(self, state: State) -> dict[str, Snapshot]:
        """What those see that open a group below the root, which has copies of its own."""
        reader = zm.ManifestStore(in_memory(state))
        return {
            path: snapshot(zarr.open_group(reader, path=path, mode="r", use_consolidated=True))
            for path in ("g", "g/h")
            if b"consolidated_metadata" in state.get(f"{path}/zarr.json", b"")
        }

    def _check_who_opened_before(self, state: State) -> None:
        """Arrays that are open stay what they were; those that are opened now are of one state.

        Through copies, all are old. Otherwise, all are old or new, or the last ones are refused;
        unless the root had no copies, which would say of what state the own metadata are.
        """
        (old, *_), (new, *_) = self._expected
        if old is None:
            return
        store = in_memory(self.old)
        paths = [path for path, (_, values) in old.items() if values]
        # Of those that read own metadata, some have opened an array before: by turns, or both.
        ways = (None, False, False) if THOROUGH else (None, False)
        groups = [opened(store, how) for how in ways]
        through_copies = groups[0]
        arrays = [through_copies[path] for path in paths]
        partly = groups[-1] if THOROUGH or len(self._known) % 2 else None
        open_before = None if partly is None else partly[paths[0]]
        store._store_dict.clear()
        filled(store, state)
        for path, array in zip(paths, arrays, strict=True):
            assert array[:].tolist() == old[path][1]
        expected = [{path: each[path][1] for path in paths if path in each} for each in (old, new)]
        for group in groups:
            found = {paths[0]: open_before[:].tolist()} if group is partly else {}
            for path in paths:
                if path in found:
                    continue
                values = values_in(group, path)
                if values is not None:
                    found[path] = values
                    assert values in [each.get(path) for each in expected]
                else:
                    assert path not in new or group is not through_copies
            if b"consolidated_metadata" in self.old["zarr.json"]:
                states = expected[:1] if group is through_copies else expected
                assert any({**each, **found} == each for each in states)


@functools.cache
def readers_of(name: str) -> Readers:
    """The same for all stores, in which a writer leaves the same states."""
    return Readers(*WRITERS[name])


# Interrupted -------------------------------------------------------------------------------


def interrupted(new_store: Make, prepared: State, write: Writer) -> Iterator[tuple[Any, bool]]:
    return every_change(lambda: filled(new_store(), prepared), write)


def write_again(store: Any, write: Writer, *, was_new: bool) -> None:
    try:
        write(store)
    except WriteConflictError:
        # All is there: there is nothing to finish.
        assert write is create
        assert was_new


def adds_what_nobody_names(old: State, new: State) -> bool:
    """Whether there are only more objects, none of which is metadata."""
    added = new.keys() - old.keys()
    return old.items() <= new.items() and not any(key.endswith("zarr.json") for key in added)


def write_another(store: Any) -> None:
    zm.create_array(store, "g/another", entries(1), **CREATION)


@pytest.mark.parametrize(("new_store", "name"), EVERYWHERE, indirect=["new_store"])
def test_a_writer_that_ends_anywhere(new_store: Make, name: str) -> None:
    prepare, write = WRITERS[name]
    readers = readers_of(name)
    outcomes: list[bool] = []
    changed = 0
    for number, (store, is_last) in enumerate(interrupted(new_store, readers.old, write)):
        state = contents(store)
        if adds_what_nobody_names(readers.old, state):
            is_like_others = number % 4 > 0
        else:
            changed += 1
            # All nodes have changed by now; of one after the other, the own metadata follow.
            is_like_others = changed > 2 and changed % 2 == 1 and not is_last
        if is_like_others and not THOROUGH:
            continue
        is_new = readers.is_new(state)
        outcomes.append(is_new)
        assert is_new or not is_last
        if number % 3 == 0 and state:
            zm.recover(store)
            recovered = contents(store)
            assert readers.is_new(recovered) == is_new
            if prepare is not first:
                assert_settled(recovered)
        if number % 3 == 1 and prepare is not first:
            write_another(store)
            assert_settled(contents(store))
            continue
        write_again(store, write, was_new=is_new)
        finished = contents(store)
        assert finished == readers.new
        assert_settled(finished)
    assert outcomes == sorted(outcomes)
    assert len(outcomes) > 1


@pytest.mark.parametrize("name", WRITERS)
def test_writing_the_same_again_changes_no_metadata(name: str) -> None:
    _, write = WRITERS[name]
    written = readers_of(name).new
    store = in_memory(written)
    write_again(store, write, was_new=True)
    assert contents(store) == written
