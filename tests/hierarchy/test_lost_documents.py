"""A document that the declaration names and that does not exist is an error, never fill values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.sync import sync

import zarr_manifest as zm
from tests.combinations import combinations
from tests.hierarchies import consolidate, files_below
from tests.properties import examples
from tests.servers.http_files import FileServer
from zarr_manifest.conversion import export_kerchunk_json

COUNT = 6
ALL = {(i,): {"data": bytes([i + 1])} for i in range(COUNT)}
SPARSE = {index: ALL[index] for index in [(0,), (3,)]}
pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")

CREATION: dict[str, Any] = {"shape": COUNT, "chunks": 1, "dtype": "u1", "fill_value": 9}


PLAIN = "./manifest/{partition}.json"
BY_DIGEST = "./manifest/{partition}-{digest}.json"


def write(root: Path, entries: dict[tuple[int, ...], Any], names: str = PLAIN) -> Path:
    zm.create_array(root, "a", entries, partition_shape=[1], manifest_url=names, **CREATION)
    return root / "a" / "manifest"


def values(location: Any, **options: Any) -> list[int]:
    store = zm.ManifestStore(location, read_only=True, **options)
    array: Any = zarr.open_array(store, path="a", mode="r")
    return np.asarray(array[:]).tolist()


def keys(location: Any) -> list[str]:
    store = zm.ManifestStore(location, read_only=True)
    zarr.open_array(store, path="a", mode="r")

    async def listed() -> list[str]:
        return [key async for key in store.list_prefix("a/c/")]

    return sync(listed())


def declared(root: Path) -> dict[str, Any]:
    node = json.loads((root / "a" / "zarr.json").read_text())
    found: dict[str, Any] = node["storage_transformers"][0]["configuration"]
    return found


def redeclare(root: Path, **members: Any) -> None:
    document = root / "a" / "zarr.json"
    node = json.loads(document.read_text())
    node["storage_transformers"][0]["configuration"] |= members
    document.write_text(json.dumps(node))


LOST = pytest.mark.parametrize("lost", combinations([["0"], ["0", "3"], "every"], besides=[["0"]]))


def lose(documents: Path, lost: list[str] | str) -> None:
    for document in list(documents.iterdir()):
        if isinstance(lost, str) or document.stem.partition("-")[0] in lost:
            document.unlink()


@LOST
@pytest.mark.parametrize(
    ("entries", "names", "partitions"),
    [(ALL, PLAIN, "all"), (SPARSE, BY_DIGEST, ["0", "3"])],
    ids=["all", "digests"],
)
def test_a_lost_document_is_an_error(
    tmp_path: Path,
    stored: Callable[[Path], Any],
    entries: Any,
    names: str,
    partitions: Any,
    lost: Any,
) -> None:
    documents = write(tmp_path, entries, names)
    consolidate(tmp_path)
    stated = declared(tmp_path)["partitions"]
    assert (list(stated) if isinstance(stated, dict) else stated) == partitions
    lose(documents, lost)
    location = stored(tmp_path)
    listing = () if isinstance(location, str) else (keys,)  # a web server cannot be listed
    for ask in (values, lambda at: zm.ManifestStore(at).locations(), *listing):
        with pytest.raises(zm.errors.ManifestNotFoundError) as raised:
            ask(location)
        assert raised.value.array == "a"
        assert re.search(r"a/manifest/\d(-[0-9a-f]{16})?\.json$", str(raised.value.location))
    problems = zm.validate(location)
    number = len(entries) if lost == "every" else len(lost)
    assert [(p.code, p.phase) for p in problems] == [("manifest_not_found", "manifest")] * number
    (node,) = [node for node in zm.contents(location).nodes if node.path == "a"]
    assert node.problem is not None
    assert node.problem.code == "manifest_not_found"
    report = export_kerchunk_json(location, tmp_path / "refs.json")
    assert [refused.code for refused in report.refused] == ["manifest_not_found"]


def test_what_is_still_there_can_be_read(tmp_path: Path) -> None:
    lose(write(tmp_path, ALL), ["3"])
    store = zm.ManifestStore(tmp_path)
    array: Any = zarr.open_array(store, path="a", mode="r")
    assert array[:3].tolist() == [1, 2, 3]
    for index in (3, slice(None)):
        with pytest.raises(zm.errors.ManifestNotFoundError, match=r"a/manifest/3\.json"):
            array[index]
    assert array[4:].tolist() == [5, 6]
    with pytest.raises(zm.errors.ManifestNotFoundError):
        store.get_sync("a/c/3")
    (tmp_path / "a" / "manifest" / "3.json").write_text('{"3": {"data": "BA=="}}')
    assert array[:].tolist() == [1, 2, 3, 4, 5, 6]  # the failure is not remembered


def test_what_is_not_named_holds_no_entries(tmp_path: Path) -> None:
    """Whether or not there is a document: somebody may have left it behind."""
    write(tmp_path, ALL)
    redeclare(tmp_path, partitions=["1", "2", "77"])
    assert values(tmp_path) == [9, 2, 3, 9, 9, 9]
    assert keys(tmp_path) == ["a/c/1", "a/c/2"]
    (problem,) = zm.validate(tmp_path)
    assert (problem.code, problem.phase, problem.chunk) == (
        "invalid_configuration", "declaration", None,
    )  # fmt: skip
    assert "'77', outside the grid of partitions, whose shape is [6]" in problem.message
    redeclare(tmp_path, partitions=["1", "6", "77", "78"])
    (problem,) = zm.validate(tmp_path)
    assert "'6' and 2 other names, outside" in problem.message


# Many of them ----------------------------------------------------------------------


@pytest.mark.servers
@pytest.mark.parametrize("partitions", ["all", ["0", "1", "2", "3", "4", "5"]])
def test_more_than_may_be_asked_for(tmp_path: Path, partitions: Any) -> None:
    """Where the store can be listed, the listing says whether all are there."""
    documents = write(tmp_path, ALL)
    redeclare(tmp_path, partitions=partitions)
    few = zm.Limits(partitions=COUNT - 1)
    assert zm.validate(tmp_path, limits=few) == []
    assert len(keys(tmp_path)) == COUNT
    lose(documents, ["2", "4"])
    (problem,) = zm.validate(tmp_path, limits=few)
    assert (problem.code, "a/manifest/2.json" in problem.message) == ("manifest_not_found", True)
    with pytest.raises(zm.errors.ManifestNotFoundError):
        zm.ManifestStore(tmp_path, limits=few).locations()
    with FileServer(tmp_path) as server:
        server.requests.clear()
        found = zm.validate(server.url, arrays=["a"], limits=few)
        assert not [r for r in server.requests if "/manifest/" in r.target]
    assert [problem.code for problem in found] == ["limit_exceeded"]


@pytest.mark.parametrize("count", [10**6, 2**53 - 1])
def test_a_short_declaration_of_very_many(tmp_path: Path, count: int) -> None:
    write(tmp_path, ALL)
    document = tmp_path / "a" / "zarr.json"
    document.write_text(document.read_text().replace(f"[{COUNT}]", f"[{count}]").replace(
        f"\n    {COUNT}\n", f"\n    {count}\n"))  # fmt: skip
    assert json.loads(document.read_text())["shape"] == [count]
    assert [problem.code for problem in zm.validate(tmp_path)] == ["manifest_not_found"]
    array: Any = zarr.open_array(zm.ManifestStore(tmp_path), path="a", mode="r")
    assert array[:COUNT].tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(zm.errors.ManifestNotFoundError):
        array[count // 2]


# Deleting --------------------------------------------------------------------------


def test_an_array_that_has_lost_a_document_can_be_deleted(tmp_path: Path) -> None:
    sources = {(i,): {"path": f"{i}.bin"} for i in range(COUNT)}
    lose(write(tmp_path, sources), ["2"])
    for index in range(COUNT):
        (tmp_path / "a" / f"{index}.bin").write_bytes(b"x")
    before = files_below(tmp_path / "a")
    with zm.edit(tmp_path) as group:
        del group["a"]
    before.pop("zarr.json")
    assert files_below(tmp_path / "a") == before
    assert "a" not in zarr.open_group(zm.ManifestStore(tmp_path), mode="r")


def test_a_chunk_of_which_nothing_is_known_is_not_deleted(tmp_path: Path) -> None:
    lose(write(tmp_path, ALL), ["2"])
    with pytest.raises(zm.errors.ManifestNotFoundError):
        zm.ManifestStore(tmp_path).delete_sync("a/c/2")


# In general ------------------------------------------------------------------------

SHAPES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=0, max_size=2)


@pytest.mark.slow
@given(SHAPES, st.data())
@examples(0.6)
def test_what_is_written_reads_back_and_no_document_can_be_lost(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int]], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("h")
    counts = tuple(n for n, _ in shapes)
    grid = list(np.ndindex(*counts))
    entries = {index: {"data": b"\x07"} for index in data.draw(st.sets(st.sampled_from(grid)))}
    zm.create_array(
        root, "a", entries, shape=counts, chunks=(1,) * len(counts), dtype="u1", fill_value=9,
        partition_shape=[p for _, p in shapes],
    )  # fmt: skip
    assert zm.validate(root) == []

    def read() -> Any:
        array: Any = zarr.open_array(zm.ManifestStore(root), path="a", mode="r")
        return np.asarray(array[...])

    expected = np.full(counts, 9, "u1")
    for index in entries:
        expected[index] = 7
    np.testing.assert_array_equal(read(), expected)
    documents = sorted((root / "a" / "manifest").glob("*"))
    names = [f"{name}-{c[7:23]}" for name, c in declared(root)["partitions"].items()]
    assert sorted(names) == [document.stem for document in documents]
    for document in documents:
        body = document.read_bytes()
        document.unlink()
        with pytest.raises(zm.errors.ManifestNotFoundError):
            read()
        document.write_bytes(body)
    np.testing.assert_array_equal(read(), expected)
