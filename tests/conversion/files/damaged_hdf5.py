"""Damaged HDF5 files, and what becomes of them.

HDF5 itself does not survive every damaged file, so that those of random damage are read in another
process.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np

from zarr_manifest.conversion import read_files
from zarr_manifest.errors import ManifestError


def write(path: Path, libver: Any) -> bytes:
    """Write a small file with all kinds of structures, and return it."""
    with h5py.File(path, "w", libver=libver) as file:
        file["x"] = np.arange(10.0)
        file["x"].make_scale("x")
        options: Any = {"chunks": (3, 4), "compression": "gzip", "shuffle": True}
        for number in range(10):
            name = f"d{number}"
            file.create_dataset(name, data=np.ones((10, 10)), maxshape=(None, 10), **options)
            file[name].dims[1].attach_scale(file["x"])
        inner = file.create_group("a/b")
        inner["soft"] = h5py.SoftLink("/x")
        inner["strings"] = ["a", "bb"]
        inner["type"] = np.dtype("f4")
        inner["compound"] = np.zeros(4, [("a", "<i4"), ("b", "<f8")])
        for number in range(20):
            inner.attrs[f"attribute{number}"] = "v" * number
    return path.read_bytes()


def write_netcdf(path: Path) -> bytes:
    """Write a small netCDF-4 file, and return it."""
    with netCDF4.Dataset(path, "w") as file:
        file.title = "test"
        file.createDimension("time", None)
        file.createDimension("x", 10)
        options: Any = {"zlib": True, "fletcher32": True, "chunksizes": (2, 5)}
        variable = file.createVariable("v", "f4", ("time", "x"), **options)
        variable[:] = np.ones((5, 10))
        variable.units = "K"
        file.createVariable("time", "f8", ("time",))[:] = range(5)
        file.createVariable("x", "i4", ("x",))[:] = range(10)
        file.createVariable("s", str, ("x",))[:] = np.array(list("abcdefghij"), object)
        file.createGroup("g").createVariable("w", "i2", ("x",))[:] = 3
    return path.read_bytes()


def outcome(path: Path) -> str:
    """Read a file, and return what came of it; other errors than our own are raised."""
    try:
        list(read_files(path))
    except ManifestError as error:
        return error.code
    return "read"


def damaged(body: bytes, seed: int) -> bytes:
    """Change a few bytes, or cut the end off."""
    chance = random.Random(seed)
    if chance.random() < 0.1:
        return body[: chance.randrange(len(body))]
    changed = bytearray(body)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        at = chance.randrange(len(body))
        changed[at] = chance.choice([0, 255, changed[at] ^ 1 << chance.randrange(8)])
    return bytes(changed)


def report(start: int, stop: int, printed: Path) -> None:
    """Report on a range of seeds, a line for each."""
    with tempfile.TemporaryDirectory() as directory, printed.open("w", buffering=1) as lines:
        path = Path(directory, "f.h5")
        bodies = [write(path, "earliest"), write(path, "latest"), write_netcdf(path)]
        for seed in range(start, stop):
            path.write_bytes(damaged(bodies[seed % len(bodies)], seed))
            lines.write(f"{json.dumps([seed, outcome(path)])}\n")
