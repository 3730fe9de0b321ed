"""Writers say which partitions have a document, and zarr's resize keeps that true."""

from __future__ import annotations

import hashlib
import json
import math
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
from tests.hierarchies import consolidate, declared, files_below, read, without_partitions
from tests.properties import examples
from zarr_manifest.conversion import ArrayNode, StreamedManifest, write_hierarchy
from zarr_manifest.format import MOST_NAMES

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


def document(root: Path, partition: str) -> Path:
    """Return the only document that a partition has had."""
    (found,) = (root / "a" / "manifest").glob(f"{partition}-*.json")
    return found


# What is stated -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indices", "counts", "shape", "expected"),
    [
        ([(0, 0), (0, 1), (1, 0), (1, 1)], (2, 2), (1, 1), ["0.0", "0.1", "1.0", "1.1"]),
        ([(1, 1)], (2, 2), (2, 2), ["0.0"]),
        ([(1, 1)], (2, 2), (1, 1), ["1.1"]),
        ([], (2, 2), (1, 1), []),
        ([(10,), (2,)], (11,), (1,), ["2", "10"]),
        ([()], (), (), ["0"]),
        ([], (0, 3), (1, 1), []),  # there are no partitions
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_what_is_stated(
    tmp_path: Path,
    indices: list[Index],
    counts: Index,
    shape: Index,
    expected: list[str],
    plain: bool,
) -> None:
    """Names and checksums; only names of documents that people may edit, or that all are there."""
    options = {"manifest_url": "./manifest/{partition}.json"} if plain else {}
    create(tmp_path, indices, counts, shape, **options)
    found = stated(tmp_path)
    written = documents(tmp_path)
    if plain:
        number = math.prod(-(-n // p) for n, p in zip(counts, shape, strict=True))
        assert found == ("all" if len(expected) == number else expected)
        assert sorted(written) == sorted(f"{name}.json" for name in expected)
    else:
        assert list(found) == expected
        digests = {name: hashlib.sha256(body).hexdigest() for name, body in written.items()}
        assert digests == {
            f"{name}-{checksum.removeprefix('sha256:')[:16]}.json": checksum.removeprefix("sha256:")
            for name, checksum in found.items()
        }
    assert zm.validate(tmp_path) == []


def test_other_manifests_say_nothing(tmp_path: Path) -> None:
    create(tmp_path, [(0,)], (3,), (1,))
    for options in ({}, {"inline": True}):
        zm.write_manifest(tmp_path, "a", {}, **{"inline": False, **options})
        assert "partitions" not in declared(tmp_path, "a")[0]["configuration"]


@pytest.mark.parametrize("codecs", [[], ["gzip"]])
def test_partitions_in_any_order(tmp_path: Path, codecs: list[str]) -> None:
    """As a converter hands them over, one after the other."""
    indices = [(i,) for i in range(5)]
    parts = [
        zm.Manifest.from_columns((7,), paths="f", indices=np.array([index]))
        for index in random.Random(7).sample(indices, len(indices))
    ]
    node = ArrayNode("a", METADATA | {"shape": [7]}, StreamedManifest((1,), parts))
    report = write_hierarchy(tmp_path, [node], codecs=codecs, inline_below=0)
    assert (report.references, report.refused) == (len(indices), [])
    assert list(stated(tmp_path)) == [str(i) for i in range(5)]
    assert len(documents(tmp_path)) == 5


METADATA: dict[str, Any] = {
    "zarr_format": 3, "node_type": "array", "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
    "chunk_key_encoding": {"name": "default"}, "fill_value": FILL, "codecs": [{"name": "bytes"}],
}  # fmt: skip


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
    document(tmp_path, "2").unlink()
    zm.write_manifest(tmp_path, "a", entries([(0,), (2,)]), partition_shape=[1])
    assert read(zm.ManifestStore(tmp_path), "a").tolist() == [1, FILL, 3]


def test_an_edit_keeps_it(tmp_path: Path) -> None:
    create(tmp_path, [(0,), (2,)], (3,), (1,))
    with zm.edit(tmp_path) as root:
        root["a"].attrs["units"] = "K"
        zarr.consolidate_metadata(root.store)
    assert list(stated(tmp_path)) == ["0", "2"]
    group: Any = zarr.open_group(zm.ManifestStore(tmp_path), mode="r", use_consolidated=True)
    document(tmp_path, "2").unlink()
    with pytest.raises(zm.errors.ManifestNotFoundError):
        group["a"][:]


# Resizing -----------------------------------------------------------------------------


def resize(root: Any, shape: Index) -> None:
    with zm.edit(root) as group:
        sync(group["a"].async_array.resize(shape, delete_outside_chunks=False))


def test_growing_within_the_last_partition_changes_nothing(tmp_path: Path) -> None:
    create(tmp_path, [(i,) for i in range(3)], (3,), (2,))
    before = stated(tmp_path)
    resize(tmp_path, (4,))
    assert stated(tmp_path) == before
    assert read(zm.ManifestStore(tmp_path), "a").tolist() == [1, 2, 3, FILL]


@pytest.mark.slow
def test_growing_by_partitions(tmp_path: Path) -> None:
    create(tmp_path, [(i,) for i in range(4)], (4,), (2,))
    consolidate(tmp_path)
    resize(tmp_path, (7,))
    assert list(stated(tmp_path)) == ["0", "1"]
    for consolidated in (None, False):
        reader = zm.ManifestStore(tmp_path)
        group: Any = zarr.open_group(reader, mode="r", use_consolidated=consolidated)
        assert group["a"][:4].tolist() == [1, 2, 3, 4]
    assert read(zm.ManifestStore(tmp_path), "a").tolist() == [1, 2, 3, 4, FILL, FILL, FILL]
    lost = document(tmp_path, "1")
    body = lost.read_bytes()
    lost.unlink()
    with pytest.raises(zm.errors.ManifestNotFoundError):
        read(zm.ManifestStore(tmp_path), "a")
    lost.write_bytes(body)
    zm.write_manifest(tmp_path, "a", entries([(i,) for i in range(7)]), partition_shape=[2])
    assert list(stated(tmp_path)) == ["0", "1", "2", "3"]
    assert zm.validate(tmp_path) == []


def test_nothing_grows_to_something(tmp_path: Path) -> None:
    create(tmp_path, [], (0,), (1,))
    resize(tmp_path, (3,))
    assert stated(tmp_path) == {}
    assert read(zm.ManifestStore(tmp_path), "a").tolist() == [FILL] * 3


@pytest.mark.slow
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
        name = ".".join(map(str, index))
        for key in [key for key in contents if key.startswith(f"a/manifest/{name}-")]:
            body = contents.pop(key)
            with pytest.raises(zm.errors.ManifestNotFoundError):
                read(zm.ManifestStore(store), "a")
            contents[key] = body


def test_too_many_to_name(tmp_path: Path) -> None:
    """Where "all" is stated, without checksums."""
    plain = {"manifest_url": "./manifest/{partition}.json"}
    create(tmp_path, [(i,) for i in range(3)], (MOST_NAMES + 1,), (1,), **plain)
    document = tmp_path / "a" / "zarr.json"
    metadata = json.loads(document.read_text())
    metadata["storage_transformers"][0]["configuration"]["partitions"] = "all"
    document.write_text(json.dumps(metadata))
    before = files_below(tmp_path)
    for size in (MOST_NAMES + 2, MOST_NAMES):
        with pytest.raises(
            zm.errors.ReadOnlyError, match=r"larger partition_shape=\.\.\."
        ) as error:
            resize(tmp_path, (size,))
        assert error.value.array == "a"
    assert files_below(tmp_path) == before
    zm.write_manifest(tmp_path, "a", entries([(i,) for i in range(13)]), partition_shape=[2])
    resize(tmp_path, (MOST_NAMES + 2,))
    assert list(stated(tmp_path)) == [str(i) for i in range(7)]


def test_more_documents_than_readers_accept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zarr_manifest.writing.array_writer.MOST_NAMES", 4)
    with pytest.raises(zm.errors.LimitExceededError, match="more than 4 documents") as raised:
        create(tmp_path, [(i,) for i in range(5)], (5,), (1,))
    assert "partition_shape" in str(raised.value)
    assert not (tmp_path / "a" / "zarr.json").exists()
