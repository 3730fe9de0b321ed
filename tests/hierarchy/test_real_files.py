"""Files that h5py and netCDF4 wrote, read where they are: values equal theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import write_manifest_array

FIELD = np.arange(1, 61, dtype="<f4").reshape(5, 12) / 7
# Zarr does not specify what HDF5's filters are called.
pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")


def references(dataset: h5py.Dataset, path: str) -> dict[str, dict[str, Any]]:
    """Where HDF5 keeps the chunks of a dataset."""
    if dataset.chunks is None:
        offset = dataset.id.get_offset()
        key = ".".join("0" for _ in dataset.shape) or "0"
        return {key: {"path": path, "offset": offset, "length": dataset.id.get_storage_size()}}
    manifest = {}
    for number in range(dataset.id.get_num_chunks()):
        chunk = dataset.id.get_chunk_info(number)
        assert chunk.filter_mask == 0
        index = (start // n for start, n in zip(chunk.chunk_offset, dataset.chunks, strict=True))
        manifest[".".join(map(str, index))] = {
            "path": path,
            "offset": chunk.byte_offset,
            "length": chunk.size,
        }
    return manifest


def zarr_codecs(dataset: h5py.Dataset) -> dict[str, Any]:
    """HDF5's filters and byte order, as options of ``zarr.create_array``."""
    codecs = pytest.importorskip("zarr.codecs.numcodecs")
    compressors: list[Any] = []
    if dataset.shuffle:
        compressors.append(codecs.Shuffle(elementsize=dataset.dtype.itemsize))
    if dataset.compression == "gzip":
        compressors.append(codecs.Zlib(level=dataset.compression_opts))
    options: dict[str, Any] = {"compressors": compressors or None}
    if dataset.dtype.itemsize > 1:
        endian = "big" if dataset.dtype.byteorder == ">" else "little"
        options["serializer"] = zarr.codecs.BytesCodec(endian=endian)
    return options


def refer_to(file: h5py.File, name: str, root: Path, url: str) -> None:
    """Make the array `name` of a hierarchy from a dataset in a file."""
    dataset = file[name]
    native = np.empty(dataset.shape, dataset.dtype.newbyteorder("="))
    write_manifest_array(
        root,
        name,
        native,
        dataset.chunks or dataset.shape,
        references(dataset, url),
        fill_value=dataset.fillvalue,
        **zarr_codecs(dataset),
    )


HDF5: dict[str, tuple[np.ndarray[Any, Any], dict[str, Any]]] = {
    "contiguous": (FIELD, {}),
    "chunked": (FIELD, {"chunks": (2, 5)}),
    "gzip": (FIELD, {"chunks": (2, 5), "compression": "gzip", "compression_opts": 4}),
    "gzip-shuffle": (FIELD, {"chunks": (3, 4), "compression": "gzip", "shuffle": True}),
    "big-endian": (FIELD.astype(">f8"), {"chunks": (5, 5)}),
    "big-endian-contiguous": (FIELD.astype(">i2"), {}),
    "bytes": (np.arange(60, dtype="u1").reshape(3, 4, 5), {"chunks": (2, 2, 2)}),
    "scalar": (np.float64(2.5), {}),
    "long": (np.arange(10_000, dtype="<i8"), {"chunks": (64,)}),
}


@pytest.fixture(scope="module")
def hdf5(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A hierarchy, and the HDF5 file that it refers to."""
    directory = tmp_path_factory.mktemp("hdf5")
    path, root = directory / "file.h5", directory / "data.zarr"
    with h5py.File(path, "w", libver="latest") as file:
        for name, (values, options) in HDF5.items():
            file.create_dataset(name, data=values, **options)
        partly = file.create_dataset("partly", (6, 6), "<i2", chunks=(2, 3), fillvalue=-5)
        partly[2:4, 3:6] = 7
    zarr.create_group(root)
    with h5py.File(path) as file:
        for name in file:
            refer_to(file, name, root, path.as_uri())
    return root, path


@pytest.mark.parametrize("name", [*HDF5, "partly"])
def test_hdf5(name: str, hdf5: tuple[Path, Path]) -> None:
    root, path = hdf5
    store = zm.ManifestStore(root, allow=[f"{path.parent.as_uri()}/"])
    array = zarr.open(store, path=name, mode="r")
    with h5py.File(path) as file:
        expected = file[name][()]
        assert expected.size
        np.testing.assert_array_equal(array[...], expected)
        if array.ndim == 2:
            np.testing.assert_array_equal(array[1:4, ::3], file[name][1:4, ::3])


@pytest.mark.slow
def test_hdf5_in_one_group(hdf5: tuple[Path, Path]) -> None:
    root, path = hdf5
    store = zm.ManifestStore(root, allow=[path.as_uri()])
    group = zarr.open_group(store, mode="r")
    assert set(group.array_keys()) == {*HDF5, "partly"}
    (location,) = store.locations()
    assert location.allowed
    assert location.objects == 1
    with h5py.File(path) as file:
        for name in file:
            np.testing.assert_array_equal(group[name][...], file[name][()])


def test_hdf5_missing_chunks_are_absent(hdf5: tuple[Path, Path]) -> None:
    root, path = hdf5
    with h5py.File(path) as file:
        assert list(references(file["partly"], "")) == ["1.1"]
    array = zarr.open_array(zm.ManifestStore(root, allow=[path.as_uri()]), path="partly", mode="r")
    assert array[0, 0] == -5
    assert array[3, 3] == 7


NETCDF4: dict[str, dict[str, Any]] = {
    "contiguous": {"contiguous": True},
    "chunked": {"chunksizes": (2, 2, 5)},
    "deflated": {"chunksizes": (1, 3, 4), "zlib": True, "complevel": 3, "shuffle": False},
    "shuffled": {"chunksizes": (1, 3, 4), "zlib": True, "complevel": 3, "shuffle": True},
    "big": {"chunksizes": (2, 3, 4), "endian": "big"},
}


@pytest.fixture(scope="module")
def netcdf4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hierarchy that carries the netCDF file that it refers to."""
    root = tmp_path_factory.mktemp("netcdf4") / "data.zarr"
    zarr.create_group(root)
    (root / "raw").mkdir()
    path = root / "raw" / "file.nc"
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", None), ("fixed", 3), ("y", 5), ("x", 12)):
            file.createDimension(name, size)
        for name, options in NETCDF4.items():
            first = "fixed" if "contiguous" in options else "time"
            dtype = ">f4" if options.get("endian") == "big" else "<f4"
            variable = file.createVariable(name, dtype, (first, "y", "x"), **options)
            variable[:3] = FIELD * np.arange(1, 4)[:, None, None]
    with h5py.File(path) as file:
        for name in NETCDF4:
            refer_to(file, name, root, "../raw/file.nc")
    return root


@pytest.mark.parametrize("name", NETCDF4)
def test_netcdf4(name: str, netcdf4: Path) -> None:
    array = zarr.open(zm.ManifestStore(netcdf4), path=name, mode="r")
    with netCDF4.Dataset(netcdf4 / "raw" / "file.nc") as file:
        file.set_auto_mask(False)
        expected = file[name][...]
        assert expected.shape == (3, 5, 12)
        np.testing.assert_array_equal(array[...], expected)
        np.testing.assert_array_equal(array[1, 2:5, 3:11], file[name][1, 2:5, 3:11])


@pytest.mark.parametrize("version", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"])
def test_netcdf3(version: Any, tmp_path: Path) -> None:
    """Records of a classic file: big-endian, at constant distance, in no index."""
    root = tmp_path / "data.zarr"
    root.mkdir()
    path = tmp_path / "classic.nc"
    values = np.arange(4 * 6, dtype=">i4").reshape(4, 6)
    with netCDF4.Dataset(path, "w", format=version) as file:
        file.createDimension("t", None)
        file.createDimension("x", 6)
        file.createVariable("v", "i4", ("t", "x"))[:4] = values
    start = path.read_bytes().index(values.tobytes())
    manifest = {
        f"{t}.0": {"path": path.as_uri(), "offset": start + 24 * t, "length": 24} for t in range(4)
    }
    big = zarr.codecs.BytesCodec(endian="big")
    write_manifest_array(root, "v", values.astype("<i4"), (1, 6), manifest, serializer=big)
    array = zarr.open(zm.ManifestStore(root, allow=[path.as_uri()]), path="v", mode="r")
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        np.testing.assert_array_equal(array[...], file["v"][...])
