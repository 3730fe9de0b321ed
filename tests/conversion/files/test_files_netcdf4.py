"""netCDF-4: dimensions, groups and fill values, as netCDF4 and xarray read them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import zarr_manifest as zm
from tests.conversion.files.converted_files import (
    IGNORED_WARNINGS,
    convert,
    netcdf_values,
    netcdf_variables,
    same,
)
from zarr_manifest.conversion import ArrayNode, read_files, write_hierarchy
from zarr_manifest.manifest import Manifest, references_of

pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS)]


def write_dimensions(file: netCDF4.Dataset) -> None:
    file.createDimension("time", None)
    file.createDimension("x", 3)
    file.createDimension("text", 4)
    file.createVariable("time", "f8", ("time",))
    file.createVariable("x", "i4", ("x",))[:] = [5, 6, 7]
    file.createVariable("v", "i2", ("time", "x"), zlib=True, fill_value=-1)


def several_dimensions(file: netCDF4.Dataset) -> None:
    # A coordinate variable of two dimensions: it has no dimension scales.
    file.createDimension("time", 2)
    file.createDimension("text", 4)
    file.createVariable("time", "S1", ("time", "text"))[:] = np.array(
        [list("abcd"), list("efgh")], "S1"
    )
    file.createVariable("text", "f4", ("time",))[:] = [1, 2]


def nested_groups(file: netCDF4.Dataset) -> None:
    file.createDimension("x", 3)
    group = file.createGroup("a").createGroup("b")
    group.createDimension("y", 2)
    group.createVariable("v", "f4", ("y", "x"), shuffle=True, zlib=True, fletcher32=True)[:] = 1.5
    group.createVariable("y", "i8", ("y",))[:] = [3, 4]


def many_types(file: netCDF4.Dataset) -> None:
    file.createDimension("x", 3)
    for code in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
        for endian in ("little", "big"):
            name = f"{code}_{endian}"
            kind = np.dtype(code).newbyteorder("<" if endian == "little" else ">")
            variable = file.createVariable(name, kind, ("x",), endian=endian, fill_value=99)
            variable[:] = [1, 2, 3]
            variable.scale_factor = 0.5
            variable.set_auto_maskandscale(False)
    text = file.createVariable("text", str, ("x",))
    text[:] = np.array(["a", "bc", "é"], object)
    letters = file.createVariable("letters", "S1", ("x",), fill_value=b"-")
    letters[:] = np.array([b"a", b"b", b"-"])
    enum = file.createEnumType("i1", "kind_t", {"a": 0, "b": 1})
    file.createVariable("enum", enum, ("x",))[:] = [0, 1, 0]
    scalar = file.createVariable("scalar", "f8", ())
    scalar[...] = 2.5


def scaled(file: netCDF4.Dataset) -> None:
    file.createDimension("t", 4)
    variable = file.createVariable("t", "i4", ("t",))
    variable.units = "days since 2000-01-01"
    variable[:] = range(4)
    packed = file.createVariable("packed", "i2", ("t",), fill_value=-999)
    packed.scale_factor, packed.add_offset = 0.1, 20.0
    packed[:] = np.ma.masked_greater([20.0, 21.5, 22.0, 99.0], 90)
    floats = file.createVariable("floats", "f4", ("t",), fill_value=np.nan)
    floats[:] = [1, np.nan, 3, 4]
    floats.missing_value = np.float32(np.nan)
    floats.coordinates = "t"


@pytest.mark.parametrize(
    "make", [write_dimensions, several_dimensions, nested_groups, many_types, scaled]
)
def test_netcdf4_files_read_as_netcdf4_reads_them(
    tmp_path: Path, make: Callable[[netCDF4.Dataset], None]
) -> None:
    with netCDF4.Dataset(tmp_path / "f.nc", "w") as file:
        make(file)
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    with netCDF4.Dataset(tmp_path / "f.nc") as file:
        variables = netcdf_variables(file)
        assert found.arrays.keys() | found.refused.keys() == variables.keys()
        assert found.refused == {}
        for path, variable in variables.items():
            array = found.arrays[path]
            assert same(array[...], netcdf_values(variable)), path
            assert array.metadata.dimension_names == tuple(variable.dimensions), path


@pytest.mark.parametrize("make", [nested_groups, many_types, scaled])
def test_xarray_decodes_the_hierarchy_as_it_does_the_file(
    tmp_path: Path, make: Callable[[netCDF4.Dataset], None]
) -> None:
    with netCDF4.Dataset(tmp_path / "f.nc", "w") as file:
        make(file)
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    group = "a/b" if make is nested_groups else ""
    options: dict[str, Any] = {"engine": "zarr-manifest", "consolidated": False, "group": group}
    with (
        xr.open_dataset(tmp_path / "f.nc", engine="netcdf4", group=group or None) as expected,
        xr.open_dataset(found.root, allow=["/"], **options) as decoded,
    ):
        # xarray has no way to state the fill value of letters in Zarr v3.
        letters = ["letters"]
        xr.testing.assert_equal(
            decoded.drop_vars(letters, errors="ignore").load(),
            expected.drop_vars(letters, errors="ignore").load(),
        )


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF4_CLASSIC"])
def test_variables_are_as_long_as_their_unlimited_dimensions(tmp_path: Path, kind: Any) -> None:
    with netCDF4.Dataset(tmp_path / "f.nc", "w", format=kind) as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.createVariable("t", "f8", ("t",))[:] = np.arange(5)
        file.createVariable("part", "i4", ("t", "x"))[:3] = 2
        options: Any = {"zlib": True, "chunksizes": (2, 2), "fill_value": -5}
        file.createVariable("packed", "i2", ("t", "x"), **options)[:3] = 2
        file.createVariable("never", "i4", ("t", "x"), fill_value=-5)
        if kind == "NETCDF4":
            file.createVariable("text", str, ("t",))[0] = "a"
            file.createGroup("g").createVariable("longest", "i2", ("t",))[:7] = 9
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.refused == {}
    with netCDF4.Dataset(tmp_path / "f.nc") as file:
        for path, variable in netcdf_variables(file).items():
            assert same(found.arrays[path][...], netcdf_values(variable)), path
    # xarray refuses dimensions of two lengths.
    with xr.open_dataset(
        found.root, engine="zarr-manifest", allow=["/"], consolidated=False
    ) as opened:
        assert opened.sizes["t"] == (7 if kind == "NETCDF4" else 5)


def test_datasets_of_hdf5_have_their_own_lengths(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["t"] = np.arange(5)
        file["t"].make_scale("t")
        file.create_dataset("v", data=np.arange(3), maxshape=(None,), chunks=(2,))
        file["v"].dims[0].attach_scale(file["t"])
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.arrays["v"][...].tolist() == [0, 1, 2]


def test_a_fill_value_that_is_not_an_integer_masks_nothing(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = np.arange(3)
        file["x"].attrs["_FillValue"] = 1.5
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert "_FillValue" not in found.arrays["x"].attrs
    assert "1.5 is not an integer" in found.report.notes[0][1]


def test_a_variable_that_was_never_written_is_not_left_out(tmp_path: Path) -> None:
    # VirtualiZarr drops it for a dimension without a variable.
    with netCDF4.Dataset(tmp_path / "f.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("only", 5)
        file.createVariable("time", "f8", ("time",)).units = "days since 2000-01-01"
        file.createVariable("v", "f4", ("time", "only"))
    found = convert(tmp_path / "f.nc", tmp_path / "h.zarr")
    assert found.arrays.keys() == {"time", "v"}
    assert found.arrays["time"].shape == (0,)
    assert found.arrays["time"].attrs["units"] == "days since 2000-01-01"
    assert found.arrays["v"].metadata.dimension_names == ("time", "only")


def patched(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes that occur once in a file."""
    body = path.read_bytes()
    assert body.count(old) == 1
    path.write_bytes(body.replace(old, new))


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_an_undefined_fill_value_is_zero_and_noted_where_it_is_read(
    tmp_path: Path, chunks: tuple[int] | None
) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        dataset = file.create_dataset("x", (6,), "u1", chunks=chunks)
        if chunks:
            dataset[:3] = [1, 2, 3]
    # The message "fill value": version 2, when it is written, and whether it is defined.
    when = b"\2\3\2" if chunks else b"\2\2\2"
    patched(tmp_path / "f.h5", when + b"\1" + bytes(4), when + bytes(5))
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.arrays["x"][...].tolist() == ([1, 2, 3, 0, 0, 0] if chunks else [0] * 6)
    assert [note for _, note in found.report.notes] == [
        "its fill value is undefined: chunks that were never written read as 0"
    ]


def test_chunks_beyond_the_shape_are_left_out_as_hdf5_does(tmp_path: Path) -> None:
    # A writer that was killed had stored them, but not yet the shape.
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("x", data=np.arange(6, dtype="u1"), chunks=(2,), maxshape=(77,))
    extent = (77).to_bytes(8, "little")
    patched(tmp_path / "f.h5", (6).to_bytes(8, "little") + extent, b"\4" + bytes(7) + extent)
    with h5py.File(tmp_path / "f.h5") as file:
        assert file["x"][...].tolist() == [0, 1, 2, 3]
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.arrays["x"][...].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("has_scans", [False, True])
def test_coordinates_of_a_file_alone_are_stored_inline_unless_they_are_large(
    tmp_path: Path, has_scans: bool
) -> None:
    path, scans = tmp_path / "f.nc", tmp_path / "scans"
    given = xr.Dataset({"v": (("y", "x"), np.zeros((2, 40)))}, {"y": [1, 2], "x": np.arange(40)})
    chunks = {"x": {"zlib": True, "chunksizes": (7,)}, "y": {"zlib": True, "chunksizes": (2,)}}
    given.to_netcdf(path, encoding=chunks)
    os.utime(path, (0, 0))  # young files have no scans
    for limit, inline in ((2**20, {"x", "y"}), (100, {"y"})):
        found = read_files(path, inline_limit=limit, scans=scans if has_scans else None)
        nodes = {node.path: node for node in found if isinstance(node, ArrayNode)}
        manifests = {path: node.manifest for path, node in nodes.items()}
        assert inline == {
            name
            for name, manifest in manifests.items()
            if isinstance(manifest, Manifest) and not references_of(manifest).paths
        }
        root = tmp_path / f"{limit}.zarr"
        write_hierarchy(root, nodes.values())
        store = zm.ManifestStore(root, allow=[tmp_path])
        xr.testing.assert_equal(xr.open_zarr(store, consolidated=False), given)
