"""virtualizarr 2.8.0: `to_icechunk(append_dim=…)` commits chunks that read as other values.

Writes two netCDF files, appends the second to the first, and compares what is committed with
`xr.concat` of the two. Exits with a line `fault:` or `mended:`.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import h5netcdf  # noqa: F401  # xarray writes the files with it
import icechunk
import numpy as np
import virtualizarr  # noqa: F401  # the accessor `vz`
import xarray as xr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr import open_virtual_dataset
from virtualizarr.parsers import HDFParser


def write(path: Path, start: str, days: int, *, units: str, time: str, scale: float | None) -> Path:
    """Write a file of some days, whose chunks have two days each."""
    values = 100 + np.arange(days * 4, dtype="f4").reshape(days, 4)
    data = xr.Dataset(
        {"t": (("time", "x"), values, {"units": units})},
        coords={"time": xr.date_range(start, periods=days, unit="ns")},
    )
    packed: dict[str, Any] = {"dtype": "i2", "scale_factor": scale} if scale else {}
    encoding = {"t": {"chunksizes": (2, 4), **packed}, "time": {"units": time, "dtype": "i8"}}
    data.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    return path


def append(directory: Path, name: str, first: Path, second: Path, loadable: list[str]) -> str:
    """Commit one file and then the other, and say what the result reads as."""
    prefix = f"{directory.as_uri()}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(f"{directory}/"))
    )
    repository = icechunk.Repository.create(
        icechunk.in_memory_storage(), config=config, authorize_virtual_chunk_access={prefix: None}
    )
    registry = ObjectStoreRegistry({"file://": LocalStore()})
    for path, more in ((first, {}), (second, {"append_dim": "time"})):
        session = repository.writable_session("main")
        virtual = open_virtual_dataset(
            path.as_uri(), registry=registry, parser=HDFParser(), loadable_variables=loadable
        )
        try:
            virtual.vz.to_icechunk(session.store, **more)
        except ValueError as error:
            return f"refused: {str(error)[:70]}…"
        session.commit(name)
    store = repository.readonly_session("main").store
    committed = xr.open_zarr(store, consolidated=False, zarr_format=3).load()
    with xr.open_dataset(first) as one, xr.open_dataset(second) as other:
        wrong = [
            what
            for what in ("t", "time")
            if not np.array_equal(committed[what], np.concatenate([one[what], other[what]]))
        ]
        if one.t.attrs != other.t.attrs:
            wrong.append("the units of some of t")
    return f"committed; wrong: {', '.join(wrong) or 'nothing'}"


def main() -> None:
    warnings.simplefilter("ignore")
    plain: dict[str, Any] = {"units": "K", "time": "days since 2000-01-01", "scale": None}
    cases: dict[str, tuple[int, dict[str, Any], dict[str, Any], list[str]]] = {
        "nothing differs": (2, {}, {}, ["time"]),
        "the joint is inside a chunk": (3, {}, {}, ["time"]),
        "another scale_factor": (2, {"scale": 0.5}, {"scale": 0.25}, ["time"]),
        "other units of a virtual time": (2, {}, {"time": "days since 2020-01-01"}, []),
        "other units of the values": (2, {}, {"units": "degC"}, ["time"]),
    }
    results = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for number, (case, (days, one, other, loadable)) in enumerate(cases.items()):
            start = f"2020-01-{1 + days:02}"
            first = write(directory / f"{number}a.nc", "2020-01-01", days, **plain | one)
            second = write(directory / f"{number}b.nc", start, 2, **plain | other)
            results[case] = append(directory, case, first, second, loadable)
            print(f"{case}: {results[case]}")
    accepted, *rest = results.values()
    assert accepted == "committed; wrong: nothing"
    wrong = [result for result in rest if not result.startswith("refused")]
    print(f"fault: {len(wrong)} wrong commits" if wrong else "mended: all are refused")


if __name__ == "__main__":
    main()
