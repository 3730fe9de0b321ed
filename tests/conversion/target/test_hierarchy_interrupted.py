"""A writer of a hierarchy that is interrupted anywhere, in the middle of it, or in recovering."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import zarr
from obstore.store import S3Store
from zarr.abc.store import Store
from zarr.storage import ObjectStore

import zarr_manifest as zm
from tests.conversion.inline_nodes import read, streamed, vector
from tests.interrupted_stores import (
    InterruptedDirectory,
    InterruptedMemory,
    copied,
    every_change,
    keys_without_tokens,
)
from tests.servers.s3 import S3Server
from zarr_manifest import conversion
from zarr_manifest.conversion import GroupNode, Node, recover, write_hierarchy
from zarr_manifest.errors import ManifestError, WriteConflictError
from zarr_manifest.format import is_placeholder
from zarr_manifest.writing import guarded_store

pytestmark = [
    pytest.mark.slow,
    # Documents of no array yet.
    pytest.mark.filterwarnings("ignore:Object at .* is not recognized"),
]

type Values = dict[str, list[int]]

OLD: Values = {"g/parts": [4, 5], "gone": [7], "same": [9]}
NEW: Values = {"g/parts": [104], "g/h/new": [8], "same": [9]}
UNFINISHED = "unfinished"


def write(store: Store, values: Values, *, overwrite: bool = False) -> None:
    nodes: list[Node] = [GroupNode("", {"old": values is OLD})]
    for path, numbers in values.items():
        nodes.append((streamed if path == "g/parts" else vector)(path, numbers))
    write_hierarchy(store, nodes, overwrite=overwrite, inline_below=0)


def new(store: Store, *, there: bool) -> None:
    write(store, NEW, overwrite=there)


def contents(store: Store, below: str = "") -> Values | str | None:
    """All arrays below a group, if it can be opened."""
    try:
        group = zarr.open_group(zm.ManifestStore(store), path=below, mode="r")
        arrays = [p for p, node in group.members(None) if isinstance(node, zarr.Array)]
    except FileNotFoundError:
        return None
    except WriteConflictError as error:
        return UNFINISHED if "interrupted" in str(error) else str(error)
    paths = [f"{below}/{path}".lstrip("/") for path in arrays]
    return {path: read(store, path) for path in paths}


def below(values: Values, path: str) -> Values:
    return {name: found for name, found in values.items() if name.startswith(f"{path}/")}


def objects(store: Store) -> dict[str, bytes | None]:
    guarded = guarded_store(store)
    return {key: guarded.read(key).body for key in guarded.keys_below("") or ()}


@pytest.fixture(params=["memory", "directory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[bool], Any]:
    """Makes stores, with an earlier hierarchy or without."""
    numbers = itertools.count()
    is_memory = request.param == "memory"
    nothing = InterruptedMemory() if is_memory else InterruptedDirectory(tmp_path / "nothing")
    old = InterruptedMemory() if is_memory else InterruptedDirectory(tmp_path / "old")
    write(old, OLD)
    return lambda there: copied(old if there else nothing, tmp_path / str(next(numbers)))


def interrupted(make: Callable[[], Any], change: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield stores after every change but the last."""
    return (store for store, is_last in every_change(make, change) if not is_last)


@pytest.mark.parametrize("there", [False, True])
def test_everything_opens_as_old_or_as_new_and_trying_again_works(
    opened: Callable[[bool], Any], there: bool
) -> None:
    def change(store: Any) -> None:
        new(store, there=there)

    complete = opened(there)
    change(complete)
    seen = []
    for store in interrupted(lambda: opened(there), change):
        found = contents(store)
        seen.append("new" if found == NEW else "old" if found in (OLD, None) else found)
        assert (found is None) <= (not there)
        assert contents(store, "g") in (
            None if not there else below(OLD, "g"),
            below(NEW, "g"),
            UNFINISHED,
        )
        # On disk, the lock is removed at the very end.
        has_ended = found == NEW and "zarr.json.unfinished" not in objects(store)
        new(store, there=there or has_ended)
        assert contents(store) == NEW
        assert keys_without_tokens(store) == keys_without_tokens(complete)
        assert zm.validate(store) == []
    order = ["old", UNFINISHED, "new"]
    assert seen == sorted(seen, key=order.index)
    assert UNFINISHED in seen


@pytest.mark.parametrize("how", ["finish", "undo"])
@pytest.mark.parametrize("there", [False, True])
def test_recovery(
    opened: Callable[[bool], Any], there: bool, how: Literal["finish", "undo"]
) -> None:
    complete = opened(there)
    before = objects(complete)
    new(complete, there=there)
    outcomes = []
    for store in interrupted(lambda: opened(there), lambda store: new(store, there=there)):
        untouched = contents(store)
        try:
            recovered = recover(store, how)
        except WriteConflictError:
            assert (how, contents(store), there) == ("undo", NEW, True)
            with pytest.raises(WriteConflictError, match="too late to undo"):
                recover(store, how)
            recover(store, "finish")
            assert contents(store) == NEW
            continue
        if recovered is None and untouched == NEW:
            continue  # On disk, the lock is removed at the very end.
        outcomes.append(recovered is not None)
        if recovered is None:
            assert contents(store) == untouched
        elif how == "finish":
            assert contents(store) == NEW
            assert keys_without_tokens(store) == keys_without_tokens(complete)
        else:
            assert objects(store) == before
        assert recover(store, how) is None
    assert outcomes == sorted(outcomes)
    assert outcomes[-1]


@pytest.mark.parametrize("there", [False, True])
def test_recovery_that_is_interrupted_itself(there: bool) -> None:
    original = InterruptedMemory()
    if there:
        write(original, OLD)

    def unfinished() -> Any:
        return InterruptedMemory(dict(original._store_dict))

    (state,) = [
        s
        for s in interrupted(unfinished, lambda store: new(store, there=there))
        if contents(s) == UNFINISHED
    ][5:6]

    def copy() -> Any:
        return InterruptedMemory(dict(state._store_dict))

    expected = {"finish": NEW, "undo": OLD if there else None}
    for how, again in itertools.product(("finish", "undo"), repeat=2):
        for store in interrupted(copy, lambda store: recover(store, how)):  # noqa: B023
            assert contents(store) in (OLD if there else None, NEW, UNFINISHED)
            try:
                recover(store, again)
            except WriteConflictError:
                with pytest.raises(WriteConflictError, match="too late"):
                    recover(store, again)
                recover(store, how)
                assert contents(store) == expected[how]
            else:
                assert contents(store) in (expected[again], expected[how])
            assert recover(store, again) is None
            assert "zarr.json.unfinished" not in store._store_dict


@functools.cache
def half_written_objects() -> dict[str, Any]:
    original = InterruptedMemory()
    write(original, OLD)

    def make() -> Any:
        return InterruptedMemory(dict(original._store_dict))

    found = list(interrupted(make, lambda store: new(store, there=True)))
    closed = [store for store in found if is_placeholder(objects(store).get("g/zarr.json"))]
    return closed[-1]._store_dict  # type: ignore[no-any-return]


def half_written() -> Any:
    """A store in which even the inner group is closed."""
    return InterruptedMemory(dict(half_written_objects()))


# zarr does not expect an error of the store while it looks for parents.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("wrapped", [True, False], ids=["with us", "with zarr alone"])
@pytest.mark.parametrize("mode", ["r", "r+", "a", "w-"])
def test_nobody_opens_it_or_hides_it(mode: Any, wrapped: bool) -> None:
    store = half_written()
    before = dict(store._store_dict)
    for path in ("", "g", "g/new"):
        for function in (zarr.open, zarr.open_group, zarr.create_group):
            place: Any = zm.ManifestStore(store) if wrapped else store
            options = {} if function is zarr.create_group else {"mode": mode}
            with pytest.raises(Exception) as raised:  # noqa: PT011
                function(place, path=path, **options)
            told = isinstance(raised.value, ManifestError)
            assert told or not wrapped or mode == "w-" or path == "g/new", (path, raised.value)
    assert store._store_dict == before
    gc.collect()  # coroutines


@pytest.mark.parametrize("options", [{"mode": "w"}, {"overwrite": True}])
def test_nobody_overwrites_it_but_who_can_recover_it(options: Any) -> None:
    store = half_written()
    before = dict(store._store_dict)
    function: Any = zarr.create_group if "overwrite" in options else zarr.open_group
    with pytest.raises(WriteConflictError, match="interrupted"):
        function(zm.ManifestStore(store), **options)
    assert store._store_dict == before
    recover(store, "undo")
    function(zm.ManifestStore(store), **options)
    assert contents(store) == {}


@pytest.mark.parametrize("kind", ["memory", "directory", "S3"])
def test_two_writers(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    store: Any = {"memory": zarr.storage.MemoryStore(), "directory": tmp_path}.get(kind)
    if store is None:
        server: S3Server = request.getfixturevalue("s3_server")
        bucket: str = request.getfixturevalue("s3_bucket")
        store = ObjectStore(S3Store.from_url(f"s3://{bucket}/h", **server.options))
    write_hierarchy(store, [vector("a", [0]), vector("g/b", [0])], inline_below=0)
    meeting = threading.Barrier(3)
    outcomes: dict[int, Exception | None] = {}

    def run(writer: int) -> None:
        def nodes() -> Iterator[Node]:
            yield from [vector("a", [writer]), vector("g/b", [writer])]
            meeting.wait()

        try:
            write_hierarchy(store, nodes(), overwrite=True, inline_below=0)
            outcomes[writer] = None
        except Exception as error:
            outcomes[writer] = error

    threads = [threading.Thread(target=run, args=(writer,)) for writer in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [writer for writer, error in outcomes.items() if error is None]
    assert [type(e) for e in outcomes.values() if e is not None] == [WriteConflictError] * 2
    assert (read(store, "a"), read(store, "g/b")) == ([winner], [winner])
    assert zm.validate(store) == []
    guarded = guarded_store(store if isinstance(store, Store) else zarr.storage.LocalStore(store))
    assert len(guarded.keys_below("") or ()) == 6


class Overtaken(zarr.storage.MemoryStore):
    """Somebody undoes, or finishes, what is being written, while it is being written."""

    how: Any = None
    has_begun = False

    async def set(self, key: str, *args: Any, **options: Any) -> None:
        await super().set(key, *args, **options)
        self.has_begun |= key == "g/a/zarr.json"

    async def get(self, *args: Any, **options: Any) -> Any:
        # Not while it is written: the writer holds a lock then.
        if self.how and self.has_begun:
            how, self.how = self.how, None
            await asyncio.to_thread(recover, zarr.storage.MemoryStore(self._store_dict), how)
        return await super().get(*args, **options)


@pytest.mark.parametrize("how", ["finish", "undo"])
def test_a_writer_that_is_taken_for_interrupted(how: str) -> None:
    """It is told, and its nodes are not mixed with others."""
    store = Overtaken()
    paths = ["g/a", "g/b", "h/c"]
    write_hierarchy(store, [vector(path, [0]) for path in paths], inline_below=0)
    store.how, store.has_begun = how, False
    with pytest.raises(WriteConflictError, match="another writer"):
        write_hierarchy(
            store, [vector(path, [1]) for path in paths], overwrite=True, inline_below=0
        )
    assert [read(store, path) for path in paths] == [[int(how == "finish")]] * 3
    assert len(zarr.open_group(zm.ManifestStore(store), mode="r")) == 2
    assert zm.validate(store) == []
    assert len(keys_without_tokens(store)) == 9


def test_a_group_that_was_open_cannot_be_written() -> None:
    store = InterruptedMemory()
    write(store, OLD)
    group = zarr.open_group(zm.ManifestStore(store))
    broken = half_written()
    store._store_dict.clear()
    store._store_dict.update(broken._store_dict)
    with pytest.raises(WriteConflictError, match="interrupted"):
        group.attrs["x"] = 1
    assert contents(store) == UNFINISHED


def test_whoever_inspects_or_exports_it_is_told(tmp_path: Path) -> None:
    store = half_written()
    (problem,) = zm.validate(store)
    assert (problem.code, problem.array) == ("write_conflict", "")
    assert "zarr_manifest.conversion.recover(" in problem.message
    for inspect in (
        lambda: zm.contents(store),
        lambda: zm.ManifestStore(store).locations(),
        lambda: conversion.export_kerchunk_json(store, tmp_path / "r.json"),
        lambda: conversion.upgrade(store),
        lambda: zm.create_array(store, "x", {}, shape=1, chunks=1, dtype="u1", inline=False),
    ):
        with pytest.raises(WriteConflictError, match="interrupted"):
            inspect()


def test_an_earlier_hierarchy_is_only_replaced_if_told() -> None:
    store = half_written()
    before = dict(store._store_dict)
    with pytest.raises(WriteConflictError, match="overwrite=True"):
        new(store, there=False)
    assert store._store_dict == before


class Full(zarr.storage.MemoryStore):
    """No space is left for one of the nodes."""

    full = False

    async def set(self, key: str, *args: Any, **options: Any) -> None:
        if key == "g/parts/zarr.json" and self.full:
            self.full = False
            raise OSError(28, "No space left on device")
        await super().set(key, *args, **options)


def test_a_failure_is_undone_at_once() -> None:
    store = Full()
    write(store, OLD)
    before = dict(store._store_dict)
    store.full = True
    with pytest.raises(OSError, match="No space"):
        new(store, there=True)
    assert store._store_dict == before


def test_the_journal_of_an_interrupted_writer_is_lost() -> None:
    store = half_written()
    del store._store_dict["zarr.json.unfinished"]
    with pytest.raises(WriteConflictError, match="is missing"):
        recover(store, "finish")
    new(store, there=True)
    assert contents(store) == NEW


def test_another_edits_what_is_half_written() -> None:
    store = half_written()
    array = zarr.open_array(zm.ManifestStore(store), path="same")
    array.attrs["x"] = 1
    array = zarr.open_array(zm.ManifestStore(store), path="g/parts")
    array.attrs["x"] = 1
    with pytest.raises(WriteConflictError, match="Its version was kept") as raised:
        recover(store, "finish")
    assert raised.value.array == "g/parts"
    recover(store, "undo")
    assert contents(store) == {**OLD, "g/parts": NEW["g/parts"]}


def test_not_a_journal(tmp_path: Path) -> None:
    (tmp_path / "zarr.json.unfinished").write_text("This hierarchy is being written.\n")
    with pytest.raises(ManifestError, match="is not the journal"):
        recover(tmp_path, "finish")
    with pytest.raises(ValueError, match="how must be"):
        recover(tmp_path, "neither")  # type: ignore[arg-type]
    with pytest.raises(ManifestError, match="there is no Zarr hierarchy"):
        recover(tmp_path / "nowhere", "undo")
