"""Small files whose times lie in the past, so that their scans are kept."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

LONG_AGO = 1_700_000_000


def age(path: Path, seconds: int = LONG_AGO) -> Path:
    """Give a file a time in the past."""
    os.utime(path, (seconds, seconds))
    return path


def write_day(path: Path, day: int, *, value: float | None = None) -> Path:
    """Write a netCDF-4 file with one day of an array, and a scalar."""
    with h5py.File(path, "w") as file:
        time = file.create_dataset("time", data=np.array([day], "f8"))
        time.make_scale("time")
        time.attrs["units"] = "days since 2000-01-01"
        sst = file.create_dataset("sst", data=np.full((1, 4), value or day, "f4"), chunks=(1, 4))
        sst.dims[0].attach_scale(time)
        sst.attrs["_FillValue"] = np.float32(-999)
        sst.attrs["scale_factor"] = np.float32(0.1)
        file["crs"] = np.int32(4326)
    return age(path)


def write_days(directory: Path, count: int) -> list[Path]:
    """Write so many files, of one day each."""
    directory.mkdir(exist_ok=True)
    return [write_day(directory / f"{day:04}.nc", day) for day in range(count)]


def documents(scans: Path) -> list[Path]:
    """Return the documents in a place."""
    return sorted(path for path in scans.rglob("*") if path.is_file())


def _groups(path: Path) -> None:
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["history"] = ["a", "b"]
        inner = file.create_group("ocean")
        inner.create_dataset("t", data=np.arange(30.0).reshape(5, 6), chunks=(2, 6), compression=4)
        inner["names"] = ["one", "two"]
        inner["far"] = h5py.ExternalLink("other.h5", "/x")
        file.create_dataset("sparse", (100, 100), "i2", chunks=(10, 10), fillvalue=-1)[5, 5] = 3
        kinds = h5py.enum_dtype({"land": 0, "sea": 1}, basetype="u1")
        file.create_dataset("kind", data=np.array([0, 1], "u1"), dtype=kinds)
        file["crs"] = np.int32(4326)
        file["compound"] = np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")])
        file.create_dataset("huge", data=[b"x" * 300] * 2, dtype=h5py.string_dtype("ascii"))


def _classic(path: Path) -> None:
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 3)
        file.createVariable("x", "f8", ("x",))[...] = [1.0, np.nan, 3.0]
        variable = file.createVariable("v", "i2", ("x",), fill_value=-9)
        variable.setncatts({"scale_factor": np.float32(0.1), "valid_range": np.array([0, 9], "i2")})
        variable[...] = [1, 2, 3]
        file.createVariable("c", "S1", ("x",))[...] = np.array([b"a", b"b", b"c"])


def _images(path: Path) -> None:
    from astropy.io import fits

    fits.HDUList(
        [fits.PrimaryHDU(np.arange(12, dtype=">i2").reshape(3, 4)), fits.ImageHDU(name="EMPTY")]
    ).writeto(path)


def _tiff(path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    tifffile.imwrite(path, np.arange(4096, dtype="u2").reshape(64, 64), tile=(32, 32))


FILES = {"f.h5": _groups, "classic.nc": _classic, "f.fits": _images, "f.tif": _tiff}
