"""Real files of iris-sample-data: a line for each file and variable, read or refused.

Run with ``-s`` to see them. `make samples` compares all of them, in one hierarchy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import iris_sample_data
import netCDF4
import numpy as np
import pytest

from tests.conversion.files.converted_files import (
    IGNORED_WARNINGS,
    convert,
    netcdf_values,
    netcdf_variables,
    same,
)
from tests.properties import THOROUGH
from zarr_manifest.conversion import read_files
from zarr_manifest.conversion.files import FileSources, detect_format, file_url
from zarr_manifest.errors import NotConvertibleError

pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS)]

DIRECTORY = Path(iris_sample_data.path)
FILES = sorted(path for path in DIRECTORY.rglob("*") if path.is_file())


def formats() -> dict[Path, str]:
    found: dict[Path, str] = {}
    for path in FILES:
        try:
            found[path] = detect_format(file_url(path), FileSources())
        except NotConvertibleError as error:
            found[path] = f"refused: {error.problem}"
    return found


FORMATS = formats()
READABLE = [path for path, found in FORMATS.items() if not found.startswith("refused")]


def name_of(path: Path) -> str:
    return path.relative_to(DIRECTORY).as_posix()


def test_every_file_is_read_or_refused_by_its_format() -> None:
    for path, found in FORMATS.items():
        print(f"{name_of(path)}: {found}")
        suffix = {".nc": ("hdf5", "netcdf3"), ".grib2": ("grib",)}.get(path.suffix)
        if suffix is not None:
            assert found in suffix
        else:
            assert found.startswith("refused: the file")
            assert ("PP" in found) == (path.suffix == ".pp")
    assert len(READABLE) == len([p for p in FILES if p.suffix in (".nc", ".grib2")]) > 10


# The others are like one of these.
OF_EACH_KIND = [
    DIRECTORY / name
    for name in (
        "mesh_C4_synthetic_float.nc",
        "NEMO/nemo_1m_20150101-20150201_grid-T.nc",
        "polar_stereo.grib2",
        "space_weather.nc",
        "toa_brightness_stereographic.nc",
        "vlstr_type.nc",
    )
]


@pytest.mark.parametrize("path", READABLE if THOROUGH else OF_EACH_KIND, ids=name_of)
def test_every_variable_is_read_or_refused(path: Path, tmp_path: Path) -> None:
    found = convert(path, tmp_path / "h.zarr")
    for name, reason in found.refused.items():
        print(f"{name_of(path)} {name}: refused: {reason}")
    if path.suffix == ".grib2":
        for name, array in found.arrays.items():
            print(f"{name_of(path)} {name}: read {array.shape} {array.dtype}")
        check_grib(found, path)
        return
    with netCDF4.Dataset(path) as file:
        variables = netcdf_variables(file)
        assert found.arrays.keys() | found.refused.keys() == variables.keys()
        for name, variable in variables.items():
            if name in found.refused:
                continue
            array = found.arrays[name]
            assert same(array[...], netcdf_values(variable)), name
            assert (array.metadata.dimension_names or ()) == variable.dimensions, name
            print(f"{name_of(path)} {name}: read {array.shape} {array.dtype}, equal to netCDF4's")


def check_grib(found: Any, path: Path) -> None:
    """The values of gribberish's own reader."""
    gribberish = pytest.importorskip("gribberish")
    assert found.refused == {}
    data = path.read_bytes()
    expected = gribberish.parse_grib_message(data, 0).data()
    values = found.arrays["isobar/instant/tmp"][...]
    assert same(np.ravel(values), np.ravel(expected))


def test_the_three_months_of_nemo_are_one(tmp_path: Path) -> None:
    months = sorted((DIRECTORY / "NEMO").glob("*.nc"))
    # The coordinate of each of these files is 0.
    with pytest.raises(NotConvertibleError, match="1 coordinate would be repeated"):
        list(read_files(months, concat_dim="time_counter"))
    found = convert(
        months, tmp_path / "h.zarr", concat_dim="time_counter", override=["time_counter"]
    )
    with netCDF4.Dataset(months[0]) as first:
        names = set(first.variables)
    assert found.arrays.keys() | found.refused.keys() == names
    parts = []
    for month in months:
        with netCDF4.Dataset(month) as file:
            parts.append(netcdf_values(file["tos"]))
    assert same(found.arrays["tos"][...], np.concatenate(parts))
