"""Native arrays and groups cost no more requests through a ManifestStore than without it.

What is counted is what a store in a bucket would be asked: of files and of memory, metadata are
read again before they are replaced.
"""

from __future__ import annotations

import pickle
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import obstore.store
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.counted_requests import Requests
from tests.hierarchies import declared, read
from tests.servers.s3 import S3Server
from zarr_manifest.hierarchy import node_table

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
VALUES = np.arange(1, 7, dtype="f4")


def write(store: Store) -> None:
    """A group "g" with native arrays "a" and "b", and one below a group in it."""
    root = zarr.create_group(store)
    for path in ("g/a", "g/b", "g/h/c"):
        array = root.create_array(
            path, shape=6, chunks=4, dtype="f4", compressors=None, dimension_names=["t"]
        )
        array[:] = VALUES


def array(store: Store) -> Any:
    return zarr.open_array(store, path="g/a", mode="r+")


def group(store: Store, path: str = "g") -> Any:
    return zarr.open_group(store, path=path, mode="r+")


def consolidated(store: Store) -> Any:
    zarr.consolidate_metadata(store)
    return zarr.open_consolidated(store, mode="r+")


async def _collect(keys: Any) -> list[str]:
    return [key async for key in keys]


type Operation = tuple[Callable[[Store], Any], Callable[[Any], object]]
"""What comes before, of which the result is operated on; and the operation."""

OPERATIONS: dict[str, Operation] = {
    "create a group": (group, lambda g: g.create_group("new")),
    "create nested groups": (group, lambda g: g.create_group("new/newer")),
    "require a group": (group, lambda g: g.require_group("h")),
    "create an array": (group, lambda g: g.create_array("new", shape=4, chunks=2, dtype="f4")),
    "create a nested array": (
        group,
        lambda g: g.create_array("new/x", shape=4, chunks=2, dtype="f4"),
    ),
    "create an array by its path": (
        lambda store: store,
        lambda store: zarr.create_array(store, name="n/x", shape=4, chunks=2, dtype="f4"),
    ),
    "append": (array, lambda a: a.append(VALUES)),
    "append again": (array, lambda a: [a.append(VALUES) for _ in range(3)]),
    "open and append": (lambda store: store, lambda store: array(store).append(VALUES)),
    "open a group and append": (
        lambda store: store,
        lambda store: group(store)["a"].append(VALUES),
    ),
    "grow": (array, lambda a: a.resize(40)),
    "shrink": (array, lambda a: a.resize(2)),
    "attributes of an array": (array, lambda a: a.attrs.update(units="K")),
    "attributes of a group": (group, lambda g: g.attrs.update(title="t")),
    "attributes of the root": (lambda store: group(store, ""), lambda g: g.attrs.update(a=1)),
    "attributes of consolidated metadata": (consolidated, lambda g: g.attrs.update(a=1)),
    "read consolidated": (consolidated, lambda g: g["g/h/c"][:]),
    "consolidate": (lambda store: store, zarr.consolidate_metadata),
    "members": (group, lambda g: list(g.members(max_depth=None))),
    "read": (array, lambda a: a[:]),
    "write chunks": (array, lambda a: a.__setitem__(slice(None), 1)),
    "write part of a chunk": (array, lambda a: a.__setitem__(1, 1)),
    "list a group": (group, lambda g: sync(_collect(g.store.list_dir("g")))),
}


def made(operation: Operation, wrap: Callable[[Store], Store]) -> list[tuple[str, str]]:
    store = Requests(MemoryStore())
    write(store)
    before, operate = operation
    prepared = before(wrap(store))
    store.made.clear()
    operate(prepared)
    return sorted(store.made)


# A manifest array beside an array that grows must be known: each group is listed once for that.
GROWTH = {"append", "append again", "open and append", "open a group and append", "grow"}
MEETING = [("list", "g"), *(("get", f"g/{name}/zarr.json") for name in "abh")]


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_more_requests_than_without(name: str) -> None:
    more = MEETING if name in GROWTH else []
    without = made(OPERATIONS[name], lambda store: store)
    assert made(OPERATIONS[name], zm.ManifestStore) == sorted(without + more)


def test_without_names_of_dimensions_growing_costs_nothing() -> None:
    def requests(wrap: Callable[[Store], Store]) -> list[tuple[str, str]]:
        store = Requests(MemoryStore())
        zarr.create_array(store, name="x", data=VALUES)
        store.made.clear()
        zarr.open_array(wrap(store), path="x", mode="r+").append(VALUES)
        return sorted(store.made)

    assert requests(zm.ManifestStore) == requests(lambda store: store)


def test_metadata_known_from_a_group_alone_are_read_before_they_are_replaced() -> None:
    """They may declare a manifest that the copy in the group lacks."""
    store = Requests(MemoryStore())
    write(store)
    zarr.consolidate_metadata(store)
    known: Any = zarr.open_consolidated(zm.ManifestStore(store), mode="r+")["g/a"]
    store.made.clear()
    for _ in range(2):
        known.attrs["units"] = "K"
    assert store.numbers() == {"get": 1, "put": 2}


@pytest.mark.parametrize("is_consolidated", [False, True])
def test_datasets_are_appended_to(is_consolidated: bool) -> None:
    data = xr.Dataset({"v": (("t", "x"), np.ones((4, 3)))}, {"t": range(4), "x": range(3)})

    def requests(wrap: Callable[[Store], Store]) -> list[tuple[str, str]]:
        store = Requests(MemoryStore())
        data.to_zarr(store, consolidated=is_consolidated)
        store.made.clear()
        later: Any = wrap(store)
        data.assign_coords(t=range(4, 8)).to_zarr(
            later, append_dim="t", consolidated=is_consolidated
        )
        return sorted(store.made)

    through, without = Counter(requests(zm.ManifestStore)), Counter(requests(lambda store: store))
    # One variable is read again, and the group is listed; xarray has read the others.
    assert sorted(kind for kind, _ in (through - without).elements()) == ["get", "list"]
    assert without <= through


def test_of_a_bucket(s3_server: S3Server, s3_bucket: str) -> None:
    def requests(path: str, wrap: Callable[[Store], Store]) -> list[str]:
        url = f"s3://{s3_bucket}/{path}"
        store = ObjectStore(obstore.store.S3Store.from_url(url, **s3_server.options))
        write(store)
        s3_server.clear()
        array(wrap(store)).append(VALUES)
        return sorted(f"{r.method} {r.path.replace(path, '')}" for r in s3_server.requests)

    through = Counter(requests("through", zm.ManifestStore))
    through.subtract(requests("without", lambda store: store))
    assert through.total() == len(MEETING)
    assert min(through.values()) == 0


@pytest.mark.slow
@given(st.lists(st.sampled_from(sorted(OPERATIONS)), max_size=4))
def test_one_after_the_other(names: list[str]) -> None:
    """Whatever a store has seen or done before; and the hierarchies end up the same."""

    def run(wrap: Callable[[Store], Store]) -> tuple[int, list[type], dict[str, Any]]:
        memory = MemoryStore()
        store = Requests(memory)
        write(store)
        outer = wrap(store)
        store.made.clear()
        refused: list[type] = []
        for name in names:
            before, operate = OPERATIONS[name]
            try:
                operate(before(outer))
            except ValueError as error:  # there is another node at, or above, its path
                refused.append(type(error))
        contents = {k: v.to_bytes() for k, v in memory._store_dict.items()}
        return len(store.made), refused, contents

    through, without = run(zm.ManifestStore), run(lambda store: store)
    # What was created before is a member that has to be met, too.
    more = len(MEETING) + len(names) if GROWTH.intersection(names) else 0
    # The shape of an array that only consolidated metadata told of is read before it may grow.
    more += len(names) if "read consolidated" in names else 0
    assert 0 <= through[0] - without[0] <= more
    assert through[1:] == without[1:]


# What must not get lost for it ------------------------------------------------------------


@pytest.fixture
def remote(tmp_path: Path) -> Requests:
    """A store that is not known to be in files."""
    store = Requests(LocalStore(tmp_path))
    write(store)
    return store


def test_a_manifest_written_past_the_store_in_this_process(
    remote: Requests, tmp_path: Path
) -> None:
    old = array(zm.ManifestStore(remote))
    zm.write_manifest(tmp_path, "g/a", {"0": {"data": VALUES[:4].tobytes()}}, inline=True)
    old.attrs["units"] = "K"
    assert declared(tmp_path, "g/a")
    np.testing.assert_array_equal(read(zm.ManifestStore(tmp_path), "g/a")[:4], VALUES[:4])


def test_a_manifest_that_another_process_wrote_a_while_ago(
    remote: Requests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = array(zm.ManifestStore(remote))
    written = node_table._written_past[0]
    zm.write_manifest(tmp_path, "g/a", {"0": {"data": VALUES[:4].tobytes()}}, inline=True)
    monkeypatch.setattr(node_table, "_written_past", [written])
    monkeypatch.setattr(node_table, "_A_MOMENT", 0)
    old.attrs["units"] = "K"
    assert declared(tmp_path, "g/a")


@pytest.mark.parametrize(
    "kind", [LocalStore, lambda path: ObjectStore(obstore.store.LocalStore(path))]
)
def test_files_are_always_read_again(
    kind: Callable[[Path], Store], remote: Requests, tmp_path: Path, monkeypatch: Any
) -> None:
    old = array(zm.ManifestStore(kind(tmp_path)))
    written = node_table._written_past[0]
    zm.write_manifest(tmp_path, "g/a", {"0": {"data": VALUES[:4].tobytes()}}, inline=True)
    monkeypatch.setattr(node_table, "_written_past", [written])
    old.attrs["units"] = "K"
    assert declared(tmp_path, "g/a")


def test_arrays_beside_manifest_arrays_do_not_grow(remote: Requests, tmp_path: Path) -> None:
    """The check needs the metadata as stored, whatever was seen of them."""
    zm.write_manifest(tmp_path, "g/b", {"0": {"data": VALUES[:4].tobytes()}}, inline=True)
    store = zm.ManifestStore(remote)
    zarr.open_array(store, path="g/b", mode="r+")
    with pytest.raises(zm.errors.ReadOnlyError, match="cannot grow along 't'"):
        array(store).append(VALUES)


class Failing(Requests):
    """Fails for one key."""

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        if key == "g/b/zarr.json":
            raise zm.errors.SourceError("the store failed")
        return await super().get(key, prototype, byte_range)


def test_arrays_beside_others_that_cannot_be_read_do_not_grow(tmp_path: Path) -> None:
    """They may be manifest arrays; but not if there is nothing to open."""
    write(LocalStore(tmp_path))
    with pytest.raises(zm.errors.SourceError, match="the store failed"):
        array(zm.ManifestStore(Failing(LocalStore(tmp_path)))).append(VALUES)
    (tmp_path / "g/b/zarr.json").write_bytes(b"{")
    array(zm.ManifestStore(Requests(LocalStore(tmp_path)))).append(VALUES)
    np.testing.assert_array_equal(read(zm.ManifestStore(tmp_path), "g/a")[6:], VALUES)


@pytest.mark.slow
def test_what_is_not_there_takes_bounded_memory(
    remote: Requests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """zarr asks for nodes before it creates them; but no declaration is forgotten for it."""
    monkeypatch.setattr(node_table, "_MOST_STATES", 100)
    zm.write_manifest(tmp_path, "g/b", {"0": {"data": VALUES[:4].tobytes()}}, inline=True)
    store = zm.ManifestStore(remote)
    held = array(store), zarr.open_array(store, path="g/b", mode="r+")
    tracemalloc.start()
    try:
        for number in range(200):
            assert not sync(store.get(f"g/n{number}/zarr.json"))
        before = tracemalloc.get_traced_memory()[0]
        for number in range(200, 600):
            assert not sync(store.get(f"g/n{number}/zarr.json"))
        remote.made.clear()
        assert tracemalloc.get_traced_memory()[0] - before < 40_000
    finally:
        tracemalloc.stop()
    (tmp_path / "g/b/zarr.json").unlink()
    np.testing.assert_array_equal(held[0][:], VALUES)
    with pytest.raises(zm.errors.ManifestNotFoundError):
        pickle.loads(pickle.dumps(store)).get_sync("g/b/c/0")
