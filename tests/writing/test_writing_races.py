"""Two writers of one array: one wins, the other is told, and nothing of either is mixed up."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import threading
import time
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
from tests.servers.s3 import S3Server
from zarr_manifest import conversion
from zarr_manifest.errors import SourceAccessDeniedError, WriteConflictError
from zarr_manifest.sources import OwnFiles, momentary_files
from zarr_manifest.writing import Stored, guarded_store

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
EVERYWHERE = pytest.mark.parametrize("new_store", KINDS, indirect=True)


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
    assert all(isinstance(e, WriteConflictError) and e.code == "write_conflict" for e in losers)
    (winner,) = winners
    return winner


def documents(store: Store) -> set[str]:
    keys = guarded_store(store).keys_below("a/")
    assert keys is not None
    return set(keys) - {"a/zarr.json"}


@EVERYWHERE
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("before", ["native", "manifest"])
def test_one_of_many_wins(
    new_store: Callable[[], Store], options: dict[str, Any], before: str
) -> None:
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
    assert (
        len(documents(new_store()))
        == {"whole": 1, "partitioned": 3, "inline": 0}[
            next(name for name, found in OPTIONS.items() if found is options)
        ]
    )
    assert zm.validate(new_store()) == []


@EVERYWHERE
def test_one_of_many_creates(new_store: Callable[[], Store]) -> None:
    meeting = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        zm.create_array(new_store(), "a", entries(writer, meeting.wait), **CREATION, inline=False)

    winner = winner_of(race(write))
    array = zarr.open_array(zm.ManifestStore(new_store()), path="a", mode="r")
    assert array[:].tolist() == values(winner)
    assert len(documents(new_store())) == 1


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
    assert documents(new_store()) == set()


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


@EVERYWHERE
def test_arrays_below_one_consolidated_group(new_store: Callable[[], Store]) -> None:
    """The copies of all arrays end up in the group's metadata, whoever comes first."""
    zarr.create_group(new_store())
    names = [f"a{i}" for i in range(1, WRITERS + 1)]
    for name in names:
        zarr.create_array(new_store(), name=name, **CREATION)
    with pytest.warns(UserWarning, match="onsolidated"):
        zarr.consolidate_metadata(new_store())

    def write(writer: int) -> None:
        for i in range(3):
            zm.write_manifest(
                new_store(), f"a{writer}", {(i,): {"data": bytes([writer])}}, inline=False
            )

    assert set(race(write).values()) == {None}
    body = guarded_store(new_store()).read("zarr.json").body
    assert body is not None
    copies = json.loads(body)["consolidated_metadata"]["metadata"]
    for name in names:
        own = guarded_store(new_store()).read(f"{name}/zarr.json").body
        assert own is not None
        assert copies[name] == json.loads(own)


# Processes ------------------------------------------------------------------------------


def write_in_process(root: Path, writer: int, answers: Any) -> None:
    def meet() -> None:
        (root / f"ready-{writer}").touch()
        while len(list(root.glob("ready-*"))) < 3:
            time.sleep(0.001)

    try:
        zm.write_manifest(root, "a", entries(writer, meet), inline=False)
    except WriteConflictError as error:
        answers.put((writer, error.code))
    else:
        answers.put((writer, None))


def test_processes(tmp_path: Path) -> None:
    zarr.create_array(tmp_path, name="a", **CREATION)
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    processes = [
        context.Process(target=write_in_process, args=(tmp_path, writer, answers))
        for writer in (1, 2, 3)
    ]
    for process in processes:
        process.start()
    outcome = dict(answers.get() for _ in processes)
    for process in processes:
        process.join()
    assert sorted(outcome.values(), key=str) == [None, "write_conflict", "write_conflict"]
    winner = next(writer for writer, code in outcome.items() if code is None)
    array = zarr.open_array(zm.ManifestStore(tmp_path), path="a", mode="r")
    assert array[:].tolist() == values(winner)


# Locks ----------------------------------------------------------------------------------


def test_a_lock_that_another_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(momentary_files, "_PATIENCE", 0.05)
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
        lambda: conversion.recover(objects, "finish"),
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
    assert store.keys_below("") == ["x/k"]
