"""Export to kerchunk's Parquet layout: fsspec reads it, and it comes back as it was."""

from __future__ import annotations

import base64
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

from tests.conversion.kerchunk.kerchunk_parquet_sets import open_with_fsspec
from tests.hierarchies import declare_manifest, write_manifest_array
from tests.properties import examples
from zarr_manifest import Manifest, ManifestError, ManifestStore, create_array
from zarr_manifest.conversion import (
    ArrayNode,
    ConversionReport,
    StreamedManifest,
    export_kerchunk_json,
    export_kerchunk_parquet,
    read_kerchunk_parquet,
    write_hierarchy,
)
from zarr_manifest.errors import SourceNotFoundError
from zarr_manifest.manifest import entry_of
from zarr_manifest.writing import write_manifest

# fsspec's choice of reader.
pytestmark = pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")

FIELD = np.arange(7 * 5, dtype="<i2").reshape(7, 5)


def hierarchy(root: Path) -> Path:
    """A hierarchy of many kinds of entries and arrays, and its sources."""
    zarr.create_group(root, attributes={"title": "sea", "nan": math.nan})
    zarr.create_group(root / "deep")
    (root / "raw").mkdir()
    source = root / "raw" / "a b%.bin"
    source.write_bytes(b"header" + FIELD.tobytes())
    (root / "raw" / "row.bin").write_bytes(FIELD[1:2].tobytes())
    row = 2 * FIELD.shape[1]
    manifest = {
        "0.0": {"path": "a%20b%25.bin", "offset": 6, "length": row},
        "1.0": {"path": "row.bin"},
        "2.0": {"path": source.as_uri(), "offset": 6 + 2 * row, "length": row},
        "3.0": {"data": base64.b64encode(FIELD[3:4].tobytes()).decode()},
        "5.0": {},
    }
    write_manifest_array(
        root, "deep/rows", FIELD, (1, 5), manifest, base="../../raw/", fill_value=-7,
        dimension_names=["y", "x"],
    )  # fmt: skip
    write_manifest_array(root, "scalar", np.array(2.5), (), {"0": {"data": "AAAAAAAABEA="}})
    write_manifest_array(root, "zero", np.empty((0, 3), "f4"), (1, 3), {})
    native = zarr.create_array(root / "native", shape=(5, 4), chunks=(2, 3), dtype=">i4")
    native[:3] = np.arange(12).reshape(3, 4)
    return root


@pytest.mark.slow
@pytest.mark.parametrize("record_size", [1, 2, 5, 1000])
def test_fsspec_reads_the_same_values(tmp_path: Path, record_size: int) -> None:
    root = hierarchy(tmp_path / "h")
    report = export_kerchunk_parquet(root, tmp_path / "refs.parq", record_size=record_size)
    assert (report.groups, report.arrays, report.refused) == (2, 4, [])
    assert report.references == 5 + 1 + 4
    # Two ranges of a row, two rows inline (one of them of fill values), and the scalar.
    assert report.stated_bytes == 4 * 2 * FIELD.shape[1] + 8
    theirs = open_with_fsspec(tmp_path / "refs.parq")
    ours = zarr.open_group(ManifestStore(root, allow=["file:///"]), mode="r")
    assert theirs.attrs["title"] == "sea"
    for path in ("deep/rows", "scalar", "zero", "native"):
        np.testing.assert_array_equal(theirs[path][...], ours[path][...])
    assert theirs["deep/rows"].attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]
    np.testing.assert_array_equal(ours["deep/rows"][:4], FIELD[:4])
    np.testing.assert_array_equal(ours["deep/rows"][4:], np.full((3, 5), -7))


@pytest.mark.slow
def test_members_that_kerchunk_cannot_hold_are_noted(tmp_path: Path) -> None:
    root = hierarchy(tmp_path / "h")
    checked = {
        "0": {"path": "s3://b/f", "etag": "x", "last_modified": "2024-01-01T00:00:00Z"},
        "1": {"data": "AAA=", "checksum": "crc32c:00000000"},
    }
    write_manifest_array(root, "checked", np.empty(2, "i2"), 1, checked)
    report = export_kerchunk_parquet(root, tmp_path / "refs.parq")
    assert report.notes == [
        ("checked", "the checksums of 1 chunk were left out"),
        ("checked", "the entity tags of 1 chunk were left out"),
        ("checked", "the modification times of 1 chunk were left out"),
        (
            "deep/rows",
            "missing chunks need the fill value -7, which xarray masks as missing in Zarr v2",
        ),
        ("deep/rows", "1 chunk marked as empty, now encoded fill values"),
    ]


def test_numbers_are_never_null_and_files_without_references_are_not_written(
    tmp_path: Path,
) -> None:
    manifest = {"5": {"path": "s3://b/f", "offset": 1, "length": 2}}
    write_manifest_array(tmp_path / "h", "x", np.empty(8, "u1"), 1, manifest)
    export_kerchunk_parquet(tmp_path / "h", tmp_path / "r", record_size=2)
    assert [file.name for file in (tmp_path / "r" / "x").iterdir()] == ["refs.2.parq"]
    found = pq.ParquetFile(tmp_path / "r" / "x" / "refs.2.parq")
    assert [found.schema.column(i).max_definition_level for i in range(4)] == [1, 0, 0, 1]
    assert found.read().to_pylist() == [
        {"path": None, "offset": 0, "size": 0, "raw": None},
        {"path": "s3://b/f", "offset": 1, "size": 2, "raw": None},
    ]


@pytest.mark.parametrize("largest", [20, 2**40])
def test_numbers_are_those_of_the_manifest(tmp_path: Path, largest: int) -> None:
    random = np.random.default_rng(0)
    offsets, sizes = random.integers(2**50, size=100), random.integers(1, largest, size=100)
    manifest = {
        str(number): {"path": "s3://b/f", "offset": offset, "length": length}
        for number, (offset, length) in enumerate(
            zip(offsets.tolist(), sizes.tolist(), strict=True)
        )
    }
    write_manifest_array(tmp_path / "h", "x", np.empty(100, "u1"), 1, manifest)
    export_kerchunk_parquet(tmp_path / "h", tmp_path / "r", record_size=100)
    file = tmp_path / "r" / "x" / "refs.0.parq"
    for engine in ("fastparquet", "pyarrow"):
        found = pd.read_parquet(file, engine=engine)
        np.testing.assert_array_equal(found["offset"], offsets)
        np.testing.assert_array_equal(found["size"], sizes)


def test_inline_data_that_looks_like_base64_survives(tmp_path: Path) -> None:
    data = b"base64:Y"
    manifest = {"0": {"data": base64.b64encode(data).decode()}}
    zarr.create_group(tmp_path / "h")
    write_manifest_array(tmp_path / "h", "x", np.empty(8, "u1"), 8, manifest)
    export_kerchunk_parquet(tmp_path / "h", tmp_path / "r")
    assert open_with_fsspec(tmp_path / "r")["x"][:].tobytes() == data


@pytest.mark.slow
def test_groups_without_metadata_can_be_opened(tmp_path: Path) -> None:
    write_manifest_array(tmp_path / "h", "a/b/x", np.empty(1, "u1"), 1, {"0": {"data": "AQ=="}})
    report = export_kerchunk_parquet(tmp_path / "h", tmp_path / "r")
    assert (report.groups, report.arrays) == (3, 1)
    assert open_with_fsspec(tmp_path / "r")["a"]["b"]["x"][:].tolist() == [1]


# There and back ---------------------------------------------------------------------


ENTRIES = st.one_of(
    st.fixed_dictionaries(
        {"path": st.sampled_from(["s3://b/a%20b.nc", "https://h/f.nc?q=1", "file:///d/%25"])},
        optional={"length": st.integers(1, 2**40)},
    ),
    st.fixed_dictionaries(
        {
            "path": st.sampled_from(["s3://b/a%20b.nc", "gs://b/c:d.nc"]),
            "offset": st.integers(0, 2**40),
            "length": st.integers(1, 2**40),
        }
    ),
    st.fixed_dictionaries(
        {"path": st.just("s3://b/v.nc"), "length": st.just(3), "version": st.just("v1")}
    ),
    st.binary(min_size=1, max_size=9).map(lambda data: {"data": data}),
)


@st.composite
def manifests(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[tuple[int, ...], dict[str, Any]]]:
    grid = tuple(draw(st.lists(st.integers(1, 5), max_size=3)))
    index = st.tuples(*(st.integers(0, n - 1) for n in grid))
    return grid, draw(st.dictionaries(index, ENTRIES, max_size=40))


@pytest.mark.slow
@examples(0.4)
@given(manifests(), st.integers(1, 12), st.integers(0, 30), st.data())
def test_manifest_to_parquet_to_manifest(
    found: tuple[tuple[int, ...], dict[tuple[int, ...], dict[str, Any]]],
    record_size: int,
    stream_above: int,
    data: st.DataObject,
) -> None:
    grid, entries = found
    shapes = st.none() | st.tuples(*(st.integers(1, 6) for _ in grid))
    partition_shape = data.draw(shapes)
    with tempfile.TemporaryDirectory() as directory:
        root, target = Path(directory, "h"), Path(directory, "r")
        zarr.create_group(root)
        zarr.create_array(root / "x", shape=grid, chunks=(1,) * len(grid), dtype="i4")
        write_manifest(root, "x", entries, partition_shape=partition_shape)
        report = export_kerchunk_parquet(root, target, record_size=record_size)
        assert report.references == len(entries)
        (again,) = (
            node
            for node in read_kerchunk_parquet(target, stream_above=stream_above)
            if isinstance(node, ArrayNode)
        )
        found_again = (
            list(again.manifest.parts)
            if isinstance(again.manifest, StreamedManifest)
            else [again.manifest]
        )
    stated = Manifest.loads(_document(entries), grid_shape=grid)
    assert [pair for part in found_again for pair in _items(part)] == _items(stated)


def _items(manifest: Manifest) -> list[Any]:
    return [(index, entry_of(reference)) for index, reference in manifest.items()]


def _document(entries: dict[tuple[int, ...], dict[str, Any]]) -> bytes:
    def plain(entry: dict[str, Any]) -> dict[str, Any]:
        if "data" in entry:
            return {"data": base64.b64encode(entry["data"]).decode()}
        return entry

    keys = {".".join(map(str, index)) or "0": plain(entry) for index, entry in entries.items()}
    return json.dumps(keys).encode()


@pytest.mark.slow
def test_set_to_hierarchy_to_set(tmp_path: Path) -> None:
    export_kerchunk_parquet(hierarchy(tmp_path / "h"), tmp_path / "one", record_size=3)
    write_hierarchy(tmp_path / "again", read_kerchunk_parquet(tmp_path / "one"))
    export_kerchunk_parquet(tmp_path / "again", tmp_path / "two", record_size=3)
    files = sorted(f.relative_to(tmp_path / "one") for f in (tmp_path / "one").rglob("*.parq"))
    assert files == sorted(
        f.relative_to(tmp_path / "two") for f in (tmp_path / "two").rglob("*.parq")
    )
    for file in files:
        assert pq.read_table(tmp_path / "one" / file) == pq.read_table(tmp_path / "two" / file)
    first, second = (
        json.loads((tmp_path / name / ".zmetadata").read_text())["metadata"]["deep/rows/.zarray"]
        for name in ("one", "two")
    )
    assert first == second


# Refusals -----------------------------------------------------------------------------


@pytest.mark.slow
def test_what_cannot_be_expressed_is_refused_by_name(tmp_path: Path) -> None:
    root = hierarchy(tmp_path / "h")
    # A later partition is found to be wrong when a file is written already.
    open_ended = {"0": {"path": "s3://b/f", "length": 1}, "3": {"path": "s3://b/f", "offset": 5}}
    write_manifest_array(root, "open_ended", np.empty(4, "u1"), 1, {})
    write_manifest(root, "open_ended", open_ended, partition_shape=[1])
    zarr.create_array(root / "sharded", shape=8, chunks=(2,), shards=(4,), dtype="u1")
    zarr.create_array(root / ".zhidden", shape=8, chunks=2, dtype="u1")
    zarr.create_group(root / "old", zarr_format=2)
    bad = write_manifest_array(root, "bad", np.empty(4, "u1"), 1, {})
    declare_manifest(bad, {"0": {"length": 1}})
    report = export_kerchunk_parquet(root, tmp_path / "r", record_size=2)
    assert {node.path: node.code for node in report.refused} == {
        "open_ended": "not_convertible",
        "sharded": "not_convertible",
        ".zhidden": "not_convertible",
        "old": "not_convertible",
        "bad": "invalid_entry",
    }
    assert not (tmp_path / "r" / "open_ended").exists()
    assert report.arrays == 4
    assert "open_ended/.zarray" not in (tmp_path / "r" / ".zmetadata").read_text()


@pytest.mark.parametrize("export", [export_kerchunk_json, export_kerchunk_parquet])
@pytest.mark.parametrize("target", ["missing/refs", "file/refs"])
def test_a_target_without_a_directory(tmp_path: Path, export: Any, target: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceNotFoundError) as raised:
        export(hierarchy(tmp_path / "h"), tmp_path / target)
    assert raised.value.location == (tmp_path / target).parent.as_uri()
    assert "existing directory" in str(raised.value)


@pytest.mark.parametrize("export", [export_kerchunk_json, export_kerchunk_parquet])
def test_partitions_without_a_document_cost_no_time(
    tmp_path: Path, export: Callable[..., ConversionReport]
) -> None:
    root = tmp_path / "h"
    zarr.create_group(root)
    entries = {"7": {"path": "s3://b/f", "offset": 0, "length": 1}}
    options: dict[str, Any] = {"shape": 10**12, "chunks": 1, "dtype": "u1"}
    create_array(root, "wide", entries, partition_shape=[1], **options)
    report = export(root, tmp_path / "refs")
    assert (report.references, report.refused) == (1, [])


@pytest.mark.parametrize("partition_shape", [None, [2, 10**9], [3, 10**8]])
def test_gaps_between_references_cost_no_time(
    tmp_path: Path, partition_shape: list[int] | None
) -> None:
    root = tmp_path / "h"
    zarr.create_group(root)
    n = 10**9 + 3
    rows = [(0, 0), (2, n - 1), (3, 0), (4, 5), (10, n - 1)]
    entries = {f"{i}.{j}": {"path": "s3://b/f", "offset": i, "length": j + 1} for i, j in rows}
    partitions = {} if partition_shape is None else {"partition_shape": partition_shape}
    options: dict[str, Any] = {"shape": (11, n), "chunks": (1, 1), "dtype": "u1"}
    create_array(root, "wide", entries, **partitions, **options)
    report = export_kerchunk_parquet(root, tmp_path / "refs.parq", record_size=3)
    assert (report.references, report.refused) == (len(rows), [])
    stored = {
        (int(file.name.split(".")[1]) * 3 + row): (reference["offset"], reference["size"])
        for file in (tmp_path / "refs.parq" / "wide").iterdir()
        for row, reference in enumerate(pq.read_table(file).to_pylist())
        if reference["path"] is not None
    }
    assert stored == {i * n + j: (i, j + 1) for i, j in rows}


def test_native_arrays_with_a_vast_grid(tmp_path: Path) -> None:
    root = tmp_path / "h"
    zarr.create_group(root)
    array = zarr.create_array(root / "a", shape=10**15, chunks=1, dtype="u1")
    array[10**14] = 5
    report = export_kerchunk_parquet(root, tmp_path / "refs.parq")
    assert (report.references, report.refused) == (1, [])
    assert (tmp_path / "refs.parq" / "a" / f"refs.{10**10}.parq").is_file()


def test_an_array_at_the_root_is_refused(tmp_path: Path) -> None:
    write_manifest_array(tmp_path / "h", "", np.empty(4, "u1"), 1, {"0": {"path": "s3://b/f"}})
    report = export_kerchunk_parquet(tmp_path / "h", tmp_path / "r")
    assert [node.path for node in report.refused] == [""]
    assert "JSON" in report.refused[0].reason


def test_a_store_without_a_url_is_refused_where_it_matters(tmp_path: Path) -> None:
    store = MemoryStore()
    group = zarr.create_group(store)
    group.create_array("native", shape=4, chunks=2, dtype="u1")[:] = 1
    group.create_array("empty", shape=4, chunks=2, dtype="u1")
    report = export_kerchunk_parquet(store, tmp_path / "r")
    assert [(node.path, "no URL" in node.reason) for node in report.refused] == [("native", True)]
    assert report.arrays == 1


def test_errors_of_the_whole(tmp_path: Path) -> None:
    root = hierarchy(tmp_path / "h")
    (tmp_path / "nothing").mkdir()
    for location, target, words, code in (
        (root, tmp_path / "h", "the target exists", "write_conflict"),
        (root, "s3://bucket/refs.parq", "local file system", "not_convertible"),
        (tmp_path / "nothing", tmp_path / "r", "no Zarr hierarchy", "source_not_found"),
    ):
        with pytest.raises(ManifestError, match=words) as caught:
            export_kerchunk_parquet(location, target)
        assert caught.value.code == code
    with pytest.raises(ValueError, match="record_size"):
        export_kerchunk_parquet(root, tmp_path / "r", record_size=0)
