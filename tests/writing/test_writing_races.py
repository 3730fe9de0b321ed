"""Writers at the same time: of different arrays, all succeed; of the same one, one wins."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zarr
from obstore.store import LocalStore as ObstoreLocalStore
from obstore.store import S3Store
from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore, WrapperStore

import zarr_manifest as zm
from tests.combinations import combinations
from tests.processes import CONTEXT
from tests.servers.s3 import S3Server
from tests.settled import assert_settled, settled_attributes, stored
from zarr_manifest import conversion
from zarr_manifest.errors import SourceAccessDeniedError, WriteConflictError
from zarr_manifest.sources import OwnFiles
from zarr_manifest.writing import Change, Stored, guarded_store

pytestmark = pytest.mark.slow

WRITERS = 4
CREATION: dict[str, Any] = {"shape": 3, "chunks": 1, "dtype": "u1", "compressors": None}
OPTIONS: dict[str, dict[str, Any]] = {
    "whole": {},
    "partitioned": {"partition_shape": [1]},
    "inline": {"inline": True},
}

type Kind = str
type Meet = Callable[[], Any]


class Meeting(dict[Any, Any]):
    """Entries that are looked at after the metadata was read; all writers wait for each other."""

    meet: Meet

    def items(self) -> Any:
        self.meet()
        return super().items()


def entries(writer: int, meet: Meet) -> Meeting:
    meeting = Meeting({(i,): {"data": bytes([10 * writer + i])} for i in range(3)})
    meeting.meet = meet
    return meeting


def values(writer: int) -> list[int]:
    return [10 * writer + i for i in range(3)]


@pytest.fixture
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Opens the same place again and again."""
    kind: Kind = request.param
    inside = MemoryStore()
    if kind == "S3":
        server: S3Server = request.getfixturevalue("s3_server")
        bucket: str = request.getfixturevalue("s3_bucket")
    makers: dict[Kind, Callable[[], Store]] = {
        "directory": lambda: LocalStore(tmp_path),
        "obstore's directory": lambda: ObjectStore(ObstoreLocalStore(tmp_path)),
        "memory": lambda: inside,
        "memory of the same dictionary": lambda: MemoryStore(inside._store_dict),
        "S3": lambda: ObjectStore(S3Store.from_url(f"s3://{bucket}/h", **server.options)),
    }
    return makers[kind]


# Not obstore's MemoryStore (seen in 0.9.1): whoever removes an object holds its lock and waits for
# Python's, while whoever begins to list holds Python's and waits for its lock.
KINDS = [
    "directory",
    "obstore's directory",
    "memory",
    "memory of the same dictionary",
    "S3",
]
# In S3, processes race, too: threads prove little more, and each request takes 2 ms.
EVERYWHERE = pytest.mark.parametrize(
    "new_store", combinations(KINDS, besides=KINDS[:-1]), indirect=True
)


def race(write: Callable[[int], None], count: int = WRITERS) -> dict[int, Exception | None]:
    """Run writers in threads, and return what each raised."""
    outcome: dict[int, Exception | None] = {}

    def run(writer: int) -> None:
        try:
            write(writer)
            outcome[writer] = None
        except Exception as error:
            outcome[writer] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(1, count + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome


def winner_of(outcome: dict[int, Exception | None]) -> int:
    winners = [writer for writer, error in outcome.items() if error is None]
    losers = [error for error in outcome.values() if error is not None]
    assert [type(error) for error in losers] == [WriteConflictError] * (len(outcome) - 1)
    assert all(isinstance(e, WriteConflictError) and e.array == "a" for e in losers)
    (winner,) = winners
    return winner


@EVERYWHERE
@pytest.mark.parametrize(
    "case",
    combinations(
        [*(f"native, {form}" for form in OPTIONS), "manifest, partitioned"],
        besides=["manifest, partitioned"],
    ),
)
def test_one_of_many_wins(new_store: Callable[[], Store], case: str) -> None:
    before, form = case.split(", ")
    options = OPTIONS[form]
    zarr.create_array(new_store(), name="a", **CREATION)
    if before == "manifest":
        zm.write_manifest(new_store(), "a", {"0": {}}, partition_shape=[2])
    meeting = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        zm.write_manifest(
            new_store(), "a", entries(writer, meeting.wait), **{"inline": False, **options}
        )

    winner = winner_of(race(write))
    array = zarr.open_array(zm.ManifestStore(new_store()), path="a", mode="r")
    assert array[:].tolist() == values(winner)
    assert zm.validate(new_store()) == []


def test_a_writer_that_looks_leaves_what_another_creates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creating takes no lock: its partial file is not that of a killed writer."""
    link = os.link

    def look_and_link(*arguments: Any, **options: Any) -> None:
        guarded_store(LocalStore(tmp_path)).read("a/zarr.json")
        link(*arguments, **options)

    monkeypatch.setattr(os, "link", look_and_link)
    zm.create_array(LocalStore(tmp_path), "a", {"0": {}}, **CREATION)
    assert zm.validate(tmp_path) == []


@EVERYWHERE
def test_one_of_many_creates(new_store: Callable[[], Store]) -> None:
    meeting = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        zm.create_array(new_store(), "a", entries(writer, meeting.wait), **CREATION, inline=False)

    winner = winner_of(race(write))
    array = zarr.open_array(zm.ManifestStore(new_store()), path="a", mode="r")
    assert array[:].tolist() == values(winner)


@EVERYWHERE
def test_an_edit_in_between_is_not_lost(new_store: Callable[[], Store]) -> None:
    zarr.create_array(new_store(), name="a", **CREATION)

    def edit() -> None:
        store = zm.ManifestStore(new_store())
        zarr.open_array(store, path="a").attrs["edited"] = True

    with pytest.raises(WriteConflictError, match="another writer") as raised:
        zm.write_manifest(new_store(), "a", entries(1, edit), inline=False)
    assert raised.value.array == "a"
    array = zarr.open_array(zm.ManifestStore(new_store()), path="a", mode="r")
    assert dict(array.attrs) == {"edited": True}
    assert array[:].tolist() == [0, 0, 0]


@EVERYWHERE
def test_writers_of_the_same_do_not_disturb_each_other(new_store: Callable[[], Store]) -> None:
    zarr.create_array(new_store(), name="a", **CREATION)
    zm.write_manifest(new_store(), "a", entries(1, lambda: None), inline=False)
    meeting = threading.Barrier(2)

    def write(_: int) -> None:
        zm.write_manifest(new_store(), "a", entries(1, meeting.wait), inline=False)

    assert race(write, 2) == {1: None, 2: None}
    array = zarr.open_array(zm.ManifestStore(new_store()), path="a", mode="r")
    assert array[:].tolist() == values(1)


def new_hierarchy(store: Store, number: int) -> list[str]:
    """Create arrays in two groups, with consolidated metadata, and return their paths."""
    zarr.create_group(store)
    zarr.create_group(store, path="g")
    paths = [f"g/{i}" if i % 2 else f"{i}" for i in range(1, number + 1)]
    for path in paths:
        zarr.create_array(store, name=path, **CREATION)
    for path in ("g", ""):
        with pytest.warns(UserWarning, match="onsolidated"):
            zarr.consolidate_metadata(store, path=path)
    return paths


def assert_all_written(store: Store, paths: list[str]) -> None:
    assert_settled(stored(store))
    for consolidated in (True, False):
        root = zarr.open_group(zm.ManifestStore(store), mode="r", use_consolidated=consolidated)
        for writer, path in enumerate(paths, 1):
            array: Any = root[path]
            assert array[:].tolist() == values(writer)


@EVERYWHERE
def test_writers_of_different_arrays(new_store: Callable[[], Store]) -> None:
    """All succeed, whoever comes first, and no copy of any array is lost."""
    paths = new_hierarchy(new_store(), WRITERS)
    meeting = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        chunks = entries(writer, meeting.wait)
        zm.write_manifest(new_store(), paths[writer - 1], chunks, inline=False)

    assert set(race(write).values()) == {None}
    assert_all_written(new_store(), paths)


@EVERYWHERE
def test_new_arrays_in_a_new_group(new_store: Callable[[], Store]) -> None:
    new_hierarchy(new_store(), 1)
    meeting = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        chunks = entries(writer, meeting.wait)
        zm.create_array(new_store(), f"new/{writer}", chunks, **CREATION)

    assert set(race(write).values()) == {None}
    assert_settled(stored(new_store()))
    group = zarr.open_group(zm.ManifestStore(new_store()), path="new", mode="r")
    found = {path: array[:].tolist() for path, array in group.arrays()}
    assert found == {str(writer): values(writer) for writer in range(1, WRITERS + 1)}


@pytest.mark.parametrize(
    "new_store",
    [
        *combinations(KINDS[:-1], besides=["directory", "memory"]),
        # Hundreds of requests: in the thorough tier only.
        pytest.param("S3", marks=[pytest.mark.combinations] * 2),
    ],
    indirect=True,
)
def test_writers_beside_those_who_recover(new_store: Callable[[], Store]) -> None:
    paths = new_hierarchy(new_store(), WRITERS)
    has_ended = threading.Event()

    def act(writer: int) -> None:
        if writer > WRITERS:
            while not has_ended.wait(0.001):  # seconds in which others write
                zm.recover(new_store())
            return
        try:
            for shift in (writer + 1, writer):
                zm.write_manifest(new_store(), paths[writer - 1], entries(shift, lambda: None))
        finally:
            if writer == 1:
                has_ended.set()

    assert set(race(act, WRITERS + 1).values()) == {None}
    assert_all_written(new_store(), paths)


@EVERYWHERE
def test_many_writers_of_many_nodes(new_store: Callable[[], Store]) -> None:
    """Of two changes that have nodes in common, one is refused as a whole."""
    paths = new_hierarchy(new_store(), 4)
    meeting = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        change = Change(guarded_store(new_store()))
        nodes = {path: change.node(path) or {} for path in paths}
        meeting.wait()
        for path, node in nodes.items():
            change.set(path, {**node, "attributes": {"writer": writer}})
        change.commit()

    outcome = race(write)
    (winner,) = (writer for writer, error in outcome.items() if error is None)
    losers = [error for error in outcome.values() if error is not None]
    assert all(isinstance(error, WriteConflictError) for error in losers)
    found = settled_attributes(stored(new_store()))
    assert {path: found[path] for path in paths} == {path: {"writer": winner} for path in paths}


# Processes ------------------------------------------------------------------------------

type Place = tuple[str, dict[str, Any]]
"""A directory; or the URL of a bucket, and how it is opened."""


def store_at(place: Place) -> Store:
    where, options = place
    return ObjectStore(S3Store.from_url(where, **options)) if options else LocalStore(where)


def write_in_process(place: Place, path: str, writer: int, meeting: Any, answers: Any) -> None:
    def meet() -> None:
        meeting.wait(60)

    try:
        zm.write_manifest(store_at(place), path, entries(writer, meet), inline=False)
    except WriteConflictError as error:
        answers.put((writer, error.array))
    else:
        answers.put((writer, None))


def race_of_processes(place: Place, paths: list[str]) -> dict[int, str | None]:
    """Let a process write each of the arrays, and return which were refused."""
    answers, meeting = CONTEXT.SimpleQueue(), CONTEXT.Barrier(len(paths))
    processes = [
        CONTEXT.Process(
            target=write_in_process,
            args=(place, path, writer, meeting, answers),
        )
        for writer, path in enumerate(paths, 1)
    ]
    for process in processes:
        process.start()
    outcome = dict(answers.get() for _ in processes)
    for process in processes:
        process.join()
    return outcome


@pytest.fixture(params=["directory", "S3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "directory":
        return str(tmp_path), {}
    server: S3Server = request.getfixturevalue("s3_server")
    bucket: str = request.getfixturevalue("s3_bucket")
    return f"s3://{bucket}/h", server.options


def test_processes_that_write_different_arrays(place: Place) -> None:
    paths = new_hierarchy(store_at(place), WRITERS)
    assert set(race_of_processes(place, paths).values()) == {None}
    assert_all_written(store_at(place), paths)


def test_processes_that_write_the_same_array(place: Place) -> None:
    zarr.create_array(store_at(place), name="a", **CREATION)
    outcome = race_of_processes(place, ["a"] * 3)
    assert sorted(outcome.values(), key=str) == [None, "a", "a"]
    winner = next(writer for writer, refused in outcome.items() if refused is None)
    array = zarr.open_array(zm.ManifestStore(store_at(place)), path="a", mode="r")
    assert array[:].tolist() == values(winner)


# Locks ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
def test_a_lock_that_another_holds(tmp_path: Path) -> None:
    zarr.create_array(tmp_path, name="a", **CREATION)
    lock = tmp_path / "a" / "zarr.json.lock"
    with OwnFiles(str(tmp_path)).locked("a/zarr.json"):
        with pytest.raises(WriteConflictError) as raised:
            zm.write_manifest(tmp_path, "a", entries(1, lambda: None), inline=False)
        assert f"process {os.getpid()} on " in str(raised.value)
        assert lock.exists()
    assert not lock.exists()
    zm.write_manifest(tmp_path, "a", entries(1, lambda: None), inline=False)
    assert not lock.exists()


def test_a_lock_that_was_left_behind(tmp_path: Path) -> None:
    """The system takes it away from a process that ends."""
    zarr.create_array(tmp_path, name="a", **CREATION)
    lock = tmp_path / "a" / "zarr.json.lock"
    lock.write_text("process 7 on elsewhere\n")
    zm.write_manifest(tmp_path, "a", entries(1, lambda: None), inline=False)
    assert not lock.exists()


def test_a_lock_that_is_held_for_a_moment(tmp_path: Path) -> None:
    zarr.create_array(tmp_path, name="a", **CREATION)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with OwnFiles(str(tmp_path)).locked("a/zarr.json"):
            held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    threading.Timer(0.1, release.set).start()
    zm.write_manifest(tmp_path, "a", entries(1, lambda: None), inline=False)
    assert release.is_set()
    holder.join()


# Stores that cannot tell ----------------------------------------------------------------


def test_stores_that_cannot_tell_need_a_promise() -> None:
    pytest.importorskip("fsspec")
    numbers = itertools.count()
    for store in (
        FsspecStore.from_url(f"memory://race-{next(numbers)}"),
        WrapperStore(MemoryStore()),
    ):
        zarr.create_array(store, name="a", **CREATION)
        with pytest.raises(WriteConflictError, match="sole_writer=True"):
            zm.write_manifest(store, "a", entries(1, lambda: None), inline=False)
        for options in OPTIONS.values():
            zm.write_manifest(
                store,
                "a",
                entries(1, lambda: None),
                sole_writer=True,
                **{"inline": False, **options},
            )
            array = zarr.open_array(zm.ManifestStore(store), path="a", mode="r")
            assert array[:].tolist() == values(1)


def test_a_service_without_conditions(s3_server: S3Server, s3_bucket: str) -> None:
    url = f"s3://{s3_bucket}/h"
    zarr.create_array(ObjectStore(S3Store.from_url(url, **s3_server.options)), name="a", **CREATION)
    objects = S3Store.from_url(url, **s3_server.options, conditional_put="disabled")
    with pytest.raises(WriteConflictError, match="sole_writer=True"):
        zm.write_manifest(objects, "a", entries(1, lambda: None), inline=False)
    zm.write_manifest(objects, "a", entries(1, lambda: None), sole_writer=True, inline=False)


def test_a_service_that_refuses(s3_server: S3Server, s3_bucket: str) -> None:
    url = f"s3://{s3_bucket}/h"
    mine = ObjectStore(S3Store.from_url(url, **s3_server.options))
    zarr.create_array(mine, name="a", **CREATION)
    objects = S3Store.from_url(url, **s3_server.anonymous_options)
    calls: list[Callable[[], Any]] = [
        lambda: zm.write_manifest(objects, "a", entries(1, lambda: None), inline=False),
        lambda: zm.create_array(objects, "b", entries(1, lambda: None), **CREATION, inline=False),
        lambda: conversion.write_hierarchy(objects, [], overwrite=True, inline_below=0),
        lambda: zm.recover(objects),
    ]
    for call in calls:
        with pytest.raises(SourceAccessDeniedError, match="refused") as raised:
            call()
        assert s3_bucket in str(raised.value.location)
    guarded = guarded_store(ObjectStore(objects))
    with pytest.raises(SourceAccessDeniedError):
        guarded.create("k", b"")
    with pytest.raises(SourceAccessDeniedError):
        guarded.replace("k", Stored(None), b"")


# The guarded stores themselves ----------------------------------------------------------


@EVERYWHERE
def test_create_and_replace(new_store: Callable[[], Store]) -> None:
    store = guarded_store(new_store())
    assert store.read("x/k") == Stored(None)
    assert store.create("x/k", b"1")
    assert not store.create("x/k", b"2")
    first = store.read("x/k")
    assert first.body == b"1"
    store.replace("x/k", first, b"2")
    with pytest.raises(WriteConflictError):
        store.replace("x/k", first, b"3")
    with pytest.raises(WriteConflictError):
        store.replace("x/k", Stored(None), b"3")
    assert store.read("x/k").body == b"2"
    store.replace("x/k", first, b"2")  # a request whose first answer was lost
    store.delete("x/k")
    with pytest.raises(WriteConflictError):
        store.replace("x/k", first, b"3")
    store.replace("x/k", Stored(None), b"4")
    assert store.read("x/k").body == b"4"
    assert list(stored(store.store)) == ["x/k"]
