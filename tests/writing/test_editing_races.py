"""Several editors at once, beside appenders and trimmers: nothing is lost, or goes elsewhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import Store
from zarr.storage import MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import consolidate, read
from tests.processes import CONTEXT
from tests.settled import assert_settled, stored
from tests.writing.test_writing_races import Place, race, store_at
from zarr_manifest.errors import WriteConflictError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
]

CREATION: dict[str, Any] = {"chunks": 2, "dtype": "u1", "fill_value": 9, "dimension_names": ["t"]}


def hierarchy(store: Any, entries: dict[Any, Any], *, shape: int = 8, **options: Any) -> Any:
    """Create the array ``a`` along ``t``, in a hierarchy with consolidated metadata."""
    zarr.create_group(store)
    zm.create_array(store, "a", entries, shape=shape, **CREATION, **options)
    consolidate(store)
    return store


def days(first: int, count: int, files: Path | None = None) -> dict[Any, Any]:
    """Return entries of chunks, one a day: inline, or in files."""
    if files is None:
        return {(i,): {"data": bytes([first + i] * 2)} for i in range(count)}
    for day in range(first, first + count):
        (files / str(day)).write_bytes(bytes([day] * 2))
    return {(i,): {"path": (files / str(first + i)).as_uri()} for i in range(count)}


def append_days(store: Any, first: int, count: int, files: Path | None = None) -> None:
    more = hierarchy(MemoryStore(), days(first, count, files), shape=2 * count)
    zm.append(store, more, dim="t")


# Chunks that move -----------------------------------------------------------------------

FORMS: dict[str, dict[str, Any]] = {
    "inline": {},
    "document": {"inline": False},
    "partitions": {"partition_shape": (2,)},
}
EVERY_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@EVERY_FORM
@pytest.mark.parametrize("chunk", range(4))
def test_an_array_that_grows_meanwhile(tmp_path: Path, form: dict[str, Any], chunk: int) -> None:
    """Its chunks stay where they are, missing ones, too."""
    store = hierarchy(MemoryStore(), days(1, 3, tmp_path), **form)
    with zm.edit(store, allow=[tmp_path]) as root:
        root["a"][2 * chunk] = 77
        append_days(store, 101, 2, tmp_path)
    values = np.array([1, 1, 2, 2, 3, 3, 9, 9, 101, 101, 102, 102])
    values[2 * chunk] = 77
    found = read(zm.ManifestStore(store, allow=[tmp_path]), "a")
    assert found.tolist() == values.tolist()


@pytest.mark.parametrize(
    "form", combinations(FORMS.values(), besides=[*FORMS.values()][:1]), ids=FORMS
)
@pytest.mark.parametrize("appended", [0, 1, 2])
@pytest.mark.parametrize("chunk", range(4))
def test_an_array_whose_chunks_move_meanwhile(
    form: dict[str, Any], appended: int, chunk: int
) -> None:
    """Also if it is as long as before, and the chunk and the one in its place are both missing."""
    store = hierarchy(MemoryStore(), {**days(1, 1), (2,): {}}, **form)
    with (  # noqa: PT012
        pytest.raises(WriteConflictError, match="another writer") as caught,
        zm.edit(store) as root,
    ):
        root["a"][2 * chunk] = 77
        zm.trim(store, dim="t", keep=6)
        if appended:
            append_days(store, 101, appended)
        before = stored(store)
    assert caught.value.array == "a"
    after = stored(store)
    assert {key: after[key] for key in before} == before


@pytest.mark.parametrize("is_changed", [False, True])
def test_chunks_of_an_array_that_has_none(is_changed: bool) -> None:
    """Only its coordinate shows whether they moved."""
    store = hierarchy(MemoryStore(), {})
    zm.create_array(store, "t", days(1, 4), **CREATION | {"shape": 8})

    def edit() -> None:
        with zm.edit(store) as root:
            root["a"][0] = 77
            if is_changed:
                zm.write_manifest(store, "t", days(2, 4))
            with zm.edit(store) as other:
                other["a"][2] = 66

    if is_changed:
        with pytest.raises(WriteConflictError, match="may be others"):
            edit()
    else:
        edit()
    expected = [9 if is_changed else 77, 9, 66]
    assert read(zm.ManifestStore(store), "a")[:3].tolist() == expected


def test_equal_chunks_do_not_show_where_they_were() -> None:
    """All are one object, named by its digest, in documents of one chunk each."""
    store = MemoryStore()
    zarr.create_group(store)
    options = {**CREATION, "chunks": 600, "shape": 2400, "partition_shape": (1,)}
    zm.create_array(store, "a", {}, **options)
    with zm.edit(store) as root:
        root["a"][:] = 5
    with (  # noqa: PT012
        pytest.raises(WriteConflictError, match="may be others"),
        zm.edit(store) as root,
    ):
        root["a"][600:1200] = 77
        with zm.edit(store) as other:
            # As if it had been trimmed, and then appended to.
            other["a"].resize((3000,))
            other["a"][0:600] = 6


@pytest.mark.parametrize("change", [{"fill_value": 0}, {"chunks": 4}, {"dtype": "i1"}])
def test_an_array_that_is_replaced_meanwhile(change: dict[str, Any]) -> None:
    store = hierarchy(MemoryStore(), {})
    with (  # noqa: PT012
        pytest.raises(WriteConflictError, match="changed the metadata"),
        zm.edit(store) as root,
    ):
        root["a"][0] = 77
        with zm.edit(store) as other:
            other.create_array("a", shape=8, **CREATION | change, overwrite=True)


# Native arrays --------------------------------------------------------------------------


def test_two_who_create_the_same_array() -> None:
    store = hierarchy(MemoryStore(), {})
    with (  # noqa: PT012
        pytest.raises(WriteConflictError, match="created a node") as caught,
        zm.edit(store) as root,
    ):
        new = root.create_array("n", shape=4, **CREATION)
        with zm.edit(store) as other:
            other.create_array("n", shape=4, **CREATION)[:2] = 3
        new[:] = 2
    assert caught.value.array == "n"
    assert read(zm.ManifestStore(store), "n").tolist() == [3, 3, 9, 9]


def test_two_who_append_to_the_same_native_array() -> None:
    store = hierarchy(MemoryStore(), {})
    zarr.create_array(store, name="n", data=np.ones(4, "u1"), chunks=(2,))
    with (  # noqa: PT012
        pytest.raises(WriteConflictError, match="changed the metadata") as caught,
        zm.edit(store) as root,
    ):
        root["n"].append(np.array([2, 2], "u1"))
        with zm.edit(store) as other:
            other["n"].append(np.array([3, 3], "u1"))
    assert caught.value.array == "n"
    assert read(zm.ManifestStore(store), "n").tolist() == [1, 1, 1, 1, 3, 3]


def test_two_who_edit_the_same_native_array() -> None:
    """Both give it a manifest of its chunks; what they change counts."""
    store = hierarchy(MemoryStore(), {})
    zarr.create_array(store, name="n", data=np.ones(4, "u1"), chunks=(2,))
    with zm.edit(store) as root:
        root["n"][0] = 2
        with zm.edit(store) as other:
            other["n"][3] = 3
    assert read(zm.ManifestStore(store), "n").tolist() == [2, 1, 1, 3]
    with (  # noqa: PT012
        pytest.raises(WriteConflictError, match="same chunk"),
        zm.edit(store) as root,
    ):
        root["n"][0] = 4
        with zm.edit(store) as other:
            other["n"][1] = 5
    assert read(zm.ManifestStore(store), "n").tolist() == [2, 5, 1, 3]


def test_a_removed_native_array_that_another_creates_again() -> None:
    store = hierarchy(MemoryStore(), {})
    zarr.create_array(store, name="n", data=np.ones(4, "u1"), chunks=(2,))
    with zm.edit(store) as root:
        del root["n"]
    with zm.edit(store) as root:
        root.create_array("n", shape=4, **CREATION)
    assert read(zm.ManifestStore(store), "n").tolist() == [9, 9, 9, 9]


# Processes ------------------------------------------------------------------------------

EDITORS = 4


@pytest.fixture(params=["directory", "S3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "directory":
        return str(tmp_path / "h"), {}
    server: Any = request.getfixturevalue("s3_server")
    bucket: str = request.getfixturevalue("s3_bucket")
    return f"s3://{bucket}/h", server.options


def run_all(work: Callable[..., str | None], arguments: list[tuple[Any, ...]]) -> list[str | None]:
    """Run a function in processes that begin at the same time; return what each returned."""
    meeting, answers = CONTEXT.Barrier(len(arguments)), CONTEXT.SimpleQueue()
    processes = [
        CONTEXT.Process(target=answered, args=(work, number, each, meeting, answers))
        for number, each in enumerate(arguments)
    ]
    for process in processes:
        process.start()
    found: dict[int, str | None] = dict(answers.get() for _ in processes)
    for process in processes:
        process.join()
    return [found[number] for number in range(len(arguments))]


def answered(
    work: Callable[..., str | None], number: int, arguments: Any, meeting: Any, answers: Any
) -> None:
    meeting.wait(60)
    try:
        answers.put((number, work(*arguments)))
    except BaseException as error:  # the test waits for an answer
        answers.put((number, repr(error)))


def edit_chunk(place: Place, path: str, chunk: int, value: int) -> str | None:
    """Write a chunk that is stored as an object, and return what refused it."""
    try:
        with zm.edit(store_at(place)) as root:
            root[path][600 * chunk : 600 * (chunk + 1)] = value
    except WriteConflictError as error:
        return f"{error.array} {error.chunk}"
    return None


def edit_days(place: Place, first: int) -> str | None:
    """Write one of the days from a first on after the other, again where it is refused."""
    for day in range(first, 8, 2):
        while True:
            try:
                with zm.edit(store_at(place)) as root:
                    # Days are identified by their values: trimming moves them.
                    values = root["a"][:].tolist()
                    if day in values:
                        at = values.index(day)
                        root["a"][at : at + 2] = 100 + day
            except WriteConflictError:
                continue
            break
    return None


def append_and_trim(place: Place, first: int, keep: int) -> str | None:
    for day in range(first, first + 4):
        append_days(store_at(place), day, 1)
        zm.trim(store_at(place), dim="t", keep=keep)
    return None


@pytest.mark.parametrize("form", combinations(["document", "partitions"], ["partitions"]))
def test_editors_of_different_chunks_and_arrays(place: Place, form: str) -> None:
    store = store_at(place)
    zarr.create_group(store)
    options = {**CREATION, **FORMS[form], "chunks": 600, "shape": 600 * EDITORS}
    for path in ("a", "b"):
        zm.create_array(store, path, {}, **options)
    consolidate(store)
    every = [("ab"[n % 2], n // 2, 10 + n) for n in range(EDITORS)]
    assert run_all(edit_chunk, [(place, *each) for each in every]) == [None] * EDITORS
    for path in ("a", "b"):
        expected = [value for name, _, value in every if name == path]
        values = read(zm.ManifestStore(store), path)[: 600 * EDITORS // 2 : 600]
        assert values.tolist() == expected
    assert_settled(stored(store))


def test_editors_of_the_same_chunk(place: Place) -> None:
    store = store_at(place)
    zarr.create_group(store)
    zm.create_array(store, "a", {}, **{**CREATION, "chunks": 600, "shape": 1200})
    consolidate(store)
    outcome = run_all(edit_chunk, [(place, "a", 1, 10 + n) for n in range(4)])
    values = read(zm.ManifestStore(store), "a")
    # Who begins after the first has committed succeeds as well.
    assert values[600] - 10 in [n for n, refused in enumerate(outcome) if refused is None]
    assert {refused for refused in outcome if refused is not None} <= {"a 1"}
    assert len({*values[600:].tolist()}) == 1


def test_threads_that_edit_the_same_chunk_at_once() -> None:
    """All begin before any of them commits: one succeeds."""
    store = hierarchy(MemoryStore(), days(1, 4))
    meeting = threading.Barrier(4)

    def write(writer: int) -> None:
        with zm.edit(store) as root:
            root["a"][2:4] = 100 + writer
            meeting.wait(60)

    outcome = race(write, 4)
    (winner,) = [writer for writer, error in outcome.items() if error is None]
    losers = [error for error in outcome.values() if error is not None]
    assert all(isinstance(e, WriteConflictError) and e.array == "a" for e in losers)
    assert read(zm.ManifestStore(store), "a")[2:4].tolist() == [100 + winner] * 2


def test_editors_beside_those_who_append_and_trim(place: Place) -> None:
    """Each day is where it was appended, edited or not yet there when its editor looked."""
    store = hierarchy(store_at(place), days(0, 4), inline=False)
    work: list[tuple[Any, ...]] = [(place, 0), (place, 1), (place, 4, 14)]
    outcome = run_all(edit_or_append, work)
    assert outcome == [None] * len(work)
    values = read(store_of(store), "a")
    found = values.reshape(-1, 2)
    assert (found[:, 0] == found[:, 1]).all()
    assert [day % 100 for day in found[:, 0].tolist()] == list(range(1, 8))
    edited = {day for day in found[:, 0].tolist() if day >= 100}
    # These were there from the beginning, and stay.
    assert {101, 102, 103} <= edited
    assert zm.validate(store) == []


def edit_or_append(place: Place, first: int, keep: int | None = None) -> str | None:
    return edit_days(place, first) if keep is None else append_and_trim(place, first, keep)


def store_of(store: Store) -> zm.ManifestStore:
    return zm.ManifestStore(store)


# Places ---------------------------------------------------------------------------------


def test_chunks_shared_in_a_bucket_and_edits_below_the_root(place: Place) -> None:
    where, options = place
    if not options:
        pytest.skip("of a bucket")
    store = store_at(place)
    zarr.create_group(store)
    zarr.create_group(store, path="g")
    zm.create_array(store, "g/a", {}, **{**CREATION, "chunks": 600, "shape": 1200})
    shared = store_at((where.replace("/h", "/shared"), options))
    assert isinstance(shared, ObjectStore)
    with zm.edit(store, chunks_in=shared) as root:
        root["g/a"][300:900] = 5
        assert root["g/a"][299:301].tolist() == [9, 5]
    allow = {where.replace("/h", "/shared/"): shared.store}
    values = read(zm.ManifestStore(store, allow=allow), "g/a")
    assert values.tolist() == [9] * 300 + [5] * 600 + [9] * 300
    keys = [key for key in stored(store) if "sha256" in key]
    assert keys == []
    assert len(stored(shared)) == 2


def test_an_array_at_the_root(place: Place) -> None:
    store = store_at(place)
    zm.create_array(
        store, "", {"0": {"data": b"1" * 600}}, shape=1200, **CREATION | {"chunks": 600}
    )
    with zm.edit(store) as array:
        array[599:601] = 5
        assert len(zm.entries(array)) == 2
    values: Any = zarr.open_array(zm.ManifestStore(store), mode="r")
    assert values[598:602].tolist() == [49, 5, 5, 9]
    assert json.loads(stored(store)["zarr.json"])["node_type"] == "array"
