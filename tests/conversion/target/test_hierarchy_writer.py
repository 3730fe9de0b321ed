"""Nodes become a hierarchy, which reads as the nodes say; what cannot be is reported."""

from __future__ import annotations

import itertools
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import zarr
from hypothesis import example, given
from hypothesis import strategies as st
from obstore.store import S3Store
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.conversion.inline_nodes import inline_manifest, metadata, read, streamed, vector
from tests.hierarchies import declared, document_of, files_below
from tests.properties import examples
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import (
    ArrayNode,
    GroupNode,
    Node,
    RefusedNode,
    StreamedManifest,
    write_hierarchy,
)
from zarr_manifest.conversion.target import SourcePaths
from zarr_manifest.locations import Base, StoreLocation, UrlLocation

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
    paths = draw(st.lists(PATH, unique=True, max_size=5))
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


@pytest.mark.slow
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
@examples(0.4)
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
    report = write_hierarchy(store, nodes, **{"inline_below": 0, **options})
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
        assert any(key.startswith("a/manifest-") for key in store._store_dict) is not inline


def test_partition_shapes() -> None:
    store = MemoryStore()
    write_hierarchy(
        store,
        [vector("few", [1, 2]), vector("many", [1, 2, 3]), vector("other", [1, 2, 3])],
        partition_shape={"many": [2], "few": [1]},
    )
    keys = sorted(key for key in store._store_dict if not key.endswith("zarr.json"))
    assert [key.partition("-")[0] for key in keys] == [
        "few/manifest/0", "few/manifest/1", "many/manifest/0", "many/manifest/1",
    ]  # fmt: skip


def test_progress_and_notes() -> None:
    calls: list[tuple[str, int, int | None]] = []
    report = write_hierarchy(
        MemoryStore(),
        [vector("a", [1, 2], notes=("a decision",)), streamed("b", [1, 2, 3], 2)],
        progress=lambda *step: calls.append(step),
        inline_below=0,
    )
    assert calls == [("a", 2, None), ("b", 4, None), ("b", 5, None)]
    assert report.notes == [("a", "a decision")]
    assert str(report) == ("1 group, 2 arrays, 5 references to 5 B\n1 note:\n  /a: a decision")


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
    report = write_hierarchy(store, [vector("a", [1]), bad, vector("z", [2])], inline_below=0)
    (refused,) = report.refused
    assert refused.path == "x"
    assert refused.reason
    assert refused.code in str(report)
    assert report.arrays == report.references == report.stated_bytes == 2
    assert (read(store, "a"), read(store, "z")) == ([1], [2])
    assert "x/zarr.json" not in store._store_dict
    assert zm.validate(store) == []


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../up", "a/../../b", "a//b", ".", "__secret", "zarr.json", "a\\b", "a\nb", "..."),
        *("\0", "n" * 5000, "/".join(["n" * 200] * 25), "é" * 200),
    ],
)
def test_names_that_are_none(tmp_path: Path, path: str) -> None:
    root = tmp_path / "inside" / "h"
    nodes = [vector(path, [1]), GroupNode(path, {}), vector("b", [2])]
    code = "invalid_path" if len(path) >= 200 else "not_convertible"
    for overwrite in (False, True):
        report = write_hierarchy(root, nodes, inline_below=0, overwrite=overwrite)
        assert [node.code for node in report.refused] == [code] * 2
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {
        root / "zarr.json", root / "b" / "zarr.json", document_of(root, "b")
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
        inline_below=0,
    )
    assert [(node.path, node.reason) for node in report.refused] == [
        ("a", "there is already a node at this path"),
        ("a/b", "the node lies below an array, 'a'"),
        ("g", "there are nodes below it, but only groups have members"),
        ("", "there are nodes below it, but only groups have members"),
        ("g", "there is already a node at this path"),
    ]
    report = write_hierarchy(MemoryStore(), [vector("", [1]), vector("a", [1])], inline_below=0)
    assert [node.path for node in report.refused] == ["a"]


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
    write_hierarchy(root, nodes, inline_below=0)
    moved = tmp_path / "second"
    (tmp_path / "first" / "h").rename(moved)
    assert read(moved, "g/a") == [1, 2, 3]
    assert read(moved, "b") == [4, 5, 6]


def _written(root: Path, source: Path) -> tuple[str, str | None]:
    """Return the path of a source and the base, as they are written."""
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_bytes(bytes([1, 2]))
    manifest = zm.Manifest.from_columns((2,), paths=source.as_uri(), offsets=[0, 1], lengths=1)
    write_hierarchy(root, [ArrayNode("a", metadata([2], [1]), manifest)], inline_below=0)
    document = json.loads(document_of(root, "a").read_text())
    return document["0"]["path"], declared(root, "a")[0]["configuration"].get("base")


def test_sources_beside_the_hierarchy_become_relative(tmp_path: Path) -> None:
    source = tmp_path / "archive" / "raw.bin"
    assert _written(tmp_path / "h", source) == ("../archive/raw.bin", "../")


def test_other_sources_stay_absolute(tmp_path: Path) -> None:
    source = tmp_path / "elsewhere" / "raw.bin"
    assert _written(tmp_path / "here" / "h", source) == (source.as_uri(), None)


def test_sources_beside_a_link_to_the_hierarchy_stay_absolute(tmp_path: Path) -> None:
    (tmp_path / "here" / "h").mkdir(parents=True)
    (tmp_path / "h").symlink_to("here/h")
    source = tmp_path / "archive" / "raw.bin"
    assert _written(tmp_path / "h", source) == (source.as_uri(), None)


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
        configuration = declared(tmp_path / "h", "g/a")[0]["configuration"]
        assert configuration["manifest"]["0"]["path"] == written
        assert configuration["base"] == (f"../../{base}" if base == "raw/" else base)


SEGMENTS = st.lists(st.text("ab é:%+?#", min_size=1, max_size=3), min_size=1, max_size=3)


@given(
    st.sampled_from(["file", "s3"]),
    SEGMENTS,
    SEGMENTS,
    st.sampled_from([None, "a/", "a/b/", "../a/"]),
    st.sampled_from(["", "g/x"]),
    st.sampled_from(["inside", "beside", "elsewhere"]),
)
@example("file", ["x"], ["a"], "a/", "", "inside")
@example("file", ["x"], ["a"], "a/b/", "g/x", "inside")
@example("file", ["a"], ["x"], None, "g/x", "beside")
def test_a_path_names_the_same_object_after_it_was_made_relative(
    scheme: str,
    root: list[str],
    below: list[str],
    base: str | None,
    array: str,
    place: str,
) -> None:
    authority = "" if scheme == "file" else "bucket"
    directory = UrlLocation(scheme, authority, "/".join(["d", *root]))
    above = {"inside": ["d", *root], "beside": ["d", *root[:-1], "z"], "elsewhere": ["z"]}[place]
    source = UrlLocation(scheme, authority, "/".join([*above, *below]))
    manifest = zm.Manifest.from_columns((1,), paths=source.url)
    paths = SourcePaths([directory], base)
    rewritten, any_relative = paths.rewritten(manifest)
    stated = paths.base_of(array, any_relative=any_relative) or "./"
    found = Base.parse(stated, directory=array, root=directory).resolve(rewritten.paths[0])
    if isinstance(found, StoreLocation):
        assert place == "inside"
        found = UrlLocation(scheme, authority, f"{directory.path}/{found.key}")
    assert found == source
    assert any_relative == (place != "elsewhere")


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


@pytest.mark.slow
def test_streamed_manifests_are_not_held_at_once(tmp_path: Path) -> None:
    count, partition = 400_000, 5_000

    def parts() -> Iterator[zm.Manifest]:
        for start in range(0, count, partition):
            rows = np.arange(start, start + partition)
            yield zm.Manifest.from_columns(
                (count,),
                indices=rows[:, None],
                paths="s3://b/f.nc",
                offsets=rows * 100,
                lengths=100,
            )

    node = ArrayNode("a", metadata([count], [1]), StreamedManifest((partition,), parts()))
    tracemalloc.start()
    report = write_hierarchy(tmp_path, [node], inline_below=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.references == count
    size = sum(map(len, files_below(tmp_path).values()))
    assert size > 10_000_000
    assert peak < size / 2


@pytest.mark.slow
def test_an_array_of_a_new_hierarchy_takes_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else sees it yet: nothing is read or locked for each array."""
    opened: list[object] = []
    open_file = os.open

    def count(*arguments: Any, **options: Any) -> int:
        opened.append(arguments)
        return open_file(*arguments, **options)

    monkeypatch.setattr(os, "open", count)
    counts: list[int] = []
    for number in (10, 40):
        opened.clear()
        nodes = [vector(f"a{n}", [n]) for n in range(number)]
        write_hierarchy(tmp_path / str(number), nodes, inline_below=1000)
        counts.append(len(opened))
    # Twice the root and the directory of the array; and its metadata, under their first name.
    assert (counts[1] - counts[0]) / 30 <= 6
