"""What native arrays and groups cost through a ManifestStore: no more requests than without it.

But metadata are read before they are replaced, and once, all nodes: they may declare a manifest.
"""

from __future__ import annotations

import pickle
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import example, given
from hypothesis import strategies as st
from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore

import zarr_manifest as zm
from tests.counted_requests import Requests
from tests.properties import examples

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


# Before a store replaces metadata for the first time, it looks for manifest arrays.
WALK = Counter(
    [
        *(("list", group) for group in ("", "g", "g/h")),
        *(("get", f"{path}/zarr.json".lstrip("/")) for path in ("", "g", "g/a", "g/b", "g/h")),
        ("get", "g/h/c/zarr.json"),
    ]
)


def replaced(requests: list[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return the reads that come before metadata are replaced, or a chunk is deleted, one each."""
    keys = [
        key for kind, key in requests if kind in ("put", "create") and key.endswith("zarr.json")
    ]
    keys += [
        f"{key.partition('/c/')[0]}/zarr.json"
        for kind, key in requests
        if kind == "delete" and "/c/" in key
    ]
    return Counter(("get", key) for key in keys)


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_more_requests_than_without_but_to_look_for_manifests(name: str) -> None:
    without = made(OPERATIONS[name], lambda store: store)
    more = Counter(made(OPERATIONS[name], zm.ManifestStore))
    more.subtract(without)
    assert min(more.values()) >= 0
    writes = replaced(without)
    assert +(more - writes) <= WALK
    if not writes:
        assert not more.total()


@pytest.mark.slow
@pytest.mark.parametrize("is_consolidated", [False, True])
def test_datasets_are_appended_to(is_consolidated: bool) -> None:
    """xarray has read all nodes by then."""
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

    without = requests(lambda store: store)
    more = Counter(requests(zm.ManifestStore))
    more.subtract(without)
    assert min(more.values()) >= 0
    assert +(more - replaced(without)) <= Counter([("list", "")])


@pytest.mark.slow
@examples(0.5)
@given(st.lists(st.sampled_from(sorted(OPERATIONS)), max_size=4))
@example(["grow", "read"])
def test_one_after_the_other(names: list[str]) -> None:
    """Whatever a store has seen or done before; and the hierarchies end up the same."""

    def run(
        wrap: Callable[[Store], Store],
    ) -> tuple[list[tuple[str, str]], list[type], dict[str, Any]]:
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
        return store.made, refused, contents

    through, without = run(zm.ManifestStore), run(lambda store: store)
    writes = replaced(without[0]).total()
    # A read of chunks that are absent looks at the array's metadata again.
    looks = names.count("read") if "grow" in names else 0
    walk = WALK.total() if writes else 0
    assert 0 <= len(through[0]) - len(without[0]) <= writes + walk + looks
    assert through[1:] == without[1:]


# What must not get lost for it ------------------------------------------------------------


@pytest.fixture
def remote(tmp_path: Path) -> Requests:
    """A store that is not known to be in files."""
    store = Requests(LocalStore(tmp_path))
    write(store)
    return store


@pytest.mark.slow
def test_what_is_not_there_takes_no_memory(remote: Requests, tmp_path: Path) -> None:
    """zarr asks for nodes before it creates them; but no declaration is forgotten for it."""
    zm.write_manifest(tmp_path, "g/b", {"0": {"data": VALUES[:4].tobytes()}}, inline=True)
    store = zm.ManifestStore(remote)
    held = array(store), zarr.open_array(store, path="g/b", mode="r+")
    tracemalloc.start()
    try:
        for number in range(100):
            assert not sync(store.get(f"g/n{number}/zarr.json"))
        before = tracemalloc.get_traced_memory()[0]
        for number in range(100, 300):
            assert not sync(store.get(f"g/n{number}/zarr.json"))
        remote.made.clear()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
    (tmp_path / "g/b/zarr.json").unlink()
    np.testing.assert_array_equal(held[0][:], VALUES)
    with pytest.raises(zm.errors.ManifestNotFoundError):
        pickle.loads(pickle.dumps(store)).get_sync("g/b/c/0")
