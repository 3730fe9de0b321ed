"""Many files whose numbers do not mean the same: never one array with the meaning of the first."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from tests.conversion.files.converted_files import (
    IGNORED_WARNINGS,
    Converted,
    Variable,
    Write,
    convert,
    same,
)
from zarr_manifest.conversion import read_files
from zarr_manifest.conversion.fitting import other_meaning
from zarr_manifest.errors import NotConvertibleError

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]


def of_time(values: Sequence[float], units: str, code: str = "i4", **others: Any) -> Variable:
    return ("t",), np.array(values, code), {"units": units, **others}


def opened(found: Converted) -> xr.Dataset:
    return xr.open_dataset(
        found.root, engine="zarr-manifest", allow=["/"], consolidated=False
    ).load()


V: Variable = (("t",), [1, 2], {})

_ATTRIBUTES = st.one_of(
    st.text("ab 0", max_size=50), st.floats(), st.lists(st.integers(0, 1), max_size=20)
)


@given(_ATTRIBUTES, _ATTRIBUTES)
def test_attributes_are_compared_as_a_whole(first: Any, second: Any) -> None:
    def other(value: Any) -> str | None:
        return other_meaning({"flag_values": first}, {"flag_values": value})

    assert other(copy.deepcopy(first)) is None
    assert (other(second) is None) == (repr(first) == repr(second))


@pytest.mark.slow
def test_long_values_may_differ_in_their_middle(write: Write, tmp_path: Path) -> None:
    years = [f"days since {year}-01-01 00:00:00" for year in (2023, 2024)]
    files = [write(t=of_time([0, 1], units), v=V) for units in years]
    with xr.open_mfdataset(files, combine="nested", concat_dim="t") as expected:
        for number, options in enumerate([{"concat_dim": "t"}, {}]):
            found = opened(convert(files, tmp_path / f"{number}.zarr", **options))
            assert found["t"].equals(expected["t"].load())
    flags = [list(range(20)), [*range(9), 99, *range(10, 20)]]
    files = [write(v=(("t",), [1, 2], {"flag_values": np.array(each)})) for each in flags]
    assert "has flag_values" in convert(files, tmp_path / "f.zarr", concat_dim="t").refused["v"]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ({"units": "m"}, {"units": "km"}, "has units 'km'"),
        ({"units": "months since 2000-01-01"}, {"units": "months since 2001-01-01"}, "has units"),
        ({"units": "hours"}, {"units": "days"}, "has units 'days'"),
        ({"units": "m"}, {}, "has units None"),
        (
            {"units": "days since 2000-01-01", "calendar": "noleap"},
            {"units": "days since 2000-01-01", "calendar": "360_day"},
            "has calendar '360_day'",
        ),
        (
            {"units": "days since 2000-01-01", "calendar": "noleap"},
            {"units": "days since 2000-01-01"},
            "has ",
        ),
    ],
)
def test_a_coordinate_that_means_something_else_is_refused(
    write: Write, tmp_path: Path, first: dict[str, Any], second: dict[str, Any], reason: str
) -> None:
    files = [write(t=(("t",), [1, 2], first), v=V), write(t=(("t",), [3, 4], second), v=V)]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert reason in found.refused["t"]
    assert "1.nc" in found.refused["t"]
    assert found.arrays["v"][...].tolist() == [1, 2, 1, 2]


@pytest.mark.slow
def test_a_coordinate_of_another_dimension_too(write: Write, tmp_path: Path) -> None:
    files = [
        write(
            t=(("t",), [n], {}),
            x=(("x",), [1, 2], {"units": units}),
            v=(("t", "x"), [[n, n]], {}),
        )
        for n, units in enumerate(["m", "km"])
    ]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused.keys() == {"x"}
    assert found.arrays["v"][...].tolist() == [[0, 0], [1, 1]]


def test_files_are_not_ordered_by_what_cannot_be_compared(write: Write) -> None:
    files = [write(t=(("t",), [1, 2], {"units": units}), v=V) for units in ("m", "km")]
    files.append(write(t=(("t",), [3, 4], {"units": "m"}), v=V))
    with pytest.raises(
        NotConvertibleError, match=r"cannot be combined by 't': unlike .* has units 'km'"
    ):
        list(read_files(files))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "units"),
    [
        ("i2", ("seconds since 2000-01-01", "seconds since 2020-01-01")),
        ("f4", ("days since 1850-01-01", "days since 2020-01-01")),
        ("i4", ("days since 2000-01-01", "hours since 2020-01-01")),
        ("i4", ("days since 2000-01-01", "days since 2000-01-01")),
    ],
)
def test_times_are_what_each_file_says(
    write: Write, tmp_path: Path, code: str, units: tuple[str, str]
) -> None:
    values = [0, 0.1] if code == "f4" else [0, 1]
    files = [
        write(t=of_time(np.add(values, 2 * n).tolist(), each, code), v=V)
        for n, each in enumerate(units)
    ]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused == {}
    with xr.open_dataset(files[0]) as first, xr.open_dataset(files[1]) as second:
        expected = np.concatenate([first["t"].values, second["t"].values])
    error = np.abs(opened(found)["t"].values - expected).astype("m8[ns]").astype("i8").max()
    assert error < 1000
    if len(set(units)) == 1:
        # Nothing had to be decoded: they are the numbers of the files.
        assert found.arrays["t"].dtype == np.dtype(code)
        assert error == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (
            (("t",), np.array([1, 2], "i2"), {"scale_factor": 0.5}),
            (("t",), np.array([5, 7], "i2"), {"scale_factor": 0.25}),
            [0.5, 1.0, 1.25, 1.75],
        ),
        (
            (("t",), np.array([3, 4], "i2"), {}),
            (("t",), np.array([100_000, 2], "i4"), {}),
            [3, 4, 100_000, 2],
        ),
        (
            (("t",), np.array([3.0, 4.0]), {"missing_value": 3.0}),
            (("t",), np.array([1.0, 2.0]), {"missing_value": 2.0}),
            [np.nan, 4.0, 1.0, np.nan],
        ),
    ],
)
def test_numbers_that_are_packed_in_other_ways_are_unpacked(
    write: Write, tmp_path: Path, first: Variable, second: Variable, expected: list[float]
) -> None:
    files = [write(t=first, v=V), write(t=second, v=V)]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused == {}
    assert same(opened(found)["t"].values, expected)


@pytest.mark.slow
@pytest.mark.parametrize("values", [[0, -999], [0.5, -999]])
def test_missing_times_have_a_fill_value(write: Write, tmp_path: Path, values: list[float]) -> None:
    files = [
        write(t=of_time(values, f"days since {year}-01-01", "f8", _FillValue=-999.0), v=V)
        for year in (2000, 2001)
    ]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    with xr.open_mfdataset(files, combine="nested", concat_dim="t") as expected:
        assert opened(found)["t"].equals(expected["t"].load())
    stored = xr.open_zarr(found.store(), consolidated=False, decode_times=False)["t"]
    # What any reader of CF masks, and not only xarray.
    assert np.isnan(stored.values).tolist() == [False, True, False, True]
    assert "_FillValue" in stored.encoding


@pytest.mark.slow
def test_packing_of_32_bits_is_unpacked_to_32_bits(write: Write, tmp_path: Path) -> None:
    files = [
        write(v=(("t",), np.array([2856], "i2"), {"scale_factor": np.float32(scale)}))
        for scale in (0.1, 0.2)
    ]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t", loadable_variables=["v"])
    with xr.open_mfdataset(files, combine="nested", concat_dim="t") as expected:
        assert opened(found)["v"].dtype == np.float32
        assert opened(found)["v"].equals(expected["v"].load())


@pytest.mark.slow
def test_months_of_a_calendar_in_which_they_are_equally_long(write: Write, tmp_path: Path) -> None:
    files = [
        write(t=of_time([0, 1], f"months since {year}-01-01", calendar="360_day"), v=V)
        for year in (2000, 2001)
    ]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused == {}
    with xr.open_mfdataset(files, combine="nested", concat_dim="t") as expected:
        assert opened(found)["t"].equals(expected["t"].load())


@pytest.mark.slow
@pytest.mark.parametrize("loaded", [False, True])
def test_enumerations_whose_names_stand_for_other_numbers_are_refused(
    tmp_path: Path, loaded: bool
) -> None:
    def file(**members: int) -> Path:
        path = tmp_path / f"{'_'.join(members)}.h5"
        with h5py.File(path, "w") as target:
            dtype = h5py.enum_dtype(members, "i1")
            target.create_dataset("flag", data=np.array([0, 1], "i1"), dtype=dtype)
        return path

    clear = file(clear=0, cloud=1)
    options: dict[str, Any] = {
        "concat_dim": "phony_dim_0",
        "loadable_variables": ["flag"] if loaded else None,
    }
    swapped = convert([clear, file(cloud=0, clear=1)], tmp_path / "a.zarr", **options)
    assert "cloud_clear.h5 has the enumeration {'clear': 1, 'cloud': 0}" in swapped.refused["flag"]
    more = convert([clear, file(clear=0, cloud=1, snow=2)], tmp_path / "b.zarr", **options)
    assert more.arrays["flag"][...].tolist() == [0, 1, 0, 1]


@pytest.mark.slow
def test_bounds_have_the_units_of_what_they_bound(write: Write, tmp_path: Path) -> None:
    edges: Variable = (("t", "n"), [[0, 1], [1, 2]], {})
    days = ["days since 2000-01-01", "days since 2001-01-01"]
    other = [write(t=of_time([1, 2], each, bounds="edges"), edges=edges) for each in days]
    found = convert(other, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused["edges"].endswith(
        "has units 'days since 2001-01-01', which can be converted if it is loaded: "
        "loadable_variables=['t', 'edges']"
    )
    loaded = convert(
        other, tmp_path / "loaded.zarr", concat_dim="t", loadable_variables=["t", "edges"]
    )
    times = opened(loaded)["edges"].values
    assert times[2, 0] == np.datetime64("2001-01-01")
    files = [write(t=of_time([n, n + 1], days[0], bounds="edges"), edges=edges) for n in (1, 3)]
    assert convert(files, tmp_path / "same.zarr", concat_dim="t").refused == {}


@pytest.mark.slow
def test_files_without_a_different_coordinate_are_not_taken_for_one(write: Write) -> None:
    # All but the first would vanish.
    for variables in ({}, {"t": of_time([1, 2], "m")}):
        files = [write(v=(("t",), [n, n], {}), **variables) for n in range(2)]
        with pytest.raises(NotConvertibleError, match="the order of the files is unknown"):
            list(read_files(files))


@pytest.mark.slow
def test_groups_are_combined_by_the_coordinates_of_those_above(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.nc" for number in range(2)]
    for number, path in enumerate(files):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("t", 2)
            file.createVariable("t", "f8", ("t",))[:] = np.arange(2) - 2 * number
            file.createGroup("g").createVariable("v", "i4", ("t",))[:] = [number, number]
    found = convert(files, tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.arrays["t"][...].tolist() == [-2, -1, 0, 1]
    assert found.arrays["g/v"][...].tolist() == [1, 1, 0, 0]
    assert "g/t" not in found.arrays


@pytest.mark.slow
def test_coordinates_get_a_new_dimension_too(write: Write, tmp_path: Path) -> None:
    files = [
        write(
            t=((), float(n), {"units": f"days since 200{n}-01-01"}),
            lat=(("y", "x"), [[n]], {}),
            v=(("y", "x"), [[n]], {"coordinates": "lat t"}),
        )
        for n in range(2)
    ]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused == {}
    assert found.arrays["v"][...].tolist() == found.arrays["lat"][...].tolist() == [[[0]], [[1]]]
    times = opened(found)["t"].values
    assert times.tolist() == np.array(["2000-01-01", "2001-01-02"], "M8[ns]").tolist()


@pytest.mark.slow
def test_loaded_values_of_all_files_are_compared(write: Write, tmp_path: Path) -> None:
    files = [
        write(t=of_time([n], "m"), v=(("t",), [n], {}), mask=(("x",), [n], {})) for n in range(2)
    ]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t", loadable_variables=["t", "mask"])
    assert "has other values" in found.refused["mask"]
    assert found.arrays["v"][...].tolist() == [0, 1]


def test_when_all_that_varies_is_refused_the_rest_is_converted(
    write: Write, tmp_path: Path
) -> None:
    files = [
        write(v=(("t",), [n], {"scale_factor": 1.0 + n}), mask=(("x",), [1], {})) for n in range(2)
    ]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused.keys() == {"v"}
    assert found.arrays["mask"][...].tolist() == [1]


@pytest.mark.slow
def test_images_of_different_places_are_not_stacked(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    files = [tmp_path / f"{number}.tif" for number in range(3)]
    for file, east in zip(files, (0.0, 0.0, 300.0), strict=True):
        tiepoint = (33922, "d", 6, (0.0, 0.0, 0.0, east, 60.0, 0.0), True)
        tifffile.imwrite(file, np.ones((32, 32), "u1"), tile=(16, 16), extratags=[tiepoint])
    assert convert(files[:2], tmp_path / "h.zarr", concat_dim="t").arrays["0"].shape == (2, 32, 32)
    found = convert(files, tmp_path / "other.zarr", concat_dim="t")
    assert "has model_tiepoint" in found.refused["0"]


@pytest.mark.parametrize("attribute", ["bounds", "climatology", "grid_mapping"])
def test_references_that_name_other_variables_are_refused(
    write: Write, tmp_path: Path, attribute: str
) -> None:
    files = [write(v=(("t",), [1, 2], {attribute: name})) for name in ("one", "two")]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused["v"].endswith(f"1.nc has {attribute} 'two'")
    loaded = convert(files, tmp_path / "l.zarr", concat_dim="t", loadable_variables=["v"])
    assert loaded.arrays["v"][...].tolist() == [1, 2, 1, 2]
