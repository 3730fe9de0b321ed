"""Many files: each is placed once, and what is not concatenated is the same in all."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.combinations import combinations
from tests.conversion.files.converted_files import (
    IGNORED_WARNINGS,
    Converted,
    Variable,
    Write,
    convert,
    same,
)
from tests.properties import examples
from zarr_manifest.conversion import read_files
from zarr_manifest.conversion.joining import Input, JoinRules, join_inputs
from zarr_manifest.conversion.nodes import GroupNode
from zarr_manifest.errors import NotConvertibleError

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]

# Along a dimension that is named, or by the coordinates.
_WAYS: list[dict[str, Any]] = [{"concat_dim": "t"}, {}]
WAYS = pytest.mark.parametrize("options", combinations(_WAYS, besides=_WAYS[1:]))


def days(*numbers: float) -> Variable:
    return ("t",), np.array(numbers), {"units": "days since 2000-01-01"}


def opened(found: Converted) -> xr.Dataset:
    return xr.open_dataset(
        found.root, engine="zarr-manifest", allow=["/"], consolidated=False
    ).load()


def along_t(*numbers: float) -> Variable:
    return ("t",), np.array(numbers), {}


# ------------------------------------------------------------ places


@pytest.mark.slow
def test_files_that_coincide_are_named(write: Write) -> None:
    files = [write(t=days(n // 2 * 2, n // 2 * 2 + 1), v=along_t(n, n)) for n in range(4)]
    with xr.open_mfdataset(files) as fewer:
        assert fewer.sizes["t"] == 4  # of 8
    with pytest.raises(NotConvertibleError) as raised:
        list(read_files([*files, write(t=days(20), v=along_t(1))]))
    message = raised.value.problem
    assert "0.nc" in message
    assert "1.nc" in message
    assert "all begin at t 2000-01-01T00:00:00; 1 other place likewise" in message
    assert "concat_dim" in str(raised.value.remedy)


@pytest.mark.slow
@settings(examples(1))
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.sampled_from([1, -1]),
    st.randoms(use_true_random=False),
    st.sampled_from(["all", "one is missing", "two overlap"]),
)
def test_tiles_are_placed_as_xarray_does(
    widths: list[int], heights: list[int], step: int, random: Random, which: str
) -> None:
    ends = np.cumsum([0, *widths]) * step, np.cumsum([0, *heights])
    tiles: list[xr.Dataset] = []
    for x, width in zip(ends[0], widths, strict=False):
        for y, height in zip(ends[1], heights, strict=False):
            values = np.full((height, width), len(tiles))
            along_x, along_y = x + step * np.arange(width, dtype=float), y + np.arange(height)
            tiles.append(xr.Dataset({"v": (("y", "x"), values)}, {"x": along_x, "y": along_y}))
    if which == "one is missing":
        tiles.pop(random.randrange(len(tiles)))
    elif which == "two overlap":
        tiles.append(tiles[-1].assign_coords(x=tiles[-1]["x"] + step / 2))
    assume(len(tiles) > 1)
    random.shuffle(tiles)
    inputs: list[Input] = []
    for tile in tiles:
        loaded = {str(name): each.to_base_variable() for name, each in tile.variables.items()}
        root = GroupNode("", {})
        inputs.append(Input("f.nc", [root], {}, loaded=loaded, paths=tuple(loaded)))
    try:
        expected = xr.combine_by_coords(tiles, join="exact", data_vars="minimal", coords="minimal")
    except ValueError:
        expected = None
    try:
        joined = join_inputs(inputs, JoinRules(None), lambda *_: [])
    except NotConvertibleError:
        assert expected is None
    else:
        assert expected is not None
        assert joined.refused == []
        found = Input.of("joined", joined.nodes(), {})
        assert all(same(found.values(name), expected[name].values) for name in ("x", "y", "v"))


@pytest.mark.slow
def test_tiles_have_places_of_their_own(write: Write, tmp_path: Path) -> None:
    def tile(x: int, y: int, value: int) -> Path:
        return write(
            x=(("x",), [x, x + 1], {}), y=(("y",), [y], {}), v=(("y", "x"), [[value] * 2], {})
        )

    tiles = [tile(0, 0, 1), tile(2, 0, 2), tile(0, 1, 3), tile(2, 1, 4)]
    found = convert(tiles, tmp_path / "h.zarr")
    assert found.arrays["v"][...].tolist() == [[1, 1, 2, 2], [3, 3, 4, 4]]
    with pytest.raises(NotConvertibleError, match=r"all begin at .*x 2"):
        list(read_files([*tiles, tile(2, 0, 5)]))


@pytest.mark.slow
@WAYS
def test_repeated_coordinates_are_refused_unless_asked_for(
    write: Write, tmp_path: Path, options: dict[str, Any]
) -> None:
    files = [write(t=days(n, n + 1, n + 2), v=along_t(n, n, n)) for n in (0, 2)]
    with pytest.raises(NotConvertibleError) as raised:
        list(read_files(files, **options))
    assert "1 coordinate would be repeated, such as 2000-01-03T00:00:00 in" in raised.value.problem
    assert str(files[0]) in raised.value.problem
    assert str(files[1]) in raised.value.problem
    assert "override=['t']" in str(raised.value.remedy)
    found = convert(files, tmp_path / "h.zarr", override=["t"], **options)
    with xr.open_mfdataset(files, combine="nested", concat_dim="t") as expected:
        assert opened(found).equals(expected.load())


@pytest.mark.slow
def test_missing_coordinates_are_not_repeated(write: Write, tmp_path: Path) -> None:
    def time(*numbers: int) -> Variable:
        return ("t",), np.array(numbers, "i4"), {"units": "m", "_FillValue": np.int32(-9)}

    files = [write(t=time(n, -9), v=along_t(n, n)) for n in range(2)]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.arrays["t"][...].tolist() == [0, -9, 1, -9]


@pytest.mark.slow
def test_an_order_that_is_none_is_noted(write: Write, tmp_path: Path) -> None:
    files = [write(t=days(n), v=along_t(n)) for n in (1, 0, 2)]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert "its values are not sorted" in dict(found.report.notes)["t"]
    assert found.arrays["v"][...].tolist() == [1, 0, 2]
    for number, order in enumerate([files[::-2], files[::2]]):
        found = convert(order, tmp_path / f"{number}.zarr", concat_dim="t")
        assert found.report.notes == []


def test_a_misspelt_dimension(write: Write) -> None:
    files = [write(time=(("time",), [n], {}), x=(("x",), [1], {})) for n in range(2)]
    with pytest.raises(NotConvertibleError, match=r"other values of 'time'") as raised:
        list(read_files(files, concat_dim="tim"))
    assert raised.value.problem.endswith(
        "; no file has the dimension 'tim', so that it is a new one; existing dimensions: "
        "'time', 'x'"
    )
    lengths = [write(v=(("time",), [0] * n, {})) for n in (1, 2)]
    refused = next(node for node in read_files(lengths, concat_dim="tim") if node.path == "v")
    assert "existing dimensions: 'time'" in refused.reason  # type: ignore[union-attr]


@pytest.mark.slow
def test_coordinates_that_differ_elsewhere(write: Write, tmp_path: Path) -> None:
    files = [
        write(t=days(n), x=(("x",), [1, 2 + n / 1000], {}), v=(("t", "x"), [[n, n]], {}))
        for n in range(2)
    ]
    with pytest.raises(NotConvertibleError, match=r"1.nc has other values of 'x'") as raised:
        list(read_files(files, concat_dim="t"))
    assert "override=['x']" in str(raised.value.remedy)
    found = convert(files, tmp_path / "h.zarr", concat_dim="t", override=["x"])
    assert found.arrays["x"][...].tolist() == [1, 2]
    assert found.arrays["v"][...].tolist() == [[0, 0], [1, 1]]


@pytest.mark.slow
def test_tiles_of_one_row_that_differ_in_what_the_row_shares_are_refused(
    write: Write, tmp_path: Path
) -> None:
    def tile(x: int, y: int, height: int) -> Path:
        return write(
            x=(("x",), [x], {}),
            y=(("y",), [y], {}),
            v=(("y", "x"), [[x + y]], {}),
            height=(("y",), [height], {}),
        )

    tiles = [tile(0, 0, 5), tile(1, 0, 5), tile(0, 1, 6), tile(1, 1, 7)]
    found = convert(tiles, tmp_path / "h.zarr")
    assert found.refused.keys() == {"height"}
    assert "only differ in their place along 'x'" in found.refused["height"]
    assert found.refused["height"].endswith("1.nc has other values")
    assert found.arrays["v"][...].tolist() == [[0, 1], [1, 2]]
    alike = convert([*tiles[:3], tile(1, 1, 6)], tmp_path / "alike.zarr")
    assert alike.arrays["height"][...].tolist() == [5, 6]


# ------------------------------------------------------------ one for all files


def swath(write: Write, number: int, *, lat: float = 0, zone: str = "32N") -> Path:
    grid = np.arange(6, dtype="f4").reshape(2, 3) + lat
    return write(
        t=days(number),
        lat=(("y", "x"), grid, {"units": "degrees_north"}),
        crs=((), np.int32(0), {"grid_mapping_name": "transverse_mercator", "utm_zone": zone}),
        v=(("t", "y", "x"), [grid], {"coordinates": "lat", "grid_mapping": "crs"}),
    )


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("threads", combinations([False, True], besides=[True]))
def test_what_is_the_same_is_taken_once(
    write: Write, tmp_path: Path, options: dict[str, Any], threads: bool
) -> None:
    files = [swath(write, number) for number in range(3)]
    with ThreadPoolExecutor(2) as pool:
        found = convert(files, tmp_path / "h.zarr", parallel=pool if threads else False, **options)
    assert (found.refused, found.report.notes) == ({}, [])
    with xr.open_mfdataset(
        files, combine="nested", concat_dim="t", data_vars="minimal", coords="minimal",
        compat="equals",
    ) as expected:  # fmt: skip
        xr.testing.assert_equal(opened(found), expected.load())


@pytest.mark.slow
@WAYS
def test_another_grid_is_refused_unless_asked_for(
    write: Write, tmp_path: Path, options: dict[str, Any]
) -> None:
    files = [swath(write, 0), swath(write, 1), swath(write, 2, lat=0.5)]
    with pytest.raises(ValueError, match="conflicting values for variable 'lat'"):
        xr.open_mfdataset(
            files, combine="nested", concat_dim="t", data_vars="minimal", coords="minimal",
            compat="equals",
        )  # fmt: skip
    found = convert(files, tmp_path / "h.zarr", **options)
    assert found.refused == {
        "lat": f"unlike {files[0].as_uri()}, {files[2].as_uri()} has other values; to take it from "
        "the first file without a comparison: override=['lat']"
    }
    assert found.arrays["v"].shape == (3, 2, 3)
    asked = convert(files, tmp_path / "asked.zarr", override=["lat"], **options)
    assert asked.refused == {}
    assert same(asked.arrays["lat"][...], np.arange(6).reshape(2, 3))
    assert "not compared" in dict(asked.report.notes)["lat"]


@pytest.mark.slow
@pytest.mark.parametrize("concat_dim", combinations(["t", "member"], besides=["t"]))
def test_another_projection_is_refused_unless_asked_for(
    write: Write, tmp_path: Path, concat_dim: str
) -> None:
    files = [swath(write, 0), swath(write, 0 if concat_dim == "member" else 1, zone="33N")]
    found = convert(files, tmp_path / "h.zarr", concat_dim=concat_dim)
    assert "has utm_zone '33N'" in found.refused["crs"]
    asked = convert(files, tmp_path / "asked.zarr", concat_dim=concat_dim, override=["crs"])
    assert asked.refused == {}
    assert asked.arrays["crs"].shape == ()
    assert asked.arrays["crs"].attrs["utm_zone"] == "32N"


@pytest.mark.slow
def test_what_cannot_be_overridden(write: Write) -> None:
    files = [swath(write, number) for number in range(2)]
    with pytest.raises(NotConvertibleError, match=r"'lta', which was to be taken from the first"):
        list(read_files(files, concat_dim="t", override=["lta"]))
    with pytest.raises(NotConvertibleError, match=r"concatenated along 't', and not taken"):
        list(read_files(files, concat_dim="t", override=["v"]))


# ------------------------------------------------------------ different variables


def quantity(write: Write, name: str, *numbers: int, **others: Variable) -> Path:
    values = np.array(numbers, "f4")[:, None] + np.arange(3)
    return write(
        t=days(*numbers),
        x=(("x",), [1, 2, 3], {}),
        bounds=(("x", "n"), [[0, 1], [1, 2], [2, 3]], {}),
        **{name: (("t", "x"), values, {"units": name})},
        **others,
    )


@pytest.mark.slow
@WAYS
def test_different_variables_on_the_same_coordinates_are_merged(
    write: Write, tmp_path: Path, options: dict[str, Any]
) -> None:
    files = [
        quantity(write, "tas", 0, 1),
        quantity(write, "pr", 0, 1, 2),
        quantity(write, "tas", 2),
        quantity(write, "uas", 0, 1, 2, height=((), 10.0, {})),
    ]
    found = convert(files, tmp_path / "h.zarr", **options)
    assert found.refused == {}
    with xr.open_mfdataset(
        files, data_vars="minimal", coords="minimal", compat="equals", join="exact"
    ) as expected:
        xr.testing.assert_equal(opened(found), expected.load())
    assert opened(found)["pr"].attrs == {"units": "pr"}


@pytest.mark.slow
def test_one_file_for_each_variable(write: Write, tmp_path: Path) -> None:
    files = [quantity(write, name, 0, 1) for name in ("tas", "pr")]
    found = convert(files, tmp_path / "h.zarr")
    assert found.refused == {}
    with xr.open_mfdataset(files, compat="equals") as expected:
        xr.testing.assert_equal(opened(found), expected.load())


@pytest.mark.slow
def test_what_merged_files_share_is_the_same(write: Write, tmp_path: Path) -> None:
    files = [
        quantity(write, "tas", 0, height=((), 2.0, {})),
        quantity(write, "uas", 0, height=((), 10.0, {})),
    ]
    found = convert(files, tmp_path / "h.zarr")
    assert "has other values" in found.refused["height"]
    assert found.arrays.keys() == {"t", "x", "bounds", "tas", "uas"}
    asked = convert(files, tmp_path / "asked.zarr", override=["height"])
    assert asked.arrays["height"][...] == 2


@pytest.mark.slow
def test_variables_on_other_coordinates_are_not_merged(write: Write, tmp_path: Path) -> None:
    files = [quantity(write, "tas", 0, 1), quantity(write, "pr", 2, 3)]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused.keys() == {"tas", "pr"}
    assert found.refused["tas"] == (
        f"{files[1].as_uri()} does not have it; to leave it out there: fill_missing=True"
    )
    # Nor where nothing says whether files follow one another.
    unknown = [write(a=along_t(1), v=along_t(1)), write(b=along_t(1), v=along_t(2))]
    found = convert(unknown, tmp_path / "u.zarr", concat_dim="t")
    assert found.arrays["v"][...].tolist() == [1, 2]
    assert found.refused.keys() == {"a", "b"}


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("lacking", [0, 1])
def test_a_variable_that_a_file_lacks(
    write: Write, tmp_path: Path, options: dict[str, Any], lacking: int
) -> None:
    v: Variable = (("t", "x"), np.ones((2, 3), "f4"), {"_FillValue": np.float32(-9)})
    mask: Variable = (("x",), [1, 0, 1], {})
    files = [
        write(
            t=days(2 * n, 2 * n + 1),
            w=(("t", "x"), np.full((2, 3), n), {}),
            **({} if n == lacking else {"v": v, "mask": mask}),
        )
        for n in range(3)
    ]
    found = convert(files, tmp_path / "h.zarr", **options)
    for name in ("v", "mask"):
        assert found.refused[name] == (
            f"{files[lacking].as_uri()} does not have it; to leave it out there: fill_missing=True"
        )
    filled = convert(files, tmp_path / "filled.zarr", fill_missing=True, **options)
    assert filled.refused == {}
    assert "its chunks there are absent, and read as -9.0" in dict(filled.report.notes)["v"]
    with xr.open_mfdataset(
        files, combine="nested", concat_dim="t", data_vars="minimal", coords="minimal",
        compat="equals",
    ) as expected:  # fmt: skip
        made = opened(filled)
        for name in ("v", "w", "t", "mask"):
            assert made[name].equals(expected[name].load()), name
    declared = json.loads((filled.root / "v" / "zarr.json").read_text())["storage_transformers"]
    assert len(declared[0]["configuration"]["manifest"]) == 2


@pytest.mark.slow
def test_a_whole_group_that_a_file_lacks(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.nc" for number in range(2)]
    for number, path in enumerate(files):
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("t", 2)
            file.createVariable("t", "f8", ("t",))[:] = np.arange(2) + 2 * number
            if number == 0:
                file.createGroup("g").createVariable("v", "i4", ("t",))[:] = [7, 8]
    found = convert(files, tmp_path / "h.zarr", concat_dim="t")
    assert "1.nc does not have it" in found.refused["g/v"]
    filled = convert(files, tmp_path / "filled.zarr", concat_dim="t", fill_missing=True)
    assert "has no 't'" in filled.refused["g/v"]


@pytest.mark.slow
def test_loaded_variables_that_a_file_lacks(write: Write, tmp_path: Path) -> None:
    files = [
        write(t=days(0), v=along_t(1.5), n=(("t",), [1], {})),
        write(t=days(1)),
    ]
    found = convert(
        files,
        tmp_path / "h.zarr",
        concat_dim="t",
        fill_missing=True,
        loadable_variables=["t", "v", "n"],
    )
    assert "no _FillValue" in found.refused["n"]
    assert same(found.arrays["v"][...], [1.5, np.nan])
