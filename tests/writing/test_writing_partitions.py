"""Writers say which partitions have a document, and zarr's resize keeps that true."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.core.sync import sync
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.hierarchies import declared, files_below, read, without_partitions
from tests.properties import examples
from zarr_manifest.conversion import ArrayNode, StreamedManifest, write_hierarchy
from zarr_manifest.format import partition_names
from zarr_manifest.hierarchy import changing

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")

type Index = tuple[int, ...]

FILL = 99


def entries(indices: Iterable[Index]) -> dict[Index, dict[str, Any]]:
    return {index: {"data": bytes([sum(index) + 1])} for index in indices}


def create(
    root: Any, indices: Iterable[Index], counts: Index, shape: Index, **options: Any
) -> None:
    zm.create_array(
        root, "a", entries(indices), shape=counts, chunks=(1,) * len(counts), dtype="u1",
        fill_value=FILL, partition_shape=shape, **options,
    )  # fmt: skip


def stated(root: Any) -> Any:
    return declared(root, "a")[0]["configuration"]["partitions"]


def documents(root: Path) -> dict[str, bytes]:
    return {k.rpartition("/")[2]: v for k, v in files_below(root / "a").items() if "manifest" in k}


# What is stated -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indices", "counts", "shape", "expected"),
    [
        ([(0, 0), (0, 1), (1, 0), (1, 1)], (2, 2), (1, 1), "all"),
        ([(1, 1)], (2, 2), (2, 2), "all"),
        ([(1, 1)], (2, 2), (1, 1), ["0.0", "1.1"]),  # the first is always written
        ([(0, 1), (1, 0), (1, 1)], (2, 2), (1, 1), "all"),
        ([], (2, 2), (1, 1), ["0.0"]),
        ([(10,), (2,)], (11,), (1,), ["0", "2", "10"]),
        ([()], (), (), "all"),
        ([], (0, 3), (1, 1), "all"),  # there are no partitions
    ],
)
def test_what_is_stated(
    tmp_path: Path, indices: list[Index], counts: Index, shape: Index, expected: Any
) -> None:
    create(tmp_path, indices, counts, shape)
    assert stated(tmp_path) == expected
    assert zm.validate(tmp_path) == []


def test_other_manifests_say_nothing(tmp_path: Path) -> None:
    create(tmp_path, [(0,)], (3,), (1,))
    for options in ({}, {"inline": True}):
        zm.write_manifest(tmp_path, "a", {}, **{"inline": False, **options})
        assert "partitions" not in declared(tmp_path, "a")[0]["configuration"]


FEW, MOST = 4, 12


@pytest.fixture
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_names, "_FEW_NAMES", FEW)
    monkeypatch.setattr(partition_names, "MOST_NAMES", MOST)
    monkeypatch.setattr(changing, "MOST_NAMES", MOST)


def write_at_once(root: Path, indices: list[Index], count: int) -> None:
    create(root, indices, (count,), (1,), codecs=["gzip"])


def write_in_parts(root: Path, indices: list[Index], count: int) -> None:
    parts = [
        zm.Manifest.from_columns((count,), paths="f", indices=np.array([index]))
        for index in random.Random(count).sample(indices, len(indices))
    ]
    node = ArrayNode("a", METADATA | {"shape": [count]}, StreamedManifest((1,), parts))
    report = write_hierarchy(root, [node], codecs=["gzip"], inline_below=0)
    assert (report.references, report.refused) == (len(indices), [])


METADATA: dict[str, Any] = {
    "zarr_format": 3, "node_type": "array", "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
    "chunk_key_encoding": {"name": "default"}, "fill_value": FILL, "codecs": [{"name": "bytes"}],
}  # fmt: skip


@pytest.mark.usefixtures("small_numbers")
@pytest.mark.parametrize("write", [write_at_once, write_in_parts])
@pytest.mark.parametrize(
    ("number", "count", "written", "in_short"),
    [
        (FEW, MOST, FEW, False),
        (FEW + 1, FEW + 1, FEW + 1, True),
        (FEW + 1, MOST, MOST, True),
        (FEW + 1, MOST + 1, FEW + 1, False),
    ],
)
def test_a_long_list_is_avoided_by_empty_documents(
    tmp_path: Path, write: Any, number: int, count: int, written: int, in_short: bool
) -> None:
    indices: list[Index] = [(i,) for i in range(number)]
    write(tmp_path, indices, count)
    names = stated(tmp_path)
    assert names == "all" if in_short else names == [str(i) for i in range(number)]
    assert len(documents(tmp_path)) == written
    assert zm.validate(tmp_path) == []
    before = files_below(tmp_path)
    if write is write_at_once:
        zm.write_manifest(tmp_path, "a", entries(indices), codecs=["gzip"], partition_shape=[1])
        assert files_below(tmp_path) == before


def test_a_declaration_that_does_not_say_it_is_completed(tmp_path: Path) -> None:
    """By writing the same again; the documents stay."""
    create(tmp_path, [(0,), (2,)], (3,), (1,))
    document = tmp_path / "a" / "zarr.json"
    complete = json.loads(document.read_text())
    document.write_bytes(without_partitions(document.read_bytes()))
    before = documents(tmp_path)
    zm.write_manifest(tmp_path, "a", entries([(0,), (2,)]), partition_shape=[1])
    assert json.loads(document.read_text()) == complete
    assert documents(tmp_path) == before


def test_what_was_lost_is_written_again(tmp_path: Path) -> None:
    create(tmp_path, [(0,), (2,)], (3,), (1,))
    (tmp_path / "a" / "manifest" / "2.json").unlink()
    zm.write_manifest(tmp_path, "a", entries([(0,), (2,)]), partition_shape=[1])
    assert read(zm.ManifestStore(tmp_path), "a").tolist() == [1, FILL, 3]


def test_zarr_s_own_writes_keep_it(tmp_path: Path) -> None:
    create(tmp_path, [(0,), (2,)], (3,), (1,))
    store = zm.ManifestStore(tmp_path)
    zarr.open_array(store, path="a", mode="r+").attrs["units"] = "K"
    assert stated(tmp_path) == ["0", "2"]
    zarr.consolidate_metadata(store)
    group: Any = zarr.open_group(zm.ManifestStore(tmp_path), mode="r", use_consolidated=True)
    (tmp_path / "a" / "manifest" / "2.json").unlink()
    with pytest.raises(zm.errors.ManifestNotFoundError):
        group["a"][:]


# Resizing -----------------------------------------------------------------------------


def resize(root: Any, shape: Index) -> None:
    with zm.edit(root) as group:
        sync(group["a"].async_array.resize(shape, delete_outside_chunks=False))


def test_growing_within_the_last_partition_changes_nothing(tmp_path: Path) -> None:
    create(tmp_path, [(i,) for i in range(3)], (3,), (2,))
    resize(tmp_path, (4,))
    assert stated(tmp_path) == "all"
    assert read(zm.ManifestStore(tmp_path), "a").tolist() == [1, 2, 3, FILL]


def test_growing_by_partitions(tmp_path: Path) -> None:
    create(tmp_path, [(i,) for i in range(4)], (4,), (2,))
    zarr.consolidate_metadata(zm.ManifestStore(tmp_path))
    resize(tmp_path, (7,))
    assert stated(tmp_path) == ["0", "1"]
    for consolidated in (None, False):
        reader = zm.ManifestStore(tmp_path)
        group: Any = zarr.open_group(reader, mode="r", use_consolidated=consolidated)
        assert group["a"][:4].tolist() == [1, 2, 3, 4]
    assert read(zm.ManifestStore(tmp_path), "a").tolist() == [1, 2, 3, 4, FILL, FILL, FILL]
    lost = tmp_path / "a" / "manifest" / "1.json"
    body = lost.read_bytes()
    lost.unlink()
    with pytest.raises(zm.errors.ManifestNotFoundError):
        read(zm.ManifestStore(tmp_path), "a")
    lost.write_bytes(body)
    zm.write_manifest(tmp_path, "a", entries([(i,) for i in range(7)]), partition_shape=[2])
    assert stated(tmp_path) == "all"
    assert zm.validate(tmp_path) == []


def test_nothing_grows_to_something(tmp_path: Path) -> None:
    create(tmp_path, [], (0,), (1,))
    resize(tmp_path, (3,))
    assert stated(tmp_path) == []
    assert read(zm.ManifestStore(tmp_path), "a").tolist() == [FILL] * 3


@given(
    st.tuples(st.integers(1, 5), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=3),
    st.data(),
)
@examples(0.6)
def test_any_resizing_reads_as_a_whole_manifest_does(
    counts: Index, shape: Index, sizes: list[Index], data: st.DataObject
) -> None:
    """Also chunks that come back into the array, and no document can be lost afterwards."""
    indices = data.draw(st.sets(st.sampled_from(list(np.ndindex(*counts)))))
    indices |= data.draw(st.sampled_from([set(), set(np.ndindex(*counts))]))
    contents: dict[str, Any] = {}
    store, whole = MemoryStore(contents), MemoryStore()
    create(store, indices, counts, shape)
    zm.create_array(
        whole,
        "a",
        entries(indices),
        shape=counts,
        chunks=(1, 1),
        dtype="u1",
        fill_value=FILL,
        inline=False,
    )
    for size in sizes:
        for root in (store, whole):
            resize(root, size)
        found = read(zm.ManifestStore(store), "a")
        np.testing.assert_array_equal(found, read(zm.ManifestStore(whole), "a"))
    region = [-(-n // p) for n, p in zip(sizes[-1], shape, strict=True)]
    for index in np.ndindex(*region):
        key = f"a/manifest/{'.'.join(map(str, index))}.json"
        if key in contents:
            body = contents.pop(key)
            with pytest.raises(zm.errors.ManifestNotFoundError):
                read(zm.ManifestStore(store), "a")
            contents[key] = body


@pytest.mark.usefixtures("small_numbers")
def test_too_many_to_name(tmp_path: Path) -> None:
    create(tmp_path, [(i,) for i in range(MOST + 1)], (MOST + 1,), (1,))
    assert stated(tmp_path) == "all"
    before = files_below(tmp_path)
    for size in (MOST + 2, MOST):
        with pytest.raises(
            zm.errors.ReadOnlyError, match=r"larger partition_shape=\.\.\."
        ) as error:
            resize(tmp_path, (size,))
        assert error.value.array == "a"
    assert files_below(tmp_path) == before
    zm.write_manifest(tmp_path, "a", entries([(i,) for i in range(MOST + 1)]), partition_shape=[2])
    resize(tmp_path, (MOST + 3,))
    assert stated(tmp_path) == [str(i) for i in range(7)]
