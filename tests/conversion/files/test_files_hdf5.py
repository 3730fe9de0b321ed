"""HDF5 and netCDF-4 files through read_files: values equal h5py's and netCDF4's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.combinations import combinations
from tests.conversion.files.converted_files import (
    IGNORED_WARNINGS,
    convert,
    hdf5_values,
    same,
)
from tests.properties import examples
from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS

pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS)]

LITTLE = np.dtype([("a", "<i4"), ("b", "<f8"), ("s", "S3")])
BIG = np.dtype([("a", ">i4"), ("b", ">f8")])


def structured(dtype: np.dtype[Any]) -> Any:
    values = np.zeros(6, dtype)
    values["a"], values["b"] = np.arange(6), np.arange(6) / 3
    return values


DATA: dict[str, Any] = {
    **{
        code: np.arange(6).astype(code)
        for code in (
            *("i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4"),
            *("<i8", ">i8", "<u8", ">u8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8"),
            *("<c8", ">c8", "<c16", ">c16", "?"),
        )
    },
    "fixed strings": np.array([b"a", b"bc", b"", b"abcde", b"f", b"g"], "S5"),
    "little-endian compound": structured(LITTLE),
    "big-endian compound": structured(BIG),
    "opaque": np.array([b"abc", b"def", b"ghi", b"xyz", b"uvw", b"rst"], "V3"),
}
NOT_IN_THIS_ZARR = set() if HAS_ALL_BYTE_ORDERS else {"big-endian compound"}

LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (4,)},
    "gzip": {"chunks": (4,), "compression": "gzip"},
    "shuffle": {"chunks": (4,), "shuffle": True},
    "fletcher32": {"chunks": (4,), "fletcher32": True},
    "all filters": {"chunks": (4,), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "unlimited": {"maxshape": (None,), "chunks": (512,)},
    "unlimited, gzip": {"maxshape": (None,), "chunks": (512,), "compression": "gzip"},
}


@pytest.mark.parametrize(
    "layout", combinations(LAYOUTS, ["contiguous", "chunked", "all filters", "unlimited, gzip"])
)
def test_every_data_type_in_every_layout(tmp_path: Path, layout: str) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for name, values in DATA.items():
            file.create_dataset(name, data=values, **LAYOUTS[layout])
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused.keys() == NOT_IN_THIS_ZARR
    with h5py.File(tmp_path / "f.h5") as file:
        for name in DATA.keys() - NOT_IN_THIS_ZARR:
            assert same(found.arrays[name][...], hdf5_values(file[name])), name
    # All of it is in the file, and none of it in the manifests.
    assert not [p for p in found.root.rglob("*.json") if '"data"' in p.read_text()]


@settings(examples(0.25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_shape_and_chunks_read_as_h5py_reads_them(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("any")
    shape = tuple(data.draw(st.lists(st.integers(0, 7), max_size=3)))
    options: dict[str, Any] = {}
    if shape and data.draw(st.booleans()):
        options["chunks"] = tuple(data.draw(st.integers(1, 9)) for _ in shape)
        options["maxshape"] = tuple(
            max(n, c) for n, c in zip(shape, options["chunks"], strict=True)
        )
        options["compression"] = data.draw(st.sampled_from([None, "gzip"]))
        options["shuffle"] = data.draw(st.booleans())
        options["fletcher32"] = data.draw(st.booleans())
    with h5py.File(
        directory / "f.h5", "w", userblock_size=data.draw(st.sampled_from([0, 512]))
    ) as f:
        dataset = f.create_dataset(
            "x", shape, dtype=data.draw(st.sampled_from(["<i2", ">f8"])), fillvalue=7, **options
        )
        if data.draw(st.booleans()):
            dataset[...] = np.arange(dataset.size).reshape(shape)
        elif shape and all(shape):
            dataset[(0,) * len(shape)] = 3
    found = convert(directory / "f.h5", directory / "h.zarr")
    assert found.refused == {}
    with h5py.File(directory / "f.h5") as file:
        assert same(found.arrays["x"][...], hdf5_values(file["x"]))


WRITE_WITH_PLUGINS = """
import h5py, hdf5plugin, numpy, sys
with h5py.File(sys.argv[1], "w") as file:
    for name in sys.argv[2:]:
        options = getattr(hdf5plugin, name)()
        file.create_dataset(name, data=numpy.arange(1000, dtype="f4"), chunks=(100,), **options)
"""


def test_filters_of_hdf5plugin_are_read_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("hdf5plugin")
    names = ["Bitshuffle", "Blosc", "BZip2", "LZ4", "Zstd"]
    # In a process of its own, that knows nothing of netCDF4: it names plugins for its own HDF5.
    environment = {k: v for k, v in os.environ.items() if k != "HDF5_PLUGIN_PATH"}
    command = [sys.executable, "-c", WRITE_WITH_PLUGINS, str(tmp_path / "f.h5"), *names]
    subprocess.run(command, check=True, env=environment)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.arrays.keys() | found.refused.keys() == set(names)
    assert {"Blosc", "BZip2", "Zstd"} <= found.arrays.keys()
    for name, array in found.arrays.items():
        assert same(array[...], np.arange(1000)), name


def test_bzip2_in_netcdf4(tmp_path: Path) -> None:
    values = np.arange(1000, dtype="f4")
    with netCDF4.Dataset(tmp_path / "f.nc", "w") as file:
        if not file.has_bzip2_filter():
            pytest.skip("this netCDF was built without bzip2")
        file.createDimension("x", 1000)
        made = file.createVariable("x", "f4", ("x",), compression="bzip2", chunksizes=(100,))
        made[:] = values
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.refused == {}
    assert same(found.arrays["x"][...], values)


def test_chunks_that_were_never_written_read_as_the_fill_value(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for name, options in {"chunked": {"chunks": (10, 10)}, "contiguous": {}}.items():
            file.create_dataset(name, (100, 100), "f4", fillvalue=-7, **options)
        file["chunked"][25, 25] = 1
        file.create_dataset("nothing", (1000, 1000), "f4", chunks=(10, 10), fillvalue=np.nan)
        file.create_dataset("zero", (0, 3), "f4", maxshape=(None, 3))
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.report.references == 1
    with h5py.File(tmp_path / "f.h5") as file:
        for name in file:
            assert same(found.arrays[name][...], hdf5_values(file[name])), name


def compact(file: h5py.File, name: str, values: Any) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    kind = h5py.h5t.py_create(values.dtype, logical=True)
    dataset = h5py.h5d.create(
        file.id, name.encode(), kind, h5py.h5s.create_simple(values.shape), plist
    )
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values)


def test_compact_datasets_are_held_inline(tmp_path: Path) -> None:
    # Their bytes lie in the header, and HDF5 does not say where: VirtualiZarr reads fill values.
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for name, values in DATA.items():
            compact(file, name, values)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused.keys() == NOT_IN_THIS_ZARR
    assert any("stored inline" in note for _, note in found.report.notes)
    with h5py.File(tmp_path / "f.h5") as file:
        for name in DATA.keys() - NOT_IN_THIS_ZARR:
            assert same(found.arrays[name][...], hdf5_values(file[name])), name


@settings(examples(0.25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 3), max_size=2),
            st.sampled_from(["<i2", ">i2", "<f8", "S3", LITTLE, h5py.enum_dtype({"SEA": 7})]),
            st.sampled_from([None, 1]),
            st.booleans(),
        ),
        min_size=2,
        max_size=8,
    )
)
def test_datasets_that_are_alike_keep_what_differs(
    tmp_path_factory: pytest.TempPathFactory, stated: list[tuple[list[int], Any, Any, bool]]
) -> None:
    directory = tmp_path_factory.mktemp("alike")
    with h5py.File(directory / "f.h5", "w") as file:
        for number, (shape, dtype, fill, is_written) in enumerate(stated):
            may_fill = np.dtype(dtype).kind in "if"
            options = {"fillvalue": fill} if may_fill else {}
            dataset = file.create_dataset(f"d{number}", shape, dtype, **options)
            dataset.attrs["number"] = number
            if is_written:
                raw = bytes(range(number + 1, number + 1 + dataset.nbytes))
                values = np.frombuffer(raw, np.dtype(dtype).newbyteorder("="), dataset.size)
                dataset[...] = values.reshape(shape)
    found = convert(directory / "f.h5", directory / "h.zarr")
    with h5py.File(directory / "f.h5") as file:
        for name in file.keys() - found.refused.keys():
            array = found.arrays[name]
            assert same(array[...], hdf5_values(file[name])), name
            assert array.attrs["number"] == int(name[1:])
            expected = file[name].fillvalue
            assert bytes(np.asarray(array.fill_value)) == bytes(np.asarray(expected))
    assert found.refused.keys() <= NOT_IN_THIS_ZARR


def test_a_block_for_the_user_before_the_file_is_counted_in(tmp_path: Path) -> None:
    # As MATLAB writes them.
    with h5py.File(tmp_path / "f.mat", "w", userblock_size=1024) as file:
        file["contiguous"] = np.arange(5)
        file.create_dataset("chunked", data=np.arange(50), chunks=(7,), compression="gzip")
        file.create_dataset("empty", (3,), "i4")
    found = convert(tmp_path / "f.mat", tmp_path / "h.zarr")
    assert found.refused == {}
    assert same(found.arrays["contiguous"][...], np.arange(5))
    assert same(found.arrays["chunked"][...], np.arange(50))
    assert same(found.arrays["empty"][...], np.zeros(3))


def test_strings_of_different_lengths_are_held_inline(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["utf8"] = ["a", "bcé", "", "日本"]
        file["ascii"] = np.array([b"x", b"yz"], h5py.string_dtype("ascii"))
        file["scalar"] = "hello"
        file.create_dataset("chunked", data=["a"] * 10, chunks=(3,), compression="gzip")
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    with h5py.File(tmp_path / "f.h5") as file:
        for name in file:
            assert same(found.arrays[name][...], hdf5_values(file[name])), name


def test_strings_that_were_never_written(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "f.nc", "w") as file:
        file.createDimension("x", 3)
        file.createVariable("text", str, ("x",))
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.arrays["text"][...].tolist() == ["", "", ""]


@pytest.mark.parametrize("layout", ["contiguous", "gzip", "compound"])
def test_what_follows_the_ends_of_strings_is_not_read(tmp_path: Path, layout: str) -> None:
    # As C programs write them: after the zero byte lies whatever was in memory.
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(6)
    raw: Any = np.array([b"ab\0XYZ", b"abcdef", b"\0zzzzz"], "S6")
    if layout == "compound":
        whole = h5py.h5t.create(h5py.h5t.COMPOUND, 10)
        whole.insert(b"s", 0, kind)
        whole.insert(b"i", 6, h5py.h5t.STD_I32LE)
        kind, strings, raw = whole, raw, np.zeros(3, [("s", "S6"), ("i", "<i4")])
        raw["s"] = strings
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if layout == "gzip":
        plist.set_chunk((2,))
        plist.set_deflate(4)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for name, values in {"x": raw, "clean": np.repeat(raw[1:2], 3)}.items():
            space = h5py.h5s.create_simple(values.shape)
            dataset = h5py.h5d.create(file.id, name.encode(), kind, space, plist)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values, kind)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    with h5py.File(tmp_path / "f.h5") as file:
        for name in file:
            assert same(found.arrays[name][...], hdf5_values(file[name])), name
    assert [name for name, _ in found.report.notes] == ["x"]


@pytest.mark.parametrize("layout", ["contiguous", "unlimited", "all filters"])
def test_compound_types_with_gaps_are_held_inline(tmp_path: Path, layout: str) -> None:
    # As C programs write them: Zarr has no gaps between fields.
    aligned = np.dtype([("a", "i1"), ("b", "<f8"), ("c", "S3"), ("d", "<i2")], align=True)
    options: Any = {"names": ["b", "a"], "formats": ["<f8", "i1"], "offsets": [8, 0]}
    values = np.zeros(6, aligned)
    values["a"], values["b"], values["c"] = np.arange(6), np.arange(6) / 3, b"xyz"
    other = np.zeros(6, np.dtype(options))
    other["a"], other["b"] = values["a"], values["b"]
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("aligned", data=values, **LAYOUTS[layout])
        file.create_dataset("other", data=other, **LAYOUTS[layout])
        file.create_dataset("empty", (3,), aligned)
        nested = file.create_dataset("nested", (3,), [("i", "i1"), ("n", aligned)])
        nested[...] = np.array([(k, values[k]) for k in range(3)], nested.dtype)
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    with h5py.File(tmp_path / "f.h5") as file:
        for name in file:
            assert same(found.arrays[name][...], hdf5_values(file[name])), name
    noted = {path for path, note in found.report.notes if "stored inline" in note}
    assert noted == {"aligned", "other", "nested"}


def test_padding_of_strings_with_spaces_is_not_read(tmp_path: Path) -> None:
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(5)
    kind.set_strpad(h5py.h5t.STR_SPACEPAD)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        dataset = h5py.h5d.create(file.id, b"fortran", kind, h5py.h5s.create_simple((2,)))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([b"ab", b"abcde"], "S5"))
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.arrays["fortran"][...].tolist() == [b"ab", b"abcde"]


def test_enumerations_and_times_are_their_numbers(tmp_path: Path) -> None:
    kind = h5py.enum_dtype({"LAND": 0, "SEA": 7}, basetype="<i2")
    times = np.array(["2020-01-01", "2021-01-01"], "M8[s]")
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("enum", data=np.array([0, 7], "i2"), dtype=kind)
        file["time"] = times.astype(h5py.opaque_dtype("M8[s]"))
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.arrays["enum"][...].tolist() == [0, 7]
    assert same(found.arrays["time"][...], times)


def test_groups_become_groups_with_their_attributes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.attrs["title"] = "root"
        inner = file.create_group("a/b")
        inner.attrs["numbers"] = np.arange(3, dtype="i2")
        inner["x"] = np.arange(3)
        inner["x"].attrs["empty"] = h5py.Empty("f4")
        inner["x"].attrs["range"] = [0.0, np.nan]
        inner["x"].attrs["limit"] = np.inf
        inner["x"].attrs["flag"] = np.bool_(True)
        inner["x"].attrs["other"] = file["a"].ref
        file["soft"] = h5py.SoftLink("/a/b/x")
        file["second"] = inner["x"]
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.group.attrs["title"] == "root"
    assert found.group["a/b"].attrs["numbers"] == [0, 1, 2]
    attributes = dict(found.arrays["a/b/x"].attrs)
    assert attributes == {"empty": "", "range": [0.0, "NaN"], "limit": "Infinity", "flag": True}
    notes = "\n".join(note for _, note in found.report.notes)
    assert "'range'" in notes
    assert "'other'" in notes
    for name in ("a/b/x", "soft", "second"):
        assert same(found.arrays[name][...], np.arange(3))


def test_xarray_opens_groups_without_names_of_dimensions_as_a_tree(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["a/x"] = np.zeros((3, 3, 2))
        file["a/b/y"] = np.zeros((4, 3))
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    with xr.open_datatree(
        found.root, engine="zarr-manifest", allow=["/"], consolidated=False
    ) as tree:
        assert tree["a/x"].dims == ("phony_dim_0", "phony_dim_1", "phony_dim_2")
        assert tree["a/b/y"].dims == ("phony_dim_3", "phony_dim_0")
