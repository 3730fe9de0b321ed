"""Whole Zarr v2 hierarchies: what zarr wrote, read through manifests to what zarr reads."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import obstore.store
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import LocalStore, MemoryStore, ObjectStore, ZipStore

from tests.conversion.kerchunk.kerchunk_sets import (
    Values,
    assert_equal,
    read_hierarchy,
    values_of,
    zarray,
)
from tests.conversion.zarr2.zarr2_arrays import IS_CURRENT_ZARR
from zarr_manifest import Manifest, ManifestStore
from zarr_manifest.conversion import (
    ArrayNode,
    GroupNode,
    Node,
    RefusedNode,
    export_kerchunk_json,
    read_zarr2,
    write_hierarchy,
)
from zarr_manifest.errors import NotConvertibleError, SourceError, SourceNotFoundError


def read_v2(location: Any) -> Values:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return values_of(zarr.open(location, mode="r", zarr_format=2))


def nodes(location: Any, **options: Any) -> dict[str, Node]:
    return {node.path: node for node in read_zarr2(location, **options)}


def paths_of(node: Node) -> dict[tuple[int, ...], str | None]:
    assert isinstance(node, ArrayNode), node
    assert isinstance(node.manifest, Manifest)
    return {index: reference.path for index, reference in node.manifest.items()}


def put(root: Path, files: dict[str, Any]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


# What zarr writes ------------------------------------------------------------------

NUMBERS = ["|b1", "|i1", ">i2", "<i4", ">u8", "<f2", ">f4", "<f8", ">c8", "<c16"]
OTHERS = ["<M8[s]", ">m8[10ns]", "|S3", "<U2", ">U2", "|V4"]
STRUCTURED = [
    [("x", "<i2"), ("y", "<f4")],
    [("x", "<i2"), ("deep", [("y", "<f4"), ("z", "|S3")])],
]
COMPRESSORS = [
    None,
    numcodecs.Zlib(1),
    numcodecs.GZip(1),
    numcodecs.Blosc("lz4", 5, 1),
    numcodecs.Zstd(3),
    numcodecs.LZ4(),
    numcodecs.BZ2(1),
]


def filters_for(dtype: np.dtype[Any]) -> list[Any]:
    if dtype.kind in "iu":
        return [numcodecs.Delta(dtype.str)]
    if dtype.kind == "f":
        return [numcodecs.FixedScaleOffset(offset=1, scale=10, dtype=dtype.str, astype="<i4")]
    return [numcodecs.Shuffle(dtype.itemsize)]


@pytest.mark.slow
@given(
    st.one_of(*map(st.sampled_from, (NUMBERS, OTHERS, STRUCTURED))),
    st.lists(st.tuples(st.integers(0, 5), st.integers(2, 4)), max_size=3),
    st.sampled_from("CF"),
    st.sampled_from("./"),
    st.sampled_from(COMPRESSORS),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_any_array(
    spec: Any,
    dimensions: list[tuple[int, int]],
    order: Any,
    separator: Any,
    compressor: Any,
    filtered: bool,
    null_fill: bool,
    seed: int,
) -> None:
    dtype = np.dtype(spec)
    shape = tuple(size for size, _ in dimensions)
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 100, shape)
    data: np.ndarray[Any, Any] = np.empty(shape, dtype)
    if dtype.kind == "V":
        content = random.integers(1, 100, data.nbytes, np.uint8)
        data.reshape(-1).view("u1")[:] = content
    else:
        data[...] = numbers.astype(dtype)
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = Path(directory)
        array: Any = zarr.create_array(
            root / "old" / "g" / "a b%",
            shape=shape,
            chunks=tuple(chunk for _, chunk in dimensions),
            dtype=dtype,
            order=order,
            filters=filters_for(dtype) if filtered else None,
            compressors=compressor,
            chunk_key_encoding={"name": "v2", "separator": separator},
            zarr_format=2,
        )
        # Only a part, so that some chunks are missing.
        part = tuple(slice(0, (size + 1) // 2) for size in shape)
        array[part] = data[part]
        if null_fill:
            document = root / "old/g/a b%/.zarray"
            document.write_text(json.dumps(json.loads(document.read_text()) | {"fill_value": None}))
        (root / "old" / "g" / ".zgroup").write_text('{"zarr_format": 2}')
        # As it was opened: zarr 3.1 writes nested types as v2, but does not open them again.
        theirs = np.asarray(array[...])
        report = write_hierarchy(root / "new", read_zarr2(root / "old"))
        assert report.refused == []
        ours = read_hierarchy(root / "new")["g/a b%"]
        if null_fill:  # what is not written is undefined
            written = np.zeros(shape, bool)
            written[part] = True
            ours[~written] = theirs[~written] = np.zeros((), dtype)
        assert_equal({"a b%": ours}, {"a b%": theirs})


@pytest.mark.slow
def test_a_whole_hierarchy(tmp_path: Path) -> None:
    old, new = tmp_path / "old.zarr", tmp_path / "new.zarr"
    root = zarr.create_group(old, zarr_format=2, attributes={"title": "t"})
    deep = root.create_group("g/deep", attributes={"k": [1]})
    for group, name in ((root, "x"), (root["g"], "y"), (deep, "z z")):
        array = group.create_array(name, shape=(5, 4), chunks=(2, 3), dtype="f4", fill_value=np.nan)
        array[:3] = np.arange(12).reshape(3, 4)
        array.attrs.update({"_ARRAY_DIMENSIONS": ["t", "x"], "units": "K"})
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    report = write_hierarchy(new, read_zarr2(old))
    assert (report.groups, report.arrays, report.references) == (3, 3, 12)
    assert before == {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    assert_equal(read_hierarchy(new), read_v2(old))
    opened = zarr.open_group(ManifestStore(new, allow=[old.as_uri()]), mode="r")
    assert opened.attrs.asdict() == {"title": "t"}
    assert opened["g/deep"].attrs.asdict() == {"k": [1]}
    z = opened["g/deep/z z"]
    assert z.attrs.asdict() == {"units": "K", "_FillValue": "AAAAAAAA+H8="}
    assert z.metadata.dimension_names == ("t", "x")  # type: ignore[union-attr]


@pytest.mark.slow
def test_xarray_finds_the_same_missing_values(tmp_path: Path) -> None:
    values = np.array([1, np.nan, 3, np.nan])
    dataset = xr.Dataset(dict.fromkeys(("packed", "code", "nan", "whole"), ("x", values)))
    dataset["whole"] = ("x", np.array([0, 1, 2, 3], "i4"))
    dataset["time"] = ("x", np.array(["2000-01-01", "NaT", "2000-01-03", "2000-01-04"], "M8[ns]"))
    encoding = {
        "packed": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 1.0, "_FillValue": -9999},
        "code": {"_FillValue": -1.0},
    }
    dataset.to_zarr(tmp_path / "old", zarr_format=2, consolidated=False, encoding=encoding)
    write_hierarchy(tmp_path / "new", read_zarr2(tmp_path / "old"))
    store = ManifestStore(tmp_path / "new", allow=[tmp_path.as_uri()])
    theirs = xr.load_dataset(tmp_path / "old", engine="zarr", consolidated=False)
    ours = xr.load_dataset(store, engine="zarr", consolidated=False)  # type: ignore[arg-type]
    xr.testing.assert_identical(ours, theirs)
    assert int(ours.packed.isnull().sum()) == 2
    # And back: the attribute is not needed there.
    assert export_kerchunk_json(tmp_path / "new", tmp_path / "again.json").refused == []
    again = json.loads((tmp_path / "again.json").read_text())["refs"]
    for name in dataset:
        before = json.loads((tmp_path / "old" / str(name) / ".zattrs").read_text())
        assert json.loads(again[f"{name}/.zattrs"]) == before


@pytest.mark.parametrize(
    ("codec", "values"),
    [
        (numcodecs.VLenUTF8(), ["a", "", "long text ü"]),
        (numcodecs.VLenBytes(), [b"a", b"", b"\0\xff"]),
    ],
)
def test_elements_of_any_length(tmp_path: Path, codec: Any, values: list[Any]) -> None:
    chunk = codec.encode(np.array(values, object))
    document = zarray(
        shape=[3], chunks=[3], dtype="|O", filters=[codec.get_config()], fill_value=None
    )
    put(tmp_path, {"old/a/.zarray": document, "old/a/0": bytes(chunk)})
    write_hierarchy(tmp_path / "new", read_zarr2(tmp_path / "old"))
    assert read_hierarchy(tmp_path / "new")["a"].tolist() == values


def test_subarrays(tmp_path: Path) -> None:
    dtype = np.dtype([("x", "<i4"), ("m", "<f4", (2, 2))])
    data = np.zeros(3, dtype)
    data["m"] = np.arange(12).reshape(3, 2, 2)
    document = zarray(
        shape=[3], chunks=[3], dtype=[["x", "<i4"], ["m", "<f4", [2, 2]]], fill_value=None
    )
    put(tmp_path, {"old/a/.zarray": document, "old/a/0": data.tobytes()})
    report = write_hierarchy(tmp_path / "new", read_zarr2(tmp_path / "old"))
    assert any("is a subarray" in note for _, note in report.notes)
    assert read_hierarchy(tmp_path / "new")["a"].tobytes() == data.tobytes()


def test_big_endian_structures_are_read_or_refused(tmp_path: Path) -> None:
    data = np.array([(1, 2.5), (3, 4.5)], [("x", ">i2"), ("y", ">f4")])
    document = zarray(shape=[2], chunks=[2], dtype=[["x", ">i2"], ["y", ">f4"]], fill_value=None)
    put(tmp_path, {"old/a/.zarray": document, "old/a/0": data.tobytes()})
    report = write_hierarchy(tmp_path / "new", read_zarr2(tmp_path / "old"))
    if report.refused:
        assert not IS_CURRENT_ZARR
        assert "zarr cannot open this metadata" in report.refused[0].reason
    elif IS_CURRENT_ZARR:  # zarr 3.2 swaps the bytes
        assert read_hierarchy(tmp_path / "new")["a"].tolist() == data.tolist()


# Keys and nodes --------------------------------------------------------------------

Z = zarray()
SLASH = zarray(dimension_separator="/")


def test_implicit_groups_and_an_array_at_the_root(tmp_path: Path) -> None:
    put(tmp_path, {"x/y/a/.zarray": Z, "x/.zattrs": {"k": 1}})
    found = nodes(tmp_path)
    assert list(found) == ["", "x", "x/y", "x/y/a"]
    assert found["x"] == GroupNode("x", {"k": 1})
    put(tmp_path / "alone", {".zarray": SLASH, "1/1": bytes(12)})
    assert paths_of(nodes(tmp_path / "alone", url="s3://b")[""]) == {(1, 1): "s3://b/1/1"}


def test_missing_chunks_have_no_entry(tmp_path: Path) -> None:
    put(tmp_path, {"a/.zarray": Z, "a/0.1": b"x", "b/.zarray": SLASH, "b/1/0": b"x"})
    found = nodes(tmp_path, url="https://example.com/old%20one/")
    assert paths_of(found["a"]) == {(0, 1): "https://example.com/old%20one/a/0.1"}
    assert paths_of(found["b"]) == {(1, 0): "https://example.com/old%20one/b/1/0"}


def test_objects_that_are_not_chunks_are_named(tmp_path: Path) -> None:
    put(
        tmp_path,
        {
            ".zgroup": {"zarr_format": 2},
            ".zmetadata": {"metadata": {}},
            "README.md": b"x",
            "a/.zarray": Z,
            "a/0.0": b"x",
            "a/0/1": b"x",
            "a/0.5": b"x",
            "a/.zattrs.bak": b"x",
            "b/.zarray": SLASH,
            "b/0/0": b"x",
            "b/0.1": b"x",
            "c/0.0": b"x",
        },
    )
    found = list(read_zarr2(tmp_path))
    by_path = {node.path: node for node in found if isinstance(node, ArrayNode)}
    assert list(paths_of(by_path["a"])) == [(0, 0)]
    assert list(paths_of(by_path["b"])) == [(0, 0)]
    assert "3 objects" in by_path["a"].notes[-1]
    assert by_path["b"].notes == ("the object '0.1' is not part of the array, and left out",)
    refusals = {node.path: node.reason for node in found if isinstance(node, RefusedNode)}
    assert refusals == {
        "": "the object 'README.md' is not part of any array",
        "c": "the object 'c/0.0' is not part of any array",
    }


@pytest.mark.parametrize(("stated", "used"), [(None, "/"), (".", "/"), ("/", ".")])
def test_names_of_chunks_with_another_separator(
    stated: str | None, used: str, tmp_path: Path
) -> None:
    """As old releases of zarr wrote it, and all chunks would be missing."""
    document = {name: value for name, value in Z.items() if name != "dimension_separator"}
    if stated is not None:
        document["dimension_separator"] = stated
    put(tmp_path, {"a/.zarray": document, f"a/0{used}1": b"x", f"a/1{used}0": b"x", "a/f": b"x"})
    node = nodes(tmp_path)["a"]
    names = {(0, 1): f"0{used}1", (1, 0): f"1{used}0"}
    assert paths_of(node) == {i: f"{tmp_path.as_uri()}/a/{name}" for i, name in names.items()}
    assert isinstance(node, ArrayNode)
    assert f"{used!r} separates the numbers in its chunk keys, not " in node.notes[0]
    assert "'f' is not part of the array" in node.notes[1]


def test_one_bad_array_does_not_hide_the_others(tmp_path: Path) -> None:
    put(tmp_path, {"bad/.zarray": zarray(dtype="|O"), "bad/0.0": b"x", "good/.zarray": Z})
    found = nodes(tmp_path)
    assert isinstance(found["bad"], RefusedNode)
    assert isinstance(found["good"], ArrayNode)
    assert len(found) == 3


# Where the hierarchy is ------------------------------------------------------------


@pytest.mark.slow
def test_every_kind_of_store(tmp_path: Path) -> None:
    put(tmp_path / "a b", {"x/.zarray": Z, "x/0.0": b"x"})
    root = tmp_path / "a b"
    url = f"file://{tmp_path}/a%20b/x/0.0"
    for location in (
        root,
        str(root),
        root.as_uri(),
        LocalStore(root),
        obstore.store.LocalStore(root),
        ObjectStore(obstore.store.LocalStore(root)),
    ):
        assert paths_of(nodes(location)["x"]) == {(0, 0): url}
        assert paths_of(nodes(location, url="s3://b/p")["x"]) == {(0, 0): "s3://b/p/x/0.0"}
    assert paths_of(nodes(root, url="raw")["x"]) == {(0, 0): "./raw/x/0.0"}
    assert paths_of(nodes(root, url="./")["x"]) == {(0, 0): "./x/0.0"}


NAMES = ["a b", "50%", "a%20b", "ü:x", "#h", "q?x&y=[z]", "0", "..a"]


def write_names(location: Any) -> None:
    zarr.create_group(location, zarr_format=2)
    for number, name in enumerate(NAMES):
        array: Any = zarr.create_array(
            location, name=name, shape=3, chunks=2, dtype="i2", zarr_format=2
        )
        array[...] = number


def assert_names(root: Path, allow: Any) -> None:
    found = values_of(zarr.open_group(ManifestStore(root, allow=allow), mode="r"))
    assert {name: values.tolist() for name, values in found.items()} == {
        name: [number] * 3 for number, name in enumerate(NAMES)
    }


def test_any_name_on_s3(tmp_path: Path, s3_server: Any, s3_bucket: str) -> None:
    url = f"s3://{s3_bucket}"
    bucket = obstore.store.S3Store.from_url(url, **s3_server.options)
    old = obstore.store.S3Store.from_url(f"{url}/old data", **s3_server.options)
    write_names(ObjectStore(old))
    assert write_hierarchy(tmp_path, read_zarr2(old)).refused == []
    assert_names(tmp_path, {url: bucket})


def test_any_name_on_a_web_server(tmp_path: Path, http_server: Any) -> None:
    write_names(tmp_path / "old")
    for file in (tmp_path / "old").rglob("*"):
        if file.is_file():
            http_server.put(f"old data/{file.relative_to(tmp_path / 'old')}", file.read_bytes())
    url = f"{http_server.url}/old%20data"
    assert write_hierarchy(tmp_path / "new", read_zarr2(tmp_path / "old", url=url)).refused == []
    assert_names(tmp_path / "new", [url])


def test_a_store_in_memory_has_no_url() -> None:
    contents: dict[str, Any] = {}
    array = zarr.create_array(MemoryStore(contents), shape=2, dtype="u1", zarr_format=2)
    array[:] = 1
    with pytest.raises(NotConvertibleError, match=r"MemoryStore.* has no URL"):
        read_zarr2(MemoryStore(contents))
    found = nodes(MemoryStore(contents), url="s3://b")
    assert paths_of(found[""]) == {(0,): "s3://b/0"}


def test_a_zip_file_has_no_url(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "a.zip", mode="w")
    zarr.create_array(store, shape=2, dtype="u1", zarr_format=2)
    store.close()
    with pytest.raises(NotConvertibleError, match="has no URL"):
        read_zarr2(ZipStore(tmp_path / "a.zip", mode="r", read_only=True))


def test_a_web_server_cannot_list() -> None:
    with pytest.raises(SourceError, match="cannot be listed"):
        read_zarr2("http://localhost:1/old.zarr")


def test_inputs_that_are_not_zarr_v2_hierarchies(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="there is no Zarr v2 hierarchy"):
        read_zarr2(tmp_path)
    with pytest.raises(SourceNotFoundError, match="there is no Zarr v2 hierarchy"):
        read_zarr2(tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
    zarr.create_group(tmp_path / "new")
    with pytest.raises(SourceNotFoundError, match="already a Zarr v3 hierarchy"):
        read_zarr2(tmp_path / "new")


def test_hierarchies_that_travel_together(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "both/old/a", shape=4, chunks=2, dtype="i2", zarr_format=2)
    array[:] = np.arange(4)
    write_hierarchy(tmp_path / "both", read_zarr2(tmp_path / "both/old", url="old"))
    (tmp_path / "both").rename(tmp_path / "moved")
    store = ManifestStore(tmp_path / "moved")
    assert zarr.open_array(store, path="a", mode="r")[:].tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]
