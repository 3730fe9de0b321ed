"""Import of kerchunk's JSON: sets that kerchunk wrote, read to fsspec's values."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import virtualizarr
import virtualizarr.parsers
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore

from tests.conversion.kerchunk.kerchunk_sets import (
    assert_equal,
    hdf5_references,
    read_as_manifests,
    read_by_fsspec,
)

pytestmark = pytest.mark.slow


def write_hdf5(path: Path) -> None:
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "a test"
        for order in "<>":
            for kind in ("i1", "i2", "u4", "i8", "f4", "f8"):
                data = random.integers(0, 100, (7, 5)).astype(order + kind)
                file.create_dataset(f"plain{order}{kind}", data=data)
                file.create_dataset(
                    f"g/zlib {order}{kind} 50%",
                    data=data,
                    chunks=(3, 2),
                    compression="gzip",
                    shuffle=True,
                )
        file.create_dataset("g/deep/checked", data=np.arange(9.0), chunks=(4,), fletcher32=True)
        file.create_dataset("scalar", data=np.float32(2.5))
        file.create_dataset("scalar without data", shape=(), dtype="i4")
        file.create_dataset("never written", shape=(6,), dtype="f8", chunks=(2,), fillvalue=np.nan)
        sparse = file.create_dataset("sparse", shape=(8,), dtype="i4", chunks=(2,), fillvalue=-9)
        sparse[2:4] = 5
        file.create_dataset("empty", shape=(0, 3), maxshape=(None, 3), dtype="f4", chunks=(2, 3))
        file.create_dataset("bytes", data=np.array([b"ab", b"c", b""], "S4"))


def test_hdf5(tmp_path: Path) -> None:
    write_hdf5(tmp_path / "a b%20.h5")
    source = tmp_path / "a b%20.h5"
    references = hdf5_references(source, inline_threshold=0)
    theirs = read_by_fsspec(references)
    ours, report = read_as_manifests(references, tmp_path / "h.zarr")
    assert report.refused == []
    assert_equal(ours, theirs)
    with h5py.File(source) as file:
        for path, values in ours.items():
            if path != "scalar without data":
                np.testing.assert_array_equal(values, file[path][...], err_msg=path)


def test_hdf5_with_inline_chunks(tmp_path: Path) -> None:
    write_hdf5(tmp_path / "a.h5")
    references = hdf5_references(tmp_path / "a.h5", inline_threshold=100)
    written = tmp_path / "refs.json"
    written.write_text(json.dumps(references))
    assert any("base64:" in str(value) for value in references["refs"].values())
    ours, report = read_as_manifests(written, tmp_path / "h.zarr")
    assert report.refused == []
    assert_equal(ours, read_by_fsspec(references))


@pytest.mark.parametrize("unlimited", [False, True])
def test_netcdf3(tmp_path: Path, unlimited: bool) -> None:
    import kerchunk.netCDF3

    source = tmp_path / "a.nc"
    with netCDF4.Dataset(source, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None if unlimited else 4)
        file.createDimension("x", 3)
        for kind in ("i2", "i4", "f4", "f8"):
            file.createVariable(f"v{kind}", kind, ("t", "x"))[:] = np.arange(12).reshape(4, 3)
        file.createVariable("fixed", "f8", ("x",))[:] = [1, 2, 3]
        file.createVariable("text", "S1", ("x",))[:] = [b"a", b"b", b"c"]
    references = kerchunk.netCDF3.NetCDF3ToZarr(str(source), inline_threshold=0).translate()
    ours, report = read_as_manifests(references, tmp_path / "h.zarr")
    assert report.refused == []
    assert_equal(ours, read_by_fsspec(references))
    with netCDF4.Dataset(source) as file:
        file.set_auto_mask(False)
        for path in ("vi2", "vi4", "vf4", "vf8", "fixed", "text"):
            np.testing.assert_array_equal(ours[path], file[path][...])


def test_combined_sets(tmp_path: Path) -> None:
    import kerchunk.combine

    singles = []
    for number in range(3):
        path = tmp_path / f"{number}.nc"
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("t", 1)
            file.createDimension("x", 4)
            file.createVariable("t", "i4", ("t",))[:] = [number]
            file.createVariable("v", "f4", ("t", "x"))[:] = np.arange(4) + 10 * number
        singles.append(hdf5_references(path))
    references = kerchunk.combine.MultiZarrToZarr(
        singles, concat_dims=["t"], remote_protocol="file"
    ).translate()
    ours, report = read_as_manifests(references, tmp_path / "h.zarr")
    assert report.refused == []
    assert_equal(ours, read_by_fsspec(references))
    assert ours["v"].tolist() == [[10 * n + x for x in range(4)] for n in range(3)]


def test_scalars_of_virtualizarr(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("scalar", data=2.5)
        file.create_dataset("field", data=np.arange(6).reshape(2, 3), chunks=(1, 3))
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    with virtualizarr.open_virtual_dataset(
        (tmp_path / "a.h5").as_uri(),
        registry=registry,
        parser=virtualizarr.parsers.HDFParser(),
        loadable_variables=[],
    ) as dataset:
        references = dataset.vz.to_kerchunk(format="dict")
    ours, report = read_as_manifests(references, tmp_path / "h.zarr")
    assert report.refused == []
    # Where fsspec, as of VirtualiZarr 2.8, finds no chunk, and zarr reads the fill value.
    assert ours["scalar"] == 2.5
    assert ours["field"].tolist() == [[0, 1, 2], [3, 4, 5]]
