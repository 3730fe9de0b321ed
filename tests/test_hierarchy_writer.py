"""Nodes become a hierarchy, which reads as the nodes say; what cannot be is reported."""

from __future__ import annotations

import contextlib
import itertools
import json
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import zarr
from hypothesis import example, given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore as ObstoreMemoryStore
from obstore.store import S3Store
from zarr.storage import MemoryStore, ObjectStore

import zarr_manifest as zm
from tests.hierarchies import files_below
from tests.interrupted_stores import Interrupted, InterruptedMemory
from tests.servers.s3 import S3Server
from zarr_manifest._locations import Base, StoreLocation, UrlLocation
from zarr_manifest.conversion.hierarchy_writer import write_hierarchy
from zarr_manifest.conversion.nodes import (
    ArrayNode,
    GroupNode,
    Node,
    RefusedNode,
    StreamedManifest,
)
from zarr_manifest.conversion.source_paths import SourcePaths
from zarr_manifest.errors import WriteConflictError

type Index = tuple[int, ...]


def metadata(shape: Iterable[int], chunks: Iterable[int], **more: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 255,
        "codecs": [{"name": "bytes"}],
        "attributes": {},
        **more,
    }


def inline_manifest(values: dict[Index, int], grid_shape: Index) -> zm.Manifest:
    return zm.Manifest.from_columns(
        grid_shape, paths="", data={index: bytes([value]) for index, value in values.items()}
    )


def vector(path: str, values: list[int], **more: Any) -> ArrayNode:
    """One chunk per value; a negative one is missing."""
    stated = {(i,): value for i, value in enumerate(values) if value >= 0}
    manifest = inline_manifest(stated, (len(values),))
    return ArrayNode(path, metadata([len(values)], [1]), manifest, **more)


def streamed(path: str, values: list[int], partition: int = 1) -> ArrayNode:
    def parts() -> Iterator[zm.Manifest]:
        for start in range(0, len(values), partition):
            block = {(i,): v for i, v in enumerate(values) if start <= i < start + partition}
            yield inline_manifest(block, (len(values),))

    manifest = StreamedManifest((partition,), parts())
    return ArrayNode(path, metadata([len(values)], [1]), manifest)


def read(store: Any, path: str) -> list[int]:
    array = zarr.open_array(zm.ManifestStore(store), path=path, mode="r")
    found: list[int] = np.asarray(array[...]).tolist()
    return found


# nodes -> hierarchy -> nodes --------------------------------------------------------------

NAME = st.text("abcdefgé .-_0%#", min_size=1, max_size=4).filter(
    lambda name: name.strip(".") and not name.startswith("__")
)
PATH = st.lists(NAME, min_size=1, max_size=3).map("/".join)
VALUES = st.lists(st.integers(-1, 254), min_size=1, max_size=7)
ATTRIBUTES = st.dictionaries(st.text("abc", max_size=2), st.integers() | st.text(max_size=3))


@st.composite
def hierarchies(draw: st.DrawFn) -> tuple[dict[str, list[int]], dict[str, dict[str, Any]]]:
    """Arrays and groups with attributes, by path; no node lies below an array."""
    paths = draw(st.lists(PATH, unique=True, max_size=6))
    arrays = {
        path: draw(VALUES)
        for path in paths
        if not any(other.startswith(f"{path}/") for other in paths)
    }
    arrays = {
        path: values
        for path, values in arrays.items()
        if not any(path.startswith(f"{other}/") for other in arrays)
    }
    above = {up for path in arrays for up in above_of(path)}
    groups = {path: draw(ATTRIBUTES) for path in above if draw(st.booleans())}
    return arrays, groups


def above_of(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:n]) for n in range(len(parts)))


@given(
    hierarchies(),
    st.randoms(),
    st.fixed_dictionaries(
        {
            "inline_below": st.sampled_from([0, 60, 10**6]),
            "codecs": st.sampled_from([(), ("zstd",)]),
            "partition_shape": st.sampled_from([None, [2], [1, 1]]),
        }
    ),
    st.booleans(),
)
@settings(max_examples=60)
def test_nodes_to_hierarchy_and_back(
    case: tuple[dict[str, list[int]], dict[str, dict[str, Any]]],
    random: Any,
    options: dict[str, Any],
    stream: bool,
) -> None:
    arrays, groups = case
    nodes: list[Node] = [
        streamed(path, values) if stream and min(values) >= 0 else vector(path, values)
        for path, values in arrays.items()
    ]
    nodes += [GroupNode(path, attributes) for path, attributes in groups.items()]
    random.shuffle(nodes)
    store = MemoryStore()
    report = write_hierarchy(store, nodes, **options)
    assert report.refused == []
    assert report.arrays == len(arrays)
    assert report.references == sum(value >= 0 for v in arrays.values() for value in v)
    assert report.stated_bytes == report.references
    assert zm.validate(store) == []
    root = zarr.open_group(zm.ManifestStore(store), mode="r")
    found = {} if not arrays else dict(root.members(max_depth=None))
    expected_groups = {up for path in arrays for up in above_of(path)} - {""} | (set(groups) - {""})
    assert set(found) == set(arrays) | expected_groups
    assert report.groups == len(expected_groups) + 1
    for path, values in arrays.items():
        assert read(store, path) == [255 if value < 0 else value for value in values]
    for path, attributes in groups.items():
        group = root if not path else found[path]
        assert dict(group.attrs) == attributes


@pytest.mark.parametrize("inline_below", [0, 1000])
def test_an_array_at_the_root(inline_below: int) -> None:
    store = MemoryStore()
    report = write_hierarchy(store, [vector("", [1, 2])], inline_below=inline_below)
    assert read(store, "") == [1, 2]
    assert (report.groups, report.arrays) == (0, 1)


def test_a_scalar_and_a_length_of_zero() -> None:
    store = MemoryStore()
    scalar = ArrayNode("s", metadata([], []), inline_manifest({(): 7}, ()))
    empty = ArrayNode("e", metadata([0, 2], [1, 1]), inline_manifest({}, (0, 2)))
    stream = StreamedManifest((1, 1), iter([]))
    nothing = ArrayNode("n", metadata([0, 2], [1, 1]), stream)
    report = write_hierarchy(store, [scalar, empty, nothing], partition_shape={"s": []})
    assert report.refused == []
    assert read(store, "s") == 7
    assert read(store, "e") == read(store, "n") == []
    assert zm.validate(store) == []


def test_inline_below_counts_the_bytes_of_the_document() -> None:
    manifest = vector("a", [1]).manifest
    assert isinstance(manifest, zm.Manifest)
    size = len(manifest.dumps())
    for limit, inline in ((size, False), (size + 1, True)):
        store = MemoryStore()
        write_hierarchy(store, [vector("a", [1])], inline_below=limit)
        assert ("a/manifest.json" in store._store_dict) is not inline


def test_partition_shapes() -> None:
    store = MemoryStore()
    write_hierarchy(
        store,
        [vector("few", [1, 2]), vector("many", [1, 2, 3]), vector("other", [1, 2, 3])],
        partition_shape={"many": [2], "few": [1]},
    )
    assert {key for key in store._store_dict if not key.endswith("zarr.json")} == {
        "few/manifest/0.json", "few/manifest/1.json",
        "many/manifest/0.json", "many/manifest/1.json",
        "other/manifest.json",
    }  # fmt: skip


def test_progress_and_notes() -> None:
    calls: list[tuple[str, int]] = []
    report = write_hierarchy(
        MemoryStore(),
        [vector("a", [1, 2], notes=("a decision",)), streamed("b", [1, 2, 3], 2)],
        progress=lambda path, references: calls.append((path, references)),
    )
    assert calls == [("a", 2), ("b", 2), ("b", 1)]
    assert report.notes == [("a", "a decision")]
    assert str(report) == ("1 group, 2 arrays, 5 references to 5 bytes\n1 note:\n  a: a decision")


# What is refused --------------------------------------------------------------------------

BAD = {
    "not v3": ArrayNode("x", metadata([1], [1], codecs=None), inline_manifest({}, (1,))),
    "unknown codec": ArrayNode(
        "x", metadata([1], [1], codecs=[{"name": "bytes"}, {"name": "nobody's"}]),
        inline_manifest({}, (1,)),
    ),
    "unknown data type": ArrayNode(
        "x", metadata([1], [1], data_type="int17"), inline_manifest({}, (1,))
    ),
    "wrong fill value": ArrayNode(
        "x", metadata([1], [1], fill_value="red"), inline_manifest({}, (1,))
    ),
    "declares already": ArrayNode(
        "x", metadata([1], [1], storage_transformers=["other"]), inline_manifest({}, (1,))
    ),
    "another grid": ArrayNode("x", metadata([2], [1]), inline_manifest({(0,): 1}, (1,))),
    "a group's attributes": GroupNode("x", {"a": object()}),
    "path": ArrayNode(
        "x", metadata([1], [1]), zm.Manifest.from_columns((1,), paths="ftp://h/f.nc")
    ),
    "relative path that climbs": ArrayNode(
        "x", metadata([1], [1]), zm.Manifest.from_columns((1,), paths="../f.nc")
    ),
    "part of another grid": ArrayNode(
        "x", metadata([2], [1]),
        StreamedManifest((1,), iter([inline_manifest({(0,): 1}, (2,)), inline_manifest({}, (1,))])),
    ),
    "part twice": ArrayNode(
        "x", metadata([2], [1]),
        StreamedManifest((1,), itertools.repeat(inline_manifest({(0,): 1}, (2,)), 2)),
    ),
    "partition shape": ArrayNode("x", metadata([2], [1]), StreamedManifest((1, 1), iter([]))),
    "imported": RefusedNode("x", "not_convertible", "a filter mask"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_node_that_cannot_be_written_is_reported_and_the_rest_is_written(name: str) -> None:
    store = MemoryStore()
    bad = BAD[name]
    if isinstance(bad, ArrayNode) and isinstance(bad.manifest, StreamedManifest):
        parts = list(bad.manifest.parts)
        bad = ArrayNode("x", bad.metadata, StreamedManifest(bad.manifest.partition_shape, parts))
    report = write_hierarchy(store, [vector("a", [1]), bad, vector("z", [2])])
    (refused,) = report.refused
    assert refused.path == "x"
    assert refused.reason
    assert refused.code in str(report)
    assert report.arrays == report.references == report.stated_bytes == 2
    assert (read(store, "a"), read(store, "z")) == ([1], [2])
    assert not [key for key in store._store_dict if key.startswith("x")]
    assert zm.validate(store) == []


@pytest.mark.parametrize(
    "path",
    ["..", "../up", "a/../../b", "a//b", ".", "__secret", "zarr.json", "a\\b", "a\nb", "...", "\0"],
)
def test_names_that_are_none(tmp_path: Path, path: str) -> None:
    root = tmp_path / "inside" / "h"
    report = write_hierarchy(root, [vector(path, [1]), GroupNode(path, {}), vector("b", [2])])
    assert [node.code for node in report.refused] == ["not_convertible"] * 2
    assert set(files_below(tmp_path)) == {
        "inside/h/zarr.json", "inside/h/b/zarr.json", "inside/h/b/manifest.json"
    }  # fmt: skip


def test_nodes_that_exclude_each_other() -> None:
    report = write_hierarchy(
        MemoryStore(),
        [
            vector("a", [1]),
            vector("a", [2]),
            GroupNode("a/b", {}),
            vector("g/b", [1]),
            vector("g", [1]),
            vector("", [1]),
            GroupNode("g", {}),
            GroupNode("g", {"again": 1}),
        ],
    )
    assert [(node.path, node.reason) for node in report.refused] == [
        ("a", "there was a node of this path already"),
        ("a/b", "the node lies below an array, 'a'"),
        ("g", "there are nodes below it, which only a group can have"),
        ("", "there are nodes below it, which only a group can have"),
        ("g", "there was a node of this path already"),
    ]
    report = write_hierarchy(MemoryStore(), [vector("", [1]), vector("a", [1])])
    assert [node.path for node in report.refused] == ["a"]


def test_an_importer_that_fails_leaves_everything_as_it_was() -> None:
    def nodes() -> Iterator[Node]:
        yield vector("a", [1])
        raise RuntimeError("cannot be read")

    store = MemoryStore()
    for there in ({}, {"b": [1, 2]}):
        if there:
            write_hierarchy(store, [vector(path, values) for path, values in there.items()])
        before = dict(store._store_dict)
        with pytest.raises(RuntimeError, match="cannot be read"):
            write_hierarchy(store, nodes(), overwrite=bool(there))
        assert store._store_dict == before


# Over an earlier hierarchy ----------------------------------------------------------------


def test_a_hierarchy_is_not_replaced_unless_told() -> None:
    store = MemoryStore()
    write_hierarchy(store, [vector("a", [1])])
    before = dict(store._store_dict)
    with pytest.raises(WriteConflictError, match="overwrite=True"):
        write_hierarchy(store, [vector("a", [2])])
    assert store._store_dict == before


def test_replacing_by_the_same_changes_nothing(tmp_path: Path) -> None:
    nodes = [vector("a", [1, 2, 3]), GroupNode("g/h", {"x": 1}), vector("g/b", [3])]
    write_hierarchy(tmp_path, nodes, partition_shape=[2])
    before = files_below(tmp_path)
    report = write_hierarchy(tmp_path, nodes, partition_shape=[2], overwrite=True)
    assert files_below(tmp_path) == before
    assert report.notes == []


def test_earlier_nodes_are_replaced_and_removed(tmp_path: Path) -> None:
    root = tmp_path / "h"
    native = zarr.create_array(root, name="native", shape=2, chunks=1, dtype="u1")
    native[:] = [8, 9]
    write_hierarchy(
        root,
        [vector("a", [1, 2]), vector("gone", [3]), vector("g/inside", [4]), vector("was", [5])],
        overwrite=True,
    )
    zarr.create_array(root, name="was_native", shape=2, chunks=1, dtype="u1")[:] = [8, 9]
    report = write_hierarchy(
        root,
        [
            vector("a", [6, 7]),
            streamed("b", [8, 9]),
            vector("g", [10]),
            vector("was/array", [11]),
            vector("was_native", [12, 13]),
        ],
        overwrite=True,
    )
    group = zarr.open_group(zm.ManifestStore(root), mode="r")
    expected = {"a": [6, 7], "b": [8, 9], "g": [10], "was/array": [11], "was_native": [12, 13]}
    assert {path: read(root, path) for path in expected} == expected
    with pytest.warns(UserWarning, match="not recognized"):  # directories that are left
        assert set(dict(group.members(max_depth=None))) == {*expected, "was"}
    assert [path for path, _ in report.notes] == ["g/inside", "gone"]
    remaining = set(files_below(root))
    assert {path for path in remaining if path.startswith("was_native/c")}
    assert not {path for path in remaining if path.startswith(("gone", "g/inside", "was/man"))}
    assert zm.validate(root) == []


def test_consolidated_metadata_does_not_outlive_what_it_describes() -> None:
    store = MemoryStore()
    write_hierarchy(store, [vector("g/a", [1, 2]), vector("b", [3])], partition_shape=[1])
    with pytest.warns(UserWarning, match="onsolidated"):
        zarr.consolidate_metadata(zm.ManifestStore(store))
    write_hierarchy(store, [vector("g/a", [4, 5])], partition_shape=[1], overwrite=True)
    root = zarr.open_group(zm.ManifestStore(store), mode="r")
    assert root.metadata.consolidated_metadata is None
    assert read(store, "g/a") == [4, 5]


def everything(old: bool) -> list[Node]:
    shift = 0 if old else 100
    return [
        GroupNode("", {"old": old}),
        vector("whole", [1 + shift, 2 + shift, 3 + shift]),
        streamed("g/parts", [4 + shift, 5 + shift, 6 + shift]),
        vector("only old" if old else "only new", [7 + shift]),
    ]


OLD = {"whole": [1, 2, 3], "g/parts": [4, 5, 6], "only old": [7]}
NEW = {"whole": [101, 102, 103], "g/parts": [104, 105, 106], "only new": [107]}


def contents(store: MemoryStore) -> dict[str, list[int]] | None:
    """All arrays that are found from the root, if it can be opened."""
    try:
        root = zarr.open_group(zm.ManifestStore(store), mode="r")
    except FileNotFoundError:
        return None
    found = {p: read(store, p) for p, node in root.members(None) if isinstance(node, zarr.Array)}
    assert root.attrs["old"] == (found == OLD)
    return found


@pytest.mark.filterwarnings("ignore:Object at .* is not recognized")  # documents of no array yet
@pytest.mark.parametrize("there", [False, True])
def test_interrupted_anywhere(there: bool) -> None:
    """What opens is the old hierarchy or the new one, and never some nodes of both."""
    complete = False
    seen = []
    for left in itertools.count():
        store = InterruptedMemory()
        if there:
            write_hierarchy(store, everything(old=True))
        store.left = left
        try:
            write_hierarchy(store, everything(old=False), overwrite=there)
            complete = True
        except Interrupted:
            store.left = 10**9
        seen.append(contents(store))
        assert seen[-1] in ((OLD, None, NEW) if there else (None, NEW))
        if complete:
            break
        write_hierarchy(store, everything(old=False), overwrite=True)
        assert contents(store) == NEW
        assert "only old/zarr.json" not in store._store_dict
        assert zm.validate(store) == []
    assert left > 5
    # The old one stays while documents are written.
    assert not there or [found for found in seen if found == OLD][3:]


def test_an_interruption_while_nothing_but_one_array_changes() -> None:
    for left in range(8):
        store = InterruptedMemory()
        write_hierarchy(store, [vector("a", [1]), vector("b", [2])])
        store.left = left
        with contextlib.suppress(Interrupted):
            write_hierarchy(store, [vector("a", [3]), vector("b", [2])], overwrite=True)
        store.left = 10**9
        assert (read(store, "a"), read(store, "b")) in (([1], [2]), ([3], [2]))
        zarr.open_group(zm.ManifestStore(store), mode="r")


def test_a_root_of_another_kind() -> None:
    for before, after in itertools.permutations(
        [[vector("", [1, 2])], [vector("a", [3]), vector("g/b", [4])]]
    ):
        for left in itertools.count():
            store = InterruptedMemory()
            write_hierarchy(store, before)
            store.left = left
            try:
                write_hierarchy(store, after, overwrite=True)
            except Interrupted:
                store.left = 10**9
                root = zarr.open(zm.ManifestStore(store), mode="r")
                if isinstance(root, zarr.Array):
                    assert read(store, "") == [1, 2]
                else:
                    assert (read(store, "a"), read(store, "g/b")) == ([3], [4])
            else:
                assert left > 2
                assert zm.validate(store) == []
                break


def test_somebody_else_writes_a_node_meanwhile() -> None:
    store = ObjectStore(ObstoreMemoryStore())
    write_hierarchy(store, [vector("a", [1]), vector("b", [2])])

    def nodes() -> Iterator[Node]:
        yield vector("b", [3])
        zm.write_manifest(store, "a", {"0": {"data": b"\x09"}})
        yield vector("a", [4])

    with pytest.raises(WriteConflictError):
        write_hierarchy(store, nodes(), overwrite=True)
    assert read(store, "a") == [9]

    def others() -> Iterator[Node]:
        yield vector("b", [3])
        zm.write_manifest(store, "a", {"0": {"data": b"\x08"}})

    with pytest.raises(WriteConflictError, match="Nothing was replaced"):
        write_hierarchy(store, others(), overwrite=True)
    assert read(store, "a") == [8]
    assert read(store, "b") == [2]


# Sources ----------------------------------------------------------------------------------


def test_sources_that_travel_with_the_hierarchy(tmp_path: Path) -> None:
    root = tmp_path / "first" / "h"
    (root / "raw: ü%").mkdir(parents=True)
    (root / "raw: ü%" / "a b.bin").write_bytes(bytes([1, 2, 3]))
    (root / "x:y.bin").write_bytes(bytes([4, 5, 6]))
    nodes = []
    for name, path in (("g/a", root / "raw: ü%" / "a b.bin"), ("b", root / "x:y.bin")):
        manifest = zm.Manifest.from_columns(
            (3,), paths=f"file://{quote(str(path))}", offsets=[0, 1, 2], lengths=1
        )
        nodes.append(ArrayNode(name, metadata([3], [1]), manifest))
    write_hierarchy(root, nodes)
    moved = tmp_path / "second"
    (tmp_path / "first" / "h").rename(moved)
    assert read(moved, "g/a") == [1, 2, 3]
    assert read(moved, "b") == [4, 5, 6]


def test_other_sources_stay_absolute(tmp_path: Path) -> None:
    beside = tmp_path / "raw.bin"
    beside.write_bytes(bytes([1, 2]))
    manifest = zm.Manifest.from_columns((2,), paths=beside.as_uri(), offsets=[0, 1], lengths=1)
    write_hierarchy(tmp_path / "h", [ArrayNode("a", metadata([2], [1]), manifest)])
    document = json.loads((tmp_path / "h" / "a" / "manifest.json").read_text())
    assert document["0"]["path"] == beside.as_uri()
    declared = json.loads((tmp_path / "h" / "a" / "zarr.json").read_text())
    assert "base" not in declared["storage_transformers"][0]["configuration"]


def test_a_base_for_all(tmp_path: Path) -> None:
    for base, path, written in (
        ("raw/", "f.bin", "f.bin"),
        ("raw/", f"file://{tmp_path}/h/raw/f.bin", "f.bin"),
        ("raw/", f"file://{tmp_path}/h/f.bin", "../f.bin"),
        ("s3://b/d/", "s3://b/d/f.bin", "f.bin"),
        ("s3://b/d/", "f.bin", "f.bin"),
        ("s3://b/d/", "s3://b/e/f.bin", "s3://b/e/f.bin"),
        ("s3://b/d/", f"file://{tmp_path}/h/f.bin", f"file://{tmp_path}/h/f.bin"),
    ):
        manifest = zm.Manifest.from_columns((1,), paths=path)
        node = ArrayNode("g/a", metadata([1], [1]), manifest)
        write_hierarchy(tmp_path / "h", [node], base=base, inline_below=1000, overwrite=True)
        text = (tmp_path / "h" / "g" / "a" / "zarr.json").read_text()
        declared = json.loads(text)["storage_transformers"][0]["configuration"]
        assert declared["manifest"]["0"]["path"] == written
        assert declared["base"] == (f"../../{base}" if base == "raw/" else base)


SEGMENTS = st.lists(st.text("ab é:%+?#", min_size=1, max_size=3), min_size=1, max_size=3)


@given(
    st.sampled_from(["file", "s3"]),
    SEGMENTS,
    SEGMENTS,
    st.sampled_from([None, "a/", "a/b/"]),
    st.sampled_from(["", "g/x"]),
    st.booleans(),
)
@example("file", ["x"], ["a"], "a/", "", True)
@example("file", ["x"], ["a"], "a/b/", "g/x", True)
def test_a_path_names_the_same_object_after_it_was_made_relative(
    scheme: str,
    root: list[str],
    below: list[str],
    base: str | None,
    array: str,
    inside: bool,
) -> None:
    authority = "" if scheme == "file" else "bucket"
    directory = UrlLocation(scheme, authority, "/".join(root))
    source = UrlLocation(scheme, authority, "/".join([*(root if inside else ["z"]), *below]))
    manifest = zm.Manifest.from_columns((1,), paths=source.url)
    paths = SourcePaths([directory], base)
    rewritten, any_relative = paths.rewritten(manifest)
    declared = paths.base_of(array, any_relative=any_relative) or "./"
    found = Base.parse(declared, directory=array).resolve(rewritten.paths[0])
    if isinstance(found, StoreLocation):
        assert inside
        found = UrlLocation(scheme, authority, f"{directory.path}/{found.key}")
    assert found == source
    assert any_relative == inside


def test_a_bucket(s3_server: S3Server, s3_bucket: str) -> None:
    s3_server.put(s3_bucket, "h/raw/f.bin", bytes([1, 2, 3]))
    objects = S3Store.from_url(f"s3://{s3_bucket}/h", **s3_server.options)
    manifest = zm.Manifest.from_columns(
        (3,), paths=f"s3://{s3_bucket}/h/raw/f.bin", offsets=[0, 1, 2], lengths=1
    )
    node = ArrayNode("g/a", metadata([3], [1]), manifest)
    write_hierarchy(objects, [node], partition_shape=[1], codecs=["gzip"])
    assert read(objects, "g/a") == [1, 2, 3]
    assert zm.ManifestStore(objects).locations()[0].prefix is None


# Large ------------------------------------------------------------------------------------


def test_streamed_manifests_are_not_held_at_once(tmp_path: Path) -> None:
    count, partition = 200_000, 5_000

    def parts() -> Iterator[zm.Manifest]:
        for start in range(0, count, partition):
            rows = np.arange(start, start + partition)
            yield zm.Manifest.from_columns(
                (count,), chunks=rows[:, None], paths="s3://b/f.nc", offsets=rows * 100, lengths=100
            )

    node = ArrayNode("a", metadata([count], [1]), StreamedManifest((partition,), parts()))
    tracemalloc.start()
    report = write_hierarchy(tmp_path, [node])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.references == count
    size = sum(map(len, files_below(tmp_path).values()))
    assert size > 10_000_000
    assert peak < size / 2
