"""Export to kerchunk's JSON: round trips, and fsspec's own reading of what was exported."""

from __future__ import annotations

import base64
import json
import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import FsspecStore, MemoryStore

from tests.combinations import crossed
from tests.conversion.kerchunk.kerchunk_sets import (
    ZGROUP,
    assert_equal,
    hdf5_references,
    read_as_manifests,
    read_by_fsspec,
    read_hierarchy,
    values_of,
    zarray,
)
from tests.conversion.zarr2.zarr2_arrays import has_codec
from tests.hierarchies import files_below
from tests.properties import examples
from zarr_manifest import ManifestError, ManifestStore, create_array, write_manifest
from zarr_manifest.conversion import (
    ConversionReport,
    export_kerchunk_json,
    export_kerchunk_parquet,
    read_kerchunk_json,
    write_hierarchy,
)
from zarr_manifest.errors import NotConvertibleError, WriteConflictError

# Round trips -----------------------------------------------------------------------

REFERENCES = st.one_of(
    st.binary(min_size=1, max_size=9).map(lambda data: "base64:" + base64.b64encode(data).decode()),
    st.sampled_from(["text", "{{not a template}}"]),
    st.sampled_from(["s3://b/a b%20+#?.nc", "https://h/a%20b?x=1", "file:///nowhere/ü"]).map(
        lambda url: [url]
    ),
    st.tuples(
        st.sampled_from(["s3://b/a b%20.nc", "s3://b/{{u}}", "s3://b/a.nc?versionId=x"]),
        st.integers(0, 2**50),
        st.integers(1, 2**50),
    ).map(list),
)


def export(location: Any, **options: Any) -> tuple[dict[str, Any], ConversionReport]:
    """Export to a file, and return what it has, with the report."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "references.json"
        report = export_kerchunk_json(location, target, **options)
        return json.loads(target.read_text()), report


def exported_references(location: Any, **options: Any) -> dict[str, Any]:
    references, report = export(location, **options)
    assert report.refused == []
    return references


def content(value: Any) -> Any:
    """What a reference is, however it is written."""
    if isinstance(value, str):
        encoded = value.removeprefix("base64:")
        return base64.b64decode(encoded) if encoded != value else value.encode()
    return value


@pytest.mark.slow
@examples(0.6)
@given(
    st.dictionaries(
        st.sampled_from(["a", "g/b", "g/a b%"]),
        st.tuples(st.lists(st.integers(0, 4), max_size=3), st.data()),
        max_size=3,
    ),
    st.sampled_from([0, 1]),
    st.booleans(),
)
def test_references_to_manifests_and_back(
    arrays: dict[str, tuple[list[int], st.DataObject]], version: int, partitioned: bool
) -> None:
    wanted: dict[str, Any] = {".zgroup": {"zarr_format": 2}}
    chunks: dict[str, Any] = {}
    for path, (grid, data) in arrays.items():
        document = zarray(shape=grid, chunks=[1] * len(grid), dimension_separator=".")
        wanted[f"{path}/.zarray"] = document
        wanted[f"{path}/.zattrs"] = {"units": "K"} | ({} if grid else {"_ARRAY_DIMENSIONS": []})
        if "/" in path:
            wanted["g/.zgroup"] = {"zarr_format": 2}
        count = math.prod(grid)
        numbers = data.draw(st.lists(st.integers(0, count - 1))) if count else []
        for number in numbers:
            index = np.unravel_index(number, grid) if grid else ()
            key = f"{path}/{'.'.join(map(str, index)) or '0'}"
            reference = data.draw(REFERENCES)
            # One path has one version in an array.
            chunks[key] = reference
    references = {**wanted, **chunks}
    stated = {"version": 1, "refs": references} if version else references
    with tempfile.TemporaryDirectory() as directory:
        options: dict[str, Any] = {}
        if partitioned:
            options["partition_shape"] = {
                path: [2] * len(grid) for path, (grid, _) in arrays.items() if 0 not in grid
            }
        report = write_hierarchy(Path(directory) / "h", read_kerchunk_json(stated), **options)
        assert report.refused == []
        exported = exported_references(Path(directory) / "h")
    assert exported.pop("version") == 1
    exported = exported.pop("refs")
    found = {key: content(value) for key, value in exported.items() if key in chunks}
    assert found == {key: content(value) for key, value in chunks.items()}
    documents = {key: json.loads(value) for key, value in exported.items() if key not in chunks}
    assert documents == wanted


@pytest.mark.slow
def test_a_real_set_and_back(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a b.h5", "w") as file:
        for order in "<>":
            for kind in ("i2", "f4", "f8"):
                data = np.arange(35).reshape(7, 5).astype(order + kind)
                file.create_dataset(
                    f"g/{order}{kind}", data=data, chunks=(3, 2), compression="gzip", shuffle=True
                )
        file.create_dataset("text", data=np.array([b"ab", b"c"], "S3"))
        file.create_dataset("lazy", shape=(4,), chunks=(2,), dtype="f4", fillvalue=np.nan)
    references = hdf5_references(tmp_path / "a b.h5", inline_threshold=50)
    theirs = read_by_fsspec(references)
    ours, _ = read_as_manifests(references, tmp_path / "h.zarr")
    exported = json.loads(json.dumps(exported_references(tmp_path / "h.zarr")))
    assert_equal(ours, theirs)
    assert_equal(read_by_fsspec(exported), theirs)
    again, _ = read_as_manifests(exported, tmp_path / "again.zarr")
    assert_equal(again, theirs)
    assert exported_references(tmp_path / "again.zarr") == exported


# Hierarchies -----------------------------------------------------------------------


def exported_values(root: Path, **options: Any) -> tuple[Any, ConversionReport]:
    references, report = export(root, **options)
    return read_by_fsspec(references), report


@pytest.mark.slow
def test_sources_that_travel_with_the_hierarchy(tmp_path: Path) -> None:
    root = tmp_path / "a b%20.zarr"
    zarr.create_group(root, attributes={"title": "t"})
    zarr.create_array(
        root / "x",
        shape=6,
        chunks=2,
        dtype="i4",
        serializer=zarr.codecs.BytesCodec(endian="big"),
        compressors=None,
        dimension_names=["t"],
    )
    (root / "raw.bin").write_bytes(np.arange(6, dtype=">i4").tobytes())
    entries = {
        (0,): {"path": "raw.bin", "length": 8},
        (1,): {"path": "raw.bin", "offset": 8, "length": 8, "checksum": "crc32:00000000"},
        (2,): {"data": np.array([8, 9], ">i4").tobytes()},
    }
    write_manifest(root, "x", entries, base="../")
    references = exported_references(root)["refs"]
    assert references["x/0"] == [f"file://{root}/raw.bin", 0, 8]
    assert references["x/2"] == "base64:" + base64.b64encode(entries[2,]["data"]).decode()  # type: ignore[arg-type]
    assert json.loads(references["x/.zattrs"]) == {"_ARRAY_DIMENSIONS": ["t"]}
    assert json.loads(references[".zattrs"]) == {"title": "t"}
    values, report = exported_values(root)
    assert values["x"].tolist() == [0, 1, 2, 3, 8, 9]
    assert (report.groups, report.arrays, report.references, report.stated_bytes) == (1, 1, 3, 24)
    assert "checksum" in str(report.notes)


@pytest.mark.slow
def test_native_arrays_are_referred_to(tmp_path: Path) -> None:
    root = tmp_path / "h.zarr"
    group = zarr.create_group(root)
    for name, encoding in (("a", "default"), ("b c", "v2")):
        array = group.create_array(
            name,
            shape=(5, 4),
            chunks=(2, 4),
            dtype="f4",
            fill_value=-1,
            chunk_key_encoding={"name": encoding, "separator": "/"},  # type: ignore[arg-type]
        )
        array[:4] = np.arange(16).reshape(4, 4)
    references = exported_references(root)["refs"]
    assert references["a/1.0"] == [f"file://{root}/a/c/1/0"]
    assert references["b c/0.0"] == [f"file://{root}/b c/0/0"]
    assert "a/2.0" not in references
    values, _ = exported_values(root)
    assert_equal(values, values_of(zarr.open_group(root, mode="r")))


# Before 0.16, numcodecs needs a package for it that zarr does not install.
needs_crc32c = pytest.mark.skipif(not has_codec("crc32c"), reason="this numcodecs lacks crc32c")
CODECS: list[Any] = [
    {},
    {"compressors": None},
    {"compressors": zarr.codecs.GzipCodec()},
    {"compressors": zarr.codecs.BloscCodec(shuffle="bitshuffle")},
    pytest.param(
        {"compressors": [zarr.codecs.ZstdCodec(checksum=True), zarr.codecs.Crc32cCodec()]},
        marks=needs_crc32c,
    ),
    {"filters": zarr.codecs.TransposeCodec(order=(1, 0))},
    {"filters": zarr.codecs.TransposeCodec(order=(0, 1))},
    {"serializer": zarr.codecs.BytesCodec(endian="big")},
    {
        "filters": zarr.codecs.TransposeCodec(order=(1, 0)),
        "serializer": zarr.codecs.BytesCodec(endian="big"),
    },
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "options"),
    crossed(
        ["<i2", "u1", "<f8", "<c8", "?", "<M8[s]", "S4", "<U3", "V5", [("x", "<i2"), ("y", "<f4")]],
        CODECS,
    ),
)
def test_codecs_and_data_types(tmp_path: Path, options: dict[str, Any], dtype: Any) -> None:
    data = np.frombuffer(bytes(range(1, 200)) * 8, "u1")
    kind = np.dtype(dtype)
    count = 12
    if kind.kind in "SUM?c" or kind.kind in "iuf":
        values = np.arange(1, count + 1).astype(kind).reshape(4, 3)
    else:
        values = np.frombuffer(data[: count * kind.itemsize].tobytes(), kind).reshape(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_group(tmp_path / "h")
        array = zarr.create_array(
            tmp_path / "h" / "a", shape=(5, 3), chunks=(2, 3), dtype=kind, **options
        )
        array[:4] = values
        theirs = values_of(zarr.open_group(tmp_path / "h", mode="r"))
    found, report = exported_values(tmp_path / "h")
    assert report.refused == []
    assert_equal(found, theirs)


@pytest.mark.parametrize("dtype", ["<i2", "S4", "<U3"])
def test_xarray_opens_scalars(tmp_path: Path, dtype: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_group(tmp_path / "h")
        array = zarr.create_array(tmp_path / "h" / "a", shape=(), dtype=dtype)
        array[()] = np.array(7).astype(dtype)
        references = exported_references(tmp_path / "h")
        fs = fsspec.filesystem(
            "reference", fo=references, remote_protocol="file", asynchronous=True
        )
        store = FsspecStore(fs, path="", read_only=True)
        with xr.open_dataset(store, engine="zarr", zarr_format=2, consolidated=False) as dataset:
            assert dataset["a"].dims == ()
            assert dataset["a"].values == np.array(7).astype(dtype)


@pytest.mark.slow
def test_explicitly_empty_chunks(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "h")
    zarr.create_array(tmp_path / "h/a", shape=6, chunks=2, dtype="i2", fill_value=7)
    write_manifest(tmp_path / "h", "a", {(0,): {}, (1,): {}})
    references = exported_references(tmp_path / "h")["refs"]
    assert "a/0" in references
    assert "a/2" not in references
    values, report = exported_values(tmp_path / "h")
    assert values["a"].tolist() == [7] * 6
    [(path, note)] = report.notes
    assert path == "a"
    assert "2 chunks marked as empty" in note


def test_an_array_at_the_root(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "h", shape=(), dtype="i2", compressors=None)
    write_manifest(tmp_path / "h", "", {(): {"data": b"\5\0"}})
    references = exported_references(tmp_path / "h")["refs"]
    assert sorted(references) == [".zarray", ".zattrs", "0"]
    assert read_by_fsspec(references)[""] == 5


def test_inline_data_that_looks_like_base64(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "h")
    zarr.create_array(tmp_path / "h/a", shape=8, dtype="u1", compressors=None)
    write_manifest(tmp_path / "h", "a", {(0,): {"data": b"base64:A"}})
    references = exported_references(tmp_path / "h")
    again, _ = read_as_manifests(references, tmp_path / "again")
    assert again["a"].tobytes() == b"base64:A"


# What kerchunk cannot express ------------------------------------------------------


def test_nodes_that_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "h"
    group = zarr.create_group(root)
    group.create_array("shards", shape=4, chunks=(2,), shards=(4,), dtype="i2")
    group.create_array("good", shape=4, chunks=2, dtype="i2")[:] = 1
    group.create_array(
        "axes",
        shape=(2, 2, 2),
        chunks=(2, 2, 2),
        dtype="i2",
        filters=zarr.codecs.TransposeCodec(order=(1, 0, 2)),
    )
    group.create_array("open", shape=4, chunks=2, dtype="u1", compressors=None)
    write_manifest(root, "open", {(0,): {"path": "s3://b/f", "offset": 5}})
    document, report = export(root)
    references = document["refs"]
    reasons = {node.path: node.reason for node in report.refused}
    assert sorted(reasons) == ["axes", "open", "shards"]
    assert "sharding_indexed" in reasons["shards"]
    assert "transpose" in reasons["axes"]
    assert "kerchunk needs a length" in reasons["open"]
    assert {key.split("/")[0] for key in references} == {".zgroup", "good"}
    assert all(path in str(report) for path in reasons)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"path": "s3://b/x::y"}, "'::'"),
        ({"path": "s3://b/x%3FversionId=1"}, "'?versionId='"),
        ({"path": "gs://b/x", "version": "1"}, "only s3 URLs"),
    ],
)
def test_names_that_mean_something_else_to_fsspec(
    tmp_path: Path, entry: dict[str, Any], problem: str
) -> None:
    zarr.create_group(tmp_path / "h")
    zarr.create_array(tmp_path / "h/a", shape=2, dtype="u1")
    write_manifest(tmp_path / "h", "a", {(0,): entry})
    _, report = export(tmp_path / "h")
    assert [(node.path, node.code) for node in report.refused] == [("a", "not_convertible")]
    assert problem in report.refused[0].reason


@pytest.mark.parametrize("dtype", ["string", "bytes"])
def test_elements_of_any_length(tmp_path: Path, dtype: str) -> None:
    values = ["a", "long ü", ""] if dtype == "string" else [b"a", b"", b"\xff\0"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.create_group(tmp_path / "h")
        array = zarr.create_array(
            tmp_path / "h/a",
            shape=3,
            chunks=2,
            dtype=dtype if dtype == "string" else "variable_length_bytes",
        )
        array[:] = np.array(values, object)
    found, report = exported_values(tmp_path / "h")
    assert report.refused == []
    assert found["a"].tolist() == values


def test_a_hierarchy_in_memory(tmp_path: Path) -> None:
    contents: dict[str, Any] = {}
    store = MemoryStore(contents)
    zarr.create_group(store)
    zarr.create_array(store, name="inline", shape=2, dtype="u1", compressors=None)
    write_manifest(store, "inline", {(0,): {"data": b"ab"}})
    zarr.create_array(store, name="native", shape=2, dtype="u1")[:] = 1  # type: ignore[index]
    document, report = export(store)
    references = document["refs"]
    assert references["inline/0"] == "ab"
    assert [(node.path, "no URL" in node.reason) for node in report.refused] == [("native", True)]


def test_targets_that_are_not_new_files(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "h")
    (tmp_path / "there.json").write_text("theirs")
    with pytest.raises(WriteConflictError, match="the target exists"):
        export_kerchunk_json(tmp_path / "h", tmp_path / "there.json")
    assert (tmp_path / "there.json").read_text() == "theirs"
    with pytest.raises(NotConvertibleError, match="only written in the local file system"):
        export_kerchunk_json(tmp_path / "h", "s3://bucket/references.json")
    export_kerchunk_json(tmp_path / "h", (tmp_path / "a b.json").as_uri())
    assert json.loads((tmp_path / "a b.json").read_text())["version"] == 1


@pytest.mark.parametrize("name", ["refs.json", "refs.parq"])
def test_a_set_is_replaced_as_a_whole(tmp_path: Path, name: str) -> None:
    root, target = tmp_path / "h", tmp_path / "sets" / name
    target.parent.mkdir()
    zarr.create_group(root)
    options: dict[str, Any] = {"shape": 1, "chunks": 1, "dtype": "u1"}
    create_array(root, "a", {"0": {"path": "s3://b/f", "length": 1}}, **options)
    export = export_kerchunk_json if name == "refs.json" else export_kerchunk_parquet
    export(root, target)
    before = files_below(target.parent)
    create_array(root, "b", {"0": {"path": "s3://b/g", "length": 1}}, **options)
    with pytest.raises(WriteConflictError, match="overwrite=True"):
        export(root, target)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(root, target, overwrite=True, progress=interrupt)
    assert files_below(target.parent) == before
    assert export(root, target, overwrite=True).arrays == 2
    assert [path.name for path in target.parent.iterdir()] == [name]


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="there is no"):
        exported_references(tmp_path)


def test_progress(tmp_path: Path) -> None:
    references = {
        ".zgroup": ZGROUP,
        "a/.zarray": zarray(),
        **{f"a/{i}.{j}": ["s3://b/f", 1, 12] for i in range(2) for j in range(2)},
    }
    write_hierarchy(tmp_path / "h", read_kerchunk_json(references), partition_shape={"a": [1, 2]})
    seen: list[tuple[str, int, int | None]] = []
    exported_references(tmp_path / "h", progress=lambda *step: seen.append(step))
    assert seen == [("a", 2, None), ("a", 4, None)]


def test_a_manifest_store_is_exported_as_its_hierarchy(tmp_path: Path) -> None:
    write_hierarchy(tmp_path / "h", read_kerchunk_json({"a/.zarray": zarray(), "a/0.0": "x" * 12}))
    assert exported_references(ManifestStore(tmp_path / "h")) == exported_references(tmp_path / "h")
    assert read_hierarchy(tmp_path / "h")["a"].shape == (4, 6)
