"""Small files whose times lie in the past, so that their scans are kept."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np

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
