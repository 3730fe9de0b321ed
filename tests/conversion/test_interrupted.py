"""Changes of whole hierarchies: everybody sees the old one or the new one, at any time."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from obstore.store import S3Store
from zarr.storage import LocalStore, MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.conversion.inline_nodes import metadata, read, streamed, vector
from tests.hierarchies import files_below
from tests.interrupted_stores import (
    InterruptedDirectory,
    InterruptedMemory,
    copied,
    every_change,
)
from tests.properties import THOROUGH
from tests.servers.s3 import S3Server
from tests.settled import stored
from zarr_manifest import conversion
from zarr_manifest.conversion import ArrayNode, GroupNode, Node, write_hierarchy
from zarr_manifest.errors import (
    InvalidConfigurationError,
    LocationNotAllowedError,
    ManifestError,
    WriteConflictError,
)

pytestmark = [
    pytest.mark.slow,
    # Documents of no array yet.
    pytest.mark.filterwarnings("ignore:Object at .* is not recognized"),
]

type Make = Callable[[], Any]
type Change = Callable[[Any], Any]

# What readers see --------------------------------------------------------------------------


def opened(store: Any, ways: tuple[bool | None, ...] = (None, False)) -> list[zarr.Group]:
    """The root as each kind of reader has it: with consolidated metadata, or without."""
    return [
        zarr.open_group(
            zm.ManifestStore(store, allow=["/"], read_only=True), mode="r", use_consolidated=each
        )
        for each in ways
    ]


def arrays_in(root: zarr.Group) -> dict[str, zarr.Array[Any]]:
    return {path: node for path, node in root.members(None) if isinstance(node, zarr.Array)}


def values(arrays: dict[str, zarr.Array[Any]]) -> dict[str, Any]:
    """The values of arrays, or why they cannot be read."""
    found: dict[str, Any] = {}
    for path, array in arrays.items():
        try:
            found[path] = np.asarray(array[...]).tolist()
        except ManifestError as error:
            found[path] = error.code
    return found


def seen(root: zarr.Group) -> dict[str, Any]:
    return {"/": dict(root.attrs), **values(arrays_in(root))}


def own_and_copies(store: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metadata of all nodes but the root, by path: their own, and the root's copies."""
    documents = {
        key.rpartition("/")[0]: json.loads(body)
        for key, body in stored(store).items()
        if key.rpartition("/")[2] == "zarr.json"
    }
    consolidated = documents.pop("")["consolidated_metadata"]
    assert "pending" not in consolidated
    return documents, consolidated["metadata"]


def all_or_nothing(make: Make, change: Change) -> None:
    """Interrupt a change anywhere; then recover, or try again."""
    (old,) = [seen(root) for root in opened(make())[:1]]
    complete = make()
    change(complete)
    (new,) = [seen(root) for root in opened(complete)[:1]]
    assert old != new
    before: list[dict[str, zarr.Array[Any]]] = []

    def make_opened() -> Any:
        store = make()
        before[:] = map(arrays_in, opened(store))
        return store

    outcomes = []
    for store, is_last in every_change(make_opened, change):
        found = [seen(root) for root in opened(store)]
        assert found in ([old, old], [new, new])
        assert [{"/": old["/"], **values(arrays)} for arrays in before] == [old, old]
        outcomes.append(found[0] == new)
        zm.recover(store)
        own, copies = own_and_copies(store)
        assert own == copies  # so that both kinds of readers see the same
        assert [seen(root) for root in opened(store, (False,))] == found[:1]
        if not is_last and found[0] == old:
            change(store)
        assert [seen(root) for root in opened(store)] == [new, new]
        assert zm.validate(store) == []
    assert outcomes == sorted(outcomes)
    assert outcomes[0] is False
    assert outcomes.count(True) > 1


# Changes -----------------------------------------------------------------------------------


# All changes end in the same commit, whose windows are the same on disk.
IN_MEMORY = ["memory", "directory"] if THOROUGH else ["memory"]


@pytest.fixture(params=IN_MEMORY)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return (
        InterruptedMemory() if request.param == "memory" else InterruptedDirectory(tmp_path / "h")
    )


def copies_of(store: Any, directory: Path) -> Make:
    numbers = itertools.count()
    return lambda: copied(store, directory / f"copy{next(numbers)}")


def write(store: Any, values: dict[str, list[int]], *, overwrite: bool = False) -> None:
    nodes: list[Node] = [GroupNode("", {"arrays": list(values)})]
    for path, numbers in values.items():
        nodes.append((streamed if path == "g/parts" else vector)(path, numbers))
    write_hierarchy(store, nodes, overwrite=overwrite, inline_below=0)


@pytest.mark.parametrize("empty", ["memory", "directory"], indirect=True)
def test_a_hierarchy_is_replaced(empty: Any, tmp_path: Path) -> None:
    write(empty, {"g/parts": [4, 5], "gone": [7], "same": [9]})
    new = {"g/parts": [104], "g/h/new": [8], "same": [9]}
    all_or_nothing(copies_of(empty, tmp_path), lambda store: write(store, new, overwrite=True))


def test_a_new_hierarchy(empty: Any, tmp_path: Path) -> None:
    """Nothing can be opened before it is complete."""
    make = copies_of(empty, tmp_path)
    new = {"g/parts": [4, 5], "same": [9]}
    outcomes = []
    for store, is_last in every_change(make, lambda store: write(store, new)):
        try:
            found = [seen(root) for root in opened(store)]
        except FileNotFoundError:
            write(store, new)  # nothing is in the way
            found = []
        outcomes.append(bool(found))
        assert outcomes[-1] or not is_last
        expected = [{"/": {"arrays": list(new)}, **new}] * 2
        assert found in ([], expected)
        zm.recover(store)
        assert [seen(root) for root in opened(store)] == expected
        assert zm.validate(store) == []
    assert outcomes == sorted(outcomes)
    assert outcomes[0] is False


@pytest.mark.parametrize("is_array", [True, False])
def test_a_root_of_another_kind(is_array: bool) -> None:
    kinds = ([vector("", [1, 2])], [vector("a", [3]), vector("g/b", [4])])
    before, after = kinds if is_array else kinds[::-1]

    def make() -> Any:
        store = InterruptedMemory()
        write_hierarchy(store, before, inline_below=0)
        return store

    def change(store: Any) -> None:
        write_hierarchy(store, after, overwrite=True, inline_below=0)

    for store, _ in every_change(make, change):
        for consolidated in (None, False):
            options: Any = {} if consolidated is None else {"use_consolidated": False}
            root = zarr.open(zm.ManifestStore(store), mode="r", **options)
            if isinstance(root, zarr.Array):
                assert read(store, "") == [1, 2]
            else:
                assert seen(root) == {"/": {}, "a": [3], "g/b": [4]}
        change(store)
        assert isinstance(zarr.open(zm.ManifestStore(store), mode="r"), zarr.Array) != is_array
        assert zm.validate(store) == []


def sources(directory: Path) -> list[Path]:
    directory.mkdir()
    files = [directory / f"{number}.bin" for number in range(2)]
    for file in files:
        file.write_bytes(np.arange(8, dtype="u1").tobytes())
    return files


def referring(path: str, source: Path, **conditions: Any) -> ArrayNode:
    url = source.as_uri()
    manifest = zm.Manifest.from_columns(
        (2,), paths=url, offsets=[0, 4], lengths=4, conditions={url: {"size": 8, **conditions}}
    )
    return ArrayNode(path, metadata([8], [4]), manifest)


# In documents, sources are refreshed, and partitions are replaced, by the same commit.
LAYOUTS = [([1], 0), (None, 10_000)] if THOROUGH else [(None, 10_000)]


@pytest.mark.parametrize(("partitions", "inline_below"), LAYOUTS)
def test_sources_are_relocated(
    empty: Any, tmp_path: Path, partitions: list[int] | None, inline_below: int
) -> None:
    files = sources(tmp_path / "old")
    nodes = [referring(path, file) for path, file in zip(("a", "g/b"), files, strict=True)]
    write_hierarchy(empty, nodes, partition_shape=partitions, inline_below=inline_below)
    (tmp_path / "old").rename(tmp_path / "new")

    def change(store: Any) -> None:
        moves = {str(tmp_path / "old"): str(tmp_path / "new")}
        assert not conversion.relocate(store, moves).refused

    all_or_nothing(copies_of(empty, tmp_path), change)


def test_sources_are_refreshed(empty: Any, tmp_path: Path) -> None:
    files = sources(tmp_path / "old")
    long_ago = {"last_modified": "2001-01-01T00:00:00Z"}
    nodes = [
        referring(path, file, **long_ago) for path, file in zip(("a", "g/b"), files, strict=True)
    ]
    write_hierarchy(empty, nodes, inline_below=0)

    def change(store: Any) -> None:
        assert not conversion.refresh(store, allow=[tmp_path.as_uri()]).refused

    all_or_nothing(copies_of(empty, tmp_path), change)


# Others ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "directory", "S3"])
def test_three_writers(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    store: Any = {"memory": MemoryStore(), "directory": LocalStore(tmp_path)}.get(kind)
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
    expected = {"/": {}, "a": [winner], "g/b": [winner]}
    assert [seen(root) for root in opened(store)] == [expected] * 2
    assert zm.validate(store) == []


def pending(root: Path, path: str) -> None:
    """Say that a change has removed a node, and that its own metadata are still there."""
    document = json.loads((root / "zarr.json").read_text())
    document["consolidated_metadata"]["pending"] = {path: None}
    document["consolidated_metadata"]["metadata"][path] = {"zarr_format": 3, "node_type": "group"}
    (root / "zarr.json").write_text(json.dumps(document))


@pytest.mark.parametrize("path", ["../outside", "/outside", "a/../../outside", "", "a//b"])
def test_a_stranger_s_pending_change_leads_nowhere(tmp_path: Path, path: str) -> None:
    root = tmp_path / "h"
    write_hierarchy(root, [vector("a", [1]), vector("b", [2])])
    (tmp_path / "outside").mkdir()
    pending(root, path)
    before = files_below(tmp_path)
    with pytest.raises(InvalidConfigurationError, match="'pending' names"):
        zm.recover(root)
    assert files_below(tmp_path) == before


def test_a_stranger_s_pending_change_leads_through_no_link(tmp_path: Path) -> None:
    root = tmp_path / "h"
    write_hierarchy(root, [vector("a", [1]), vector("b", [2])])
    (tmp_path / "outside").mkdir()
    (root / "c").symlink_to(tmp_path / "outside")
    pending(root, "c")
    before = files_below(tmp_path)
    with pytest.raises(LocationNotAllowedError):
        zm.recover(root)
    assert files_below(tmp_path) == before
