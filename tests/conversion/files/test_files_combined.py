"""Many files as one hierarchy: along dimensions, in parallel, on a cluster."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

from tests.conversion.files.converted_files import IGNORED_WARNINGS, convert, same
from tests.processes import CONTEXT, cluster
from zarr_manifest.conversion import read_files, scan
from zarr_manifest.errors import NotConvertibleError, SourceError

pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS)]


def write_month(path: Path, number: int, **changes: Any) -> Path:
    """A month of three days; `changes` make it differ from the others."""
    with netCDF4.Dataset(path, "w", format=changes.get("format", "NETCDF4")) as file:
        file.title = f"month {number}"
        file.createDimension("time", None)
        file.createDimension("x", 4)
        x = file.createVariable("x", "f4", ("x",))
        x[:] = np.arange(4) + changes.get("shift", 0)
        time = file.createVariable("time", "f8", ("time",), chunksizes=(512,), zlib=True)
        # Each file counts from its own first day.
        time.units = f"days since 2000-0{number + 1}-01"
        time[:] = np.arange(3)
        options = {"zlib": changes.get("zlib", True), "chunksizes": (1, 4)}
        sst = file.createVariable(
            "sst", changes.get("code", "i2"), ("time", "x"), fill_value=-1, **options
        )
        sst.set_auto_maskandscale(False)
        sst[:] = np.arange(12).reshape(3, 4) + 100 * number
        sst.scale_factor = changes.get("scale", 0.5)
        if changes.get("mask", True):
            file.createVariable("mask", "i1", ("x",))[:] = 1
        zlib = changes.get("zlib", True)
        lengths = file.createVariable("steps", "i4", ("time",), chunksizes=(2,), zlib=zlib)
        lengths[:] = np.arange(3)
    return path


@pytest.fixture
def months(tmp_path: Path) -> list[Path]:
    return [write_month(tmp_path / f"{number}.nc", number) for number in range(3)]


def check(found: Any, months: list[Path]) -> None:
    assert found.refused.keys() == {"steps"}
    assert "begin inside a chunk of 2; 2 or 4 would do" in found.refused["steps"]
    raw = np.concatenate([np.arange(12).reshape(3, 4) + 100 * number for number in range(3)])
    assert same(found.arrays["sst"][...], raw)
    assert same(found.arrays["mask"][...], np.ones(4))
    with (
        xr.open_dataset(
            found.root, engine="zarr-manifest", allow=["/"], consolidated=False
        ) as decoded,
        xr.open_mfdataset(
            months, combine="nested", concat_dim="time", data_vars="minimal", coords="minimal",
            compat="override", join="exact",
        ) as expected,
    ):  # fmt: skip
        xr.testing.assert_equal(decoded.load(), expected.drop_vars("steps").load())
    assert found.group.attrs["title"] == "month 0"


def test_along_a_dimension_that_is_named(months: list[Path], tmp_path: Path) -> None:
    found = convert(months, tmp_path / "h.zarr", concat_dim="time")
    check(found, months)
    assert "mask" not in dict(found.report.notes)


def test_by_coordinates_in_whatever_order(months: list[Path], tmp_path: Path) -> None:
    check(convert(months[::-1], tmp_path / "h.zarr"), months)


@pytest.mark.parametrize("kind", ["dask", "threads"])
def test_in_parallel_with_progress(months: list[Path], tmp_path: Path, kind: str) -> None:
    seen: list[tuple[str, int, int | None]] = []
    with ThreadPoolExecutor(2) as pool:
        found = convert(
            months,
            tmp_path / "h.zarr",
            concat_dim="time",
            parallel="dask" if kind == "dask" else pool,
            progress=lambda *step: seen.append(step),
        )
    check(found, months)
    assert seen == [(path.as_uri(), n + 1, 3) for n, path in enumerate(months)]


def test_in_processes_unless_they_are_forks(months: list[Path], tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, CONTEXT) as pool:
        check(convert(months, tmp_path / "h.zarr", concat_dim="time", parallel=pool), months)
    # The threads of obstore have started by now, which forks lack.
    refused = pytest.raises(SourceError, match="it is a fork of one that had read some")
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        with refused:
            list(read_files(months, concat_dim="time", parallel=pool))
        with refused:
            pool.submit(scan, months[0]).result()


def test_a_worker_that_dies(months: list[Path]) -> None:
    with (
        ProcessPoolExecutor(1, CONTEXT, initializer=os._exit, initargs=(9,)) as pool,
        pytest.raises(SourceError, match="a worker ended without an answer") as raised,
    ):
        list(read_files(months, concat_dim="time", parallel=pool))
    assert repr(months[0].as_uri()) in raised.value.problem
    assert "without parallel=" in str(raised.value.remedy)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    pytest.importorskip("distributed")
    with cluster() as found:
        yield found


@pytest.mark.parametrize("way", ["the default client", "its executor"])
def test_on_a_dask_cluster(months: list[Path], tmp_path: Path, client: Any, way: str) -> None:
    parallel = "dask" if way == "the default client" else client.get_executor()
    found = convert(months, tmp_path / "h.zarr", concat_dim="time", parallel=parallel)
    check(found, months)


def test_along_a_new_dimension(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.h5" for number in range(3)]
    for number, path in enumerate(paths):
        with h5py.File(path, "w") as file:
            file.create_dataset("v", data=np.arange(6) + number, chunks=(2,), compression="gzip")
            file["g/w"] = np.full(2, number)
    found = convert(paths, tmp_path / "h.zarr", concat_dim="member")
    assert found.refused == {}
    assert same(found.arrays["v"][...], [np.arange(6) + number for number in range(3)])
    assert same(found.arrays["g/w"][...], [[0, 0], [1, 1], [2, 2]])
    assert found.arrays["v"].metadata.dimension_names[0] == "member"


def test_netcdf_classic_files_too(tmp_path: Path) -> None:
    months = [
        write_month(tmp_path / f"{number}.nc", number, format="NETCDF3_CLASSIC", zlib=False)
        for number in range(3)
    ]
    found = convert(months, tmp_path / "h.zarr", concat_dim="time")
    assert found.refused == {}
    assert same(found.arrays["steps"][...], [0, 1, 2] * 3)


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_hierarchies_too(tmp_path: Path, version: Any) -> None:
    roots = [tmp_path / f"a b{number}.zarr" for number in range(2)]
    for number, root in enumerate(roots):
        dataset = xr.Dataset({"v": (("t", "x"), np.full((2, 3), number))})
        dataset.to_zarr(root, zarr_format=version, consolidated=False)
    found = convert(roots, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused == {}
    assert same(found.arrays["v"][...], [[0] * 3] * 2 + [[1] * 3] * 2)


@pytest.mark.parametrize(
    ("changes", "variable", "reason"),
    [
        ({"scale": 0.25}, "sst", "has scale_factor 0.25"),
        ({"code": "i4"}, "sst", "has data type 'int32'"),
        ({"zlib": False}, "sst", "has codecs"),
        (
            {"mask": False},
            "mask",
            "1.nc does not have it; to leave it out there: fill_missing=True",
        ),
    ],
)
def test_a_variable_that_differs_is_refused_and_the_rest_combined(
    tmp_path: Path, changes: dict[str, Any], variable: str, reason: str
) -> None:
    # xarray would take the scale of the first file for all.
    months = [
        write_month(tmp_path / "0.nc", 0),
        write_month(tmp_path / "1.nc", 1, **changes),
    ]
    found = convert(months, tmp_path / "h.zarr", concat_dim="time")
    assert reason in found.refused[variable]
    assert "1.nc" in found.refused[variable]
    others = {"sst", "mask"} - {variable}
    assert others <= found.arrays.keys()


def test_variables_refused_in_one_file_are_refused_in_all(
    months: list[Path], tmp_path: Path
) -> None:
    with h5py.File(months[1], "a") as file:
        raw = np.zeros(4, "i2").tobytes()
        file["sst"].id.write_direct_chunk((0, 0), raw, filter_mask=3)
    found = convert(months, tmp_path / "h.zarr", concat_dim="time")
    assert "filter mask" in found.refused["sst"]
    assert "mask" in found.arrays


def test_coordinates_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    months = [write_month(tmp_path / "0.nc", 0), write_month(tmp_path / "1.nc", 1, shift=1)]
    with pytest.raises(NotConvertibleError, match="cannot be combined"):
        list(read_files(months, concat_dim="time"))


def test_variables_to_load_are_named(months: list[Path], tmp_path: Path) -> None:
    found = convert(
        months, tmp_path / "h.zarr", concat_dim="time", loadable_variables=["time", "steps", "x"]
    )
    assert found.refused == {}
    assert same(found.arrays["steps"][...], [0, 1, 2] * 3)
    nodes = read_files(months, concat_dim="time", loadable_variables=["time", "setps"])
    with pytest.raises(NotConvertibleError, match=r"'setps', which was to be loaded.*'steps'"):
        list(nodes)


def test_no_files() -> None:
    with pytest.raises(ValueError, match="no files"):
        read_files([])


def test_loaded_variables_are_what_they_were(tmp_path: Path) -> None:
    """Bounds that count from each file's own day are made alike, and are no coordinates."""
    files = [tmp_path / f"{day}.nc" for day in (1, 2)]
    for day, file in enumerate(files, 1):
        edges = np.array([f"2000-01-0{day}", f"2000-01-0{day + 1}"], "M8[ns]")
        given = {"time_bnds": (("time", "n"), edges[None])}
        days = xr.Dataset(given, {"time": ("time", edges[:1], {"bounds": "time_bnds"})})
        units = {"time": {"units": f"days since 2000-01-0{day}"}}
        days.to_netcdf(file, engine="h5netcdf", encoding=units)
    found = convert(
        files, tmp_path / "h.zarr", concat_dim="time", loadable_variables=["time", "time_bnds"]
    )
    with (
        xr.open_mfdataset(files, combine="nested", concat_dim="time") as expected,
        xr.open_zarr(found.store(), consolidated=False) as opened,
    ):
        assert opened.load().identical(expected.load())
