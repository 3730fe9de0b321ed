"""VirtualiZarr's objects and ours, in both directions, without reading what is virtual."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import virtualizarr
import xarray as xr
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
from virtualizarr.manifests.utils import create_v3_array_metadata
from virtualizarr.parsers import HDFParser

from tests.conversion.files.converted_files import IGNORED_WARNINGS, same, write
from tests.properties import examples
from zarr_manifest.conversion import (
    ArrayNode,
    GroupNode,
    RefusedNode,
    read_virtual,
    to_virtual_dataset,
    to_virtual_datatree,
    write_hierarchy,
)
from zarr_manifest.conversion.virtual import url_reference
from zarr_manifest.errors import NotConvertibleError, SourceNotFoundError

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

REGISTRY = ObjectStoreRegistry({"file://": LocalStore()})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    times = xr.date_range("2000-01-01", periods=4)
    dataset = xr.Dataset(
        {
            "sst": (("time", "x"), np.arange(12.0).reshape(4, 3), {"units": "K"}),
            "flags": (("x",), np.array([1, 2, 3], "i1")),
        },
        coords={"time": times, "x": [1.5, 2.5, 3.5], "area": ("x", [1.0, 2.0, 3.0])},
        attrs={"title": "test"},
    )
    dataset["sst"][2, 2] = np.nan
    packed = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1, "chunksizes": (2, 3)}
    dataset.to_netcdf(
        tmp_path / "f.nc",
        engine="h5netcdf",
        encoding={"sst": packed | {"zlib": True}, "time": {"units": "days since 1999-12-31"}},
    )
    return tmp_path / "f.nc"


def open_virtual(path: Path, **options: Any) -> xr.Dataset:
    return virtualizarr.open_virtual_dataset(
        path.as_uri(), registry=REGISTRY, parser=HDFParser(), **options
    )


def opened(root: Path, **options: Any) -> xr.Dataset:
    return xr.open_dataset(root, engine="zarr-manifest", allow=["/"], consolidated=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize("loadable", [None, [], ["time", "sst", "flags"]])
def test_a_virtual_dataset_reads_as_the_file(path: Path, tmp_path: Path, loadable: Any) -> None:
    virtual = open_virtual(path, loadable_variables=loadable)
    found = write(read_virtual(virtual), tmp_path / "h.zarr")
    assert found.refused == {}
    with opened(found.root) as decoded, xr.open_dataset(path, engine="h5netcdf") as expected:
        xr.testing.assert_identical(decoded.load(), expected.load())
        assert decoded["sst"].encoding["scale_factor"] == 0.5
        assert decoded["sst"].encoding["_FillValue"] == -1


@pytest.mark.slow
def test_nothing_virtual_is_read(path: Path) -> None:
    virtual = open_virtual(path, loadable_variables=[])
    path.unlink()
    nodes = list(read_virtual(virtual))
    assert {node.path for node in nodes} == {"", "time", "x", "area", "sst", "flags"}
    assert all(isinstance(node, GroupNode | ArrayNode) for node in nodes)


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ([1.0, 2.0, 300.0], {"dtype": "i1", "scale_factor": 1.0, "_FillValue": -1}),
        ([0.25, np.nan, 1.5], {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}),
        (np.array([1, 2, 255], "u1"), {"dtype": "i1"}),
        (
            np.array(["2000-01-01", "2020-01-01", "2000-01-02"], "M8[ns]"),
            {"dtype": "i2", "units": "seconds since 2000-01-01"},
        ),
    ],
)
def test_loaded_values_that_their_encoding_does_not_hold(
    tmp_path: Path, values: Any, encoding: dict[str, Any]
) -> None:
    # As after a concatenation, which keeps the encoding of the first: xarray would wrap around.
    dataset = xr.Dataset({"v": ("x", values)})
    dataset["v"].encoding = encoding
    found = write(read_virtual(dataset), tmp_path / "h.zarr")
    assert found.refused == {}
    with opened(found.root) as decoded:
        xr.testing.assert_equal(decoded.load(), dataset)
    assert "its encoding was dropped, because its values do not fit" in found.report.notes[0][1]


@pytest.mark.slow
def test_a_tree_and_a_store(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["a/x"] = np.arange(3)
        file["a/b/y"] = np.arange(3.0)
        file["a"].attrs["title"] = "inner"
    url = (tmp_path / "f.h5").as_uri()
    tree = virtualizarr.open_virtual_datatree(
        url, registry=REGISTRY, parser=HDFParser(), loadable_variables=[]
    )
    store = HDFParser()(url, REGISTRY)
    assert isinstance(store, ManifestStore)
    for number, virtual in enumerate((tree, store, store._group)):
        found = write(read_virtual(virtual), tmp_path / f"{number}.zarr")
        assert found.refused == {}
        assert same(found.arrays["a/x"][...], np.arange(3))
        assert same(found.arrays["a/b/y"][...], np.arange(3.0))
        assert found.group["a"].attrs["title"] == "inner"


def test_objects_that_are_not_virtual() -> None:
    with pytest.raises(TypeError, match="not a dict"):
        list(read_virtual({}))


def test_without_virtualizarr_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "virtualizarr.manifests", None)
    with pytest.raises(ImportError, match=r"pip install 'zarr-manifest\[virtualizarr\]'"):
        list(read_virtual(xr.Dataset()))


def metadata(shape: tuple[int, ...], chunks: tuple[int, ...], **options: Any) -> Any:
    return create_v3_array_metadata(
        shape=shape, data_type=np.dtype("<i4"), chunk_shape=chunks, **options
    )


def test_inlined_and_missing_chunks(tmp_path: Path) -> None:
    (tmp_path / "raw file.bin").write_bytes(np.arange(2, dtype="<i4").tobytes())
    manifest = ChunkManifest(
        {
            "0": {"path": (tmp_path / "raw file.bin").as_uri(), "offset": 0, "length": 8},
            "2": {"path": "", "offset": 0, "length": 8, "data": np.full(2, 9, "<i4").tobytes()},
        },
        shape=(4,),
    )
    array = ManifestArray(metadata((7,), (2,), fill_value=-5), manifest)
    found = write(read_virtual(ManifestGroup({"x": array})), tmp_path / "h.zarr")
    assert found.arrays["x"][...].tolist() == [0, 1, -5, -5, 9, 9, -5]


@pytest.mark.slow
def test_strings_of_different_lengths_that_are_loaded(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["text"] = ["a", "bcé", ""]
    virtual = open_virtual(tmp_path / "f.h5", loadable_variables=["text"])
    plain = xr.Dataset({"text": ("x", np.array(["a", "bcé", ""], object))})
    plain["text"].encoding["dtype"] = np.dtypes.StringDType()
    for number, dataset in enumerate([virtual, plain]):
        found = write(read_virtual(dataset), tmp_path / f"{number}.zarr")
        assert found.refused == {}
        assert found.arrays["text"][...].tolist() == ["a", "bcé", ""]


@pytest.mark.parametrize("key", ["0", "c"])
@pytest.mark.parametrize("inline", [False, True])
def test_a_scalar_whose_manifest_has_one_dimension_or_none(
    tmp_path: Path, key: str, inline: bool
) -> None:
    raw = np.array(7, "<i4").tobytes()
    (tmp_path / "f.bin").write_bytes(b"xx" + raw)
    entry: Any = {"path": (tmp_path / "f.bin").as_uri(), "offset": 2, "length": 4}
    if inline:
        entry = {"path": "", "offset": 0, "length": 4, "data": raw}
    shape = (1,) if key == "0" else ()
    manifest = ChunkManifest({key: entry}, shape=shape)
    metadata = create_v3_array_metadata(shape=(), chunk_shape=(), data_type=np.dtype("<i4"))
    group = ManifestGroup(arrays={"x": ManifestArray(metadata, manifest)})
    found = write(read_virtual(group), tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.arrays["x"][()] == 7


def test_what_cannot_be_read_is_refused_and_the_rest_converted(tmp_path: Path) -> None:
    def at(path: str) -> ChunkManifest:
        return ChunkManifest({"0": {"path": path, "offset": 0, "length": 8}})

    good = metadata((2,), (2,))
    group = ManifestGroup(
        {
            "good": ManifestArray(good, at("s3://b/a b.nc")),
            "scheme": ManifestArray(good, at("hdfs://b/f.nc")),
            "grid": ManifestArray(metadata((2,), (2,)), ChunkManifest(
                {"1": {"path": "s3://b/f.nc", "offset": 0, "length": 8}}, shape=(2,)
            )),
        }
    )  # fmt: skip
    nodes = {node.path: node for node in read_virtual(group)}
    assert isinstance(nodes["good"], ArrayNode)
    assert nodes["good"].manifest.paths == ("s3://b/a%20b.nc",)
    assert isinstance(nodes["scheme"], RefusedNode)
    assert nodes["scheme"].code == "invalid_path"
    assert isinstance(nodes["grid"], RefusedNode)
    assert "chunk grid" in nodes["grid"].reason


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3://b/f.nc", "s3://b/f.nc"),
        ("s3://b/100% é#1?.nc", "s3://b/100%25%20%C3%A9%231%3F.nc"),
        ("file:///a%20b/f.nc", "file:///a%20b/f.nc"),
        ("/a b/f.nc", "file:///a%20b/f.nc"),
        ("https://h/f.nc?x=1", "https://h/f.nc?x=1"),
    ],
)
def test_paths_become_urls(path: str, expected: str) -> None:
    assert url_reference(path) == expected


@pytest.mark.slow
def test_a_million_references_take_no_loop(tmp_path: Path) -> None:
    count = 1_000_000
    manifest = ChunkManifest.from_arrays(
        paths=np.full(count, "s3://b/f.nc", np.dtypes.StringDType()),
        offsets=np.arange(count, dtype=np.uint64),
        lengths=np.full(count, 8, np.uint64),
        validate_paths=False,
    )
    array = ManifestArray(metadata((2 * count,), (2,)), manifest)
    (_, node) = read_virtual(ManifestGroup({"x": array}))
    assert isinstance(node, ArrayNode)
    assert len(node.manifest) == count


# ------------------------------------------------------------ the other direction


def identical(first: xr.Dataset, second: xr.Dataset) -> None:
    """VirtualiZarr's own equality, of metadata and of every reference."""
    assert dict(first.attrs) == dict(second.attrs)
    assert set(first.variables) == set(second.variables)
    assert set(first.coords) == set(second.coords)
    for name in first.variables:
        one, other = first.variables[name], second.variables[name]
        assert one.dims == other.dims
        assert dict(one.attrs) == dict(other.attrs)
        assert isinstance(one.data, ManifestArray)
        assert isinstance(other.data, ManifestArray)
        assert np.all(one.data == other.data), name


@pytest.mark.slow
def test_a_dataset_comes_back_from_its_hierarchy(path: Path, tmp_path: Path) -> None:
    virtual = open_virtual(path, loadable_variables=[])
    write(read_virtual(virtual), tmp_path / "h.zarr")
    identical(to_virtual_dataset(tmp_path / "h.zarr"), virtual)
    with opened(tmp_path / "h.zarr") as decoded:
        assert decoded["area"].dims == ("x",)


@pytest.mark.slow
def test_a_tree_comes_back(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["a/x"] = np.arange(3)
        file["a/b/y"] = np.arange(3.0)
        file.attrs["title"] = "t"
        file["scalar"] = 5
    tree = virtualizarr.open_virtual_datatree(
        (tmp_path / "f.h5").as_uri(), registry=REGISTRY, parser=HDFParser(), loadable_variables=[]
    )
    write(read_virtual(tree), tmp_path / "h.zarr")
    back = to_virtual_datatree(tmp_path / "h.zarr")
    assert set(back.groups) == set(tree.groups)
    for group in tree.groups:
        identical(back[group].to_dataset(inherit=False), tree[group].to_dataset(inherit=False))
    one = to_virtual_dataset(tmp_path / "h.zarr", "a/b")
    identical(one, tree["a/b"].to_dataset(inherit=False))


@st.composite
def manifest_arrays(draw: st.DrawFn) -> ManifestArray:
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    chunks = tuple(draw(st.integers(1, 3)) for _ in shape)
    grid = tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))
    paths = np.full(grid, "", np.dtypes.StringDType())
    offsets, lengths = np.zeros(grid, np.uint64), np.zeros(grid, np.uint64)
    inlined: dict[tuple[int, ...], bytes] = {}
    for index in np.ndindex(grid):
        kind = draw(st.sampled_from(["missing", "s3://b/a b.nc", "https://h/f.nc", "inlined"]))
        if kind == "missing":
            continue
        lengths[index] = draw(st.integers(1, 2**40))
        if kind == "inlined":
            inlined[index] = draw(st.binary(min_size=1, max_size=9))
            paths[index], lengths[index] = "__inlined__", len(inlined[index])
        else:
            paths[index], offsets[index] = kind, draw(st.integers(0, 2**40))
    manifest = ChunkManifest.from_arrays(
        paths=paths, offsets=offsets, lengths=lengths, inlined=inlined, validate_paths=False
    )
    names = [f"d{n}" for n in range(len(shape))]
    return ManifestArray(metadata(shape, chunks, dimension_names=names), manifest)


@pytest.mark.slow
@settings(examples(0.4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(array=manifest_arrays())
def test_any_array_comes_back(
    tmp_path_factory: pytest.TempPathFactory, array: ManifestArray
) -> None:
    root = tmp_path_factory.mktemp("back") / "h.zarr"
    dataset = ManifestGroup({"x": array}).to_virtual_dataset()
    write_hierarchy(root, read_virtual(dataset))
    identical(to_virtual_dataset(root), dataset)


def declare(root: Path, manifest: dict[str, Any], **options: Any) -> None:
    """An array `x` of two chunks, with a manifest as it is given."""
    array = zarr.create_array(root / "x", shape=4, chunks=2, dtype="<i4", compressors=None)
    document = json.loads((root / "x" / "zarr.json").read_text())
    document["storage_transformers"] = [
        {"name": "chunk-manifest-json", "configuration": {"manifest": manifest, **options}}
    ]
    (root / "x" / "zarr.json").write_text(json.dumps(document))
    assert array.shape == (4,)


def test_relative_paths_native_arrays_and_partitions(tmp_path: Path) -> None:
    root = tmp_path / "a b"
    zarr.create_group(root)
    (root / "raw.bin").write_bytes(np.arange(4, dtype="<i4").tobytes())
    declare(root, {"0": {"path": "../raw.bin", "offset": 0, "length": 8}, "1": {}})
    native = zarr.create_array(
        root / "native", shape=(3,), chunks=(2,), dtype="u1", fill_value=7, dimension_names=["y"]
    )
    native[:2] = 1
    for name in ("x",):
        document = json.loads((root / name / "zarr.json").read_text())
        document["dimension_names"] = ["x"]
        (root / name / "zarr.json").write_text(json.dumps(document))
    dataset = to_virtual_dataset(root)
    entries = dataset["x"].data.manifest.dict()
    # The chunk that is explicitly empty is missing, and reads as the fill value all the same.
    assert entries == {"0": {"path": (root / "raw.bin").as_uri(), "offset": 0, "length": 8}}
    (chunk,) = dataset["native"].data.manifest.dict().values()
    assert chunk["path"] == (root / "native" / "c" / "0").as_uri()
    found = write(read_virtual(dataset), tmp_path / "again.zarr")
    assert found.arrays["x"][...].tolist() == [0, 1, 0, 0]
    assert found.arrays["native"][...].tolist() == [1, 1, 7]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"path": "s3://b/f.nc"}, "run to the end of their object"),
        ({"path": "s3://b/f.nc", "offset": 3}, "run to the end of their object"),
        ({"path": "s3://b/f.nc", "length": 8, "version": "1"}, "refer to a version"),
        # Without names of its dimensions:
        ({"path": "s3://b/f.nc", "offset": 3, "length": 8}, "its dimensions have no names"),
    ],
)
def test_what_virtualizarr_cannot_express_is_refused_by_name(
    tmp_path: Path, entry: dict[str, Any], reason: str
) -> None:
    zarr.create_group(tmp_path)
    declare(tmp_path, {"0": entry})
    with pytest.raises(NotConvertibleError, match=f"'x': .*{reason}"):
        to_virtual_dataset(tmp_path)
    with pytest.raises(NotConvertibleError, match=reason):
        to_virtual_datatree(tmp_path)
    assert not to_virtual_dataset(tmp_path, drop_variables=["x"]).variables


def test_a_group_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFoundError, match="no such group"):
        to_virtual_dataset(tmp_path, "nowhere")
