"""Hierarchies along a dimension: the values of numpy and xarray, or a refusal."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from hypothesis import strategies as st

import zarr_manifest as zm
from tests.conversion.concatenation.parts import (
    FILL,
    Part,
    chunked,
    dataset,
    fits,
    kinds,
    opened,
    parts_along,
    write_parts,
    written,
)
from tests.hierarchies import read
from tests.properties import examples
from zarr_manifest.conversion import (
    read_files,
    read_hierarchy,
    read_virtual,
    write_hierarchy,
)
from zarr_manifest.errors import (
    ChecksumMismatchError,
    LocationNotAllowedError,
    NotConvertibleError,
)

pytestmark = [pytest.mark.slow]


@examples(1)
@given(parts_along(), st.sampled_from([None, "auto"]))
def test_the_values_are_those_of_numpy(given: Any, compressors: Any) -> None:
    axis, parts, _ = given
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        places, expected = write_parts(root, given, compressors)
        target = root / "deep" / "all.zarr"
        report = zm.concat(places, dim="time", target=target)
        if report.refused:
            assert not fits(axis, parts)
            assert [node.code for node in report.refused] == ["not_convertible"]
            return
        found = read(zm.ManifestStore(target, allow=[root]), "v")
        np.testing.assert_array_equal(found, expected)
        if fits(axis, parts):
            apart = sum((kinds(place, "v") for place in places), Counter[str]())
            assert kinds(target, "v") == apart
        else:
            # Only bytes that are elsewhere, and compressed, cannot be divided.
            references = sum((kinds(place, "v") for place in places), Counter[str]())["stored"]
            assert compressors is None or not references


@examples(0.2)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_native_hierarchies_are_those_of_xarray(counts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        starts = np.cumsum([0, *counts[:-1]]).tolist()
        given = [dataset(start, count) for start, count in zip(starts, counts, strict=True)]
        places = [written(root / f"{n}.zarr", each, chunked()) for n, each in enumerate(given)]
        report = zm.concat(places, dim="time", target=root / "all.zarr")
        assert report.refused == []
        xr.testing.assert_identical(opened(root / "all.zarr", root), xr.concat(given, "time"))


# ------------------------------------------------ what others get wrong without an error


def lengths(root: Path, start: int, **lengths: int) -> Path:
    """Native arrays along the dimension; one may be called like it."""
    for path, length in lengths.items():
        values = np.arange(start, start + length, dtype="i4")
        name = path.replace("_", "/")
        zarr.create_array(root, name=name, data=values, chunks=2, dimension_names=["time"])
    zarr.open_group(root)
    return root


@pytest.mark.parametrize("names", [("v", "w"), ("time", "w"), ("g_v", "g_w")])
@pytest.mark.parametrize("where", [0, 1])
def test_arrays_of_other_lengths(names: tuple[str, str], where: int, tmp_path: Path) -> None:
    """Somebody has resized one of them."""
    first, second = names
    pair = [
        lengths(tmp_path / f"{n}.zarr", 4 * n, **{first: 4, second: 6 if n == where else 4})
        for n in (0, 1)
    ]
    before = (pair[0] / "zarr.json").read_bytes()
    other = second.replace("_", "/")
    for action in (
        lambda: zm.append(pair[0], pair[1], dim="time"),
        lambda: zm.append(pair[0], pair[1], dim="time", replace=True),
        lambda: zm.concat(pair, dim="time", target=tmp_path / "both.zarr"),
    ):
        with pytest.raises(NotConvertibleError, match="6 values along 'time', and") as caught:
            action()
        assert caught.value.array == other
        assert f"{first.replace('_', '/')!r} has 4 (in " in str(caught.value)
    assert (pair[0] / "zarr.json").read_bytes() == before
    assert not (tmp_path / "both.zarr/zarr.json").exists()


def test_groups_may_have_other_lengths(tmp_path: Path) -> None:
    pair = [lengths(tmp_path / f"{n}.zarr", 4 * n, daily_v=2, hourly_v=4) for n in (0, 1)]
    assert zm.append(pair[0], pair[1], dim="time").arrays == 2


def test_a_joint_inside_a_chunk_is_split_where_chunks_are_uncompressed(tmp_path: Path) -> None:
    parts = [
        Part(np.arange(3, dtype="<i4") * 4 + 100, (2,), ()),
        Part(np.array([108, 112], "<i4"), (2,), ()),
    ]
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for place, part in zip(places, parts, strict=True):
        part.write(place, "v", dimension_names=["time"])
    report = zm.concat(places, dim="time", target=tmp_path / "c.zarr")
    assert report.refused == []
    assert any("were split into pieces of (1,)" in note for _, note in report.notes)
    store = zm.ManifestStore(tmp_path / "c.zarr", allow=[tmp_path])
    assert read(store, "v").tolist() == [100, 104, 108, 108, 112]


def test_a_joint_inside_a_compressed_chunk_is_refused(tmp_path: Path) -> None:
    for name, values in (("a", [100, 104, 108]), ("b", [108, 112])):
        part = Part(np.array(values, "<i4"), (2,), ())
        part.write(tmp_path / f"{name}.zarr", "v", dimension_names=["time"], compressors="auto")
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    (refused,) = zm.concat(places, dim="time", target=tmp_path / "c.zarr").refused
    assert refused.path == "v"
    assert "a.zarr has 3 values along it" in refused.reason
    assert "2 or 4 would do" in refused.reason


@pytest.mark.parametrize(
    ("attribute", "ours", "theirs"),
    [
        ("scale_factor", 0.5, 0.25),
        ("add_offset", 273.15, 0.0),
        ("units", "K", "degC"),
        ("_FillValue", -1, -2),
        ("bounds", "edges", "other"),
        ("grid_mapping", "crs", "wgs"),
    ],
)
def test_numbers_of_another_meaning_are_refused(
    tmp_path: Path, attribute: str, ours: Any, theirs: Any
) -> None:
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for place, value in zip(places, (ours, theirs), strict=True):
        part = Part(np.arange(2, dtype="<i4"), (1,), ())
        part.write(place, "v", dimension_names=["time"], attributes={attribute: value})
    (refused,) = zm.concat(places, dim="time", target=tmp_path / "c.zarr").refused
    assert refused.path == "v"
    assert f"b.zarr has {attribute} {theirs!r}" in refused.reason


def test_other_units_of_a_time_that_is_a_reference_are_refused(tmp_path: Path) -> None:
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for year, place in zip((2000, 2001), places, strict=True):
        part = Part(np.arange(2, dtype="<i4"), (1,), ())
        units = {"units": f"days since {year}-01-01"}
        part.write(place, "when", dimension_names=["time"], attributes=units)
    (refused,) = zm.concat(places, dim="time", target=tmp_path / "c.zarr").refused
    assert "b.zarr has units 'days since 2001-01-01'" in refused.reason
    assert "loaded" in refused.reason


def test_other_units_of_the_coordinate_are_converted(tmp_path: Path) -> None:
    given = [dataset(0, 2), dataset(2, 1)]
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for place, each, units in zip(places, given, ("days", "hours"), strict=True):
        encoding = chunked(time={"units": f"{units} since 2000-01-01", "dtype": "i4"})
        written(place, each, encoding)
    assert zm.concat(places, dim="time", target=tmp_path / "c.zarr").refused == []
    found = opened(tmp_path / "c.zarr", tmp_path)
    xr.testing.assert_identical(found, xr.concat(given, "time"))
    assert found["time"].encoding["units"] == "days since 2000-01-01"


def test_missing_values_of_a_coordinate_that_is_converted_stay_missing(tmp_path: Path) -> None:
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for year, place in zip((2000, 2001), places, strict=True):
        when = (("time",), [0.0, np.nan], {"units": f"days since {year}-01-01"})
        given = xr.Dataset({"when": when, "v": ("time", [1, 2])})
        encoding: dict[str, Any] = {"when": {"_FillValue": -9.0}}
        given.to_zarr(
            tmp_path / "plain.zarr", zarr_format=3, mode="w", consolidated=False, encoding=encoding
        )
        write_hierarchy(place, read_virtual(xr.open_dataset(
            tmp_path / "plain.zarr", engine="zarr", consolidated=False, decode_cf=False
        ).load()))  # fmt: skip
    assert zm.concat(places, dim="time", target=tmp_path / "c.zarr").refused == []
    found = opened(tmp_path / "c.zarr", tmp_path)["when"].values
    assert np.isnat(found).tolist() == [False, True, False, True]
    assert found[2] == np.datetime64("2001-01-01")


# ------------------------------------------------ what has to be alike


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"dtype": "<i8"}, "data type 'int64'"),
        ({"compressors": "auto"}, "codecs"),
        ({"names": ["time", "z"]}, "dimensions ['time', 'z']"),
        ({"shape": (2, 4)}, "4 values along 'y'"),
        ({"chunks": (1, 2)}, "chunks of (1, 2)"),
    ],
)
def test_what_differs_is_named(tmp_path: Path, more: dict[str, Any], reason: str) -> None:
    plain = {"dtype": "<i4", "shape": (2, 3), "chunks": (1, 3), "names": ["time", "y"]}
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for place, stated in zip(places, ({}, more), strict=True):
        how: dict[str, Any] = {**plain, **stated}
        part = Part(np.ones(how["shape"], how["dtype"]), how["chunks"], ())
        compressors = how.get("compressors")
        part.write(place, "v", dimension_names=how["names"], compressors=compressors)
        Part(np.ones(2, "u1"), (1,), ()).write(place, "same", dimension_names=["time"])
    report = zm.concat(places, dim="time", target=tmp_path / "c.zarr")
    assert [node.path for node in report.refused] == ["v"]
    assert reason in report.refused[0].reason
    assert "b.zarr has" in report.refused[0].reason
    store = zm.ManifestStore(tmp_path / "c.zarr", allow=[tmp_path])
    assert read(store, "same").tolist() == [1] * 4


def test_an_array_that_one_of_them_lacks_is_refused(tmp_path: Path) -> None:
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for place in places:
        Part(np.ones(2, "u1"), (1,), ()).write(place, "same", dimension_names=["time"])
    Part(np.ones(2, "u1"), (1,), ()).write(places[0], "more", dimension_names=["time"])
    (refused,) = zm.concat(places, dim="time", target=tmp_path / "c.zarr").refused
    assert (refused.path, refused.reason.endswith("b.zarr does not have it")) == ("more", True)


def test_a_dimension_that_no_array_has(tmp_path: Path) -> None:
    Part(np.ones(2, "u1"), (1,), ()).write(tmp_path / "a.zarr", "v", dimension_names=["time"])
    with pytest.raises(NotConvertibleError, match="no array has the dimension 'tim'") as caught:
        zm.concat([tmp_path / "a.zarr"], dim="tim", target=tmp_path / "c.zarr")
    assert "There are: 'time'." in str(caught.value)
    assert not (tmp_path / "c.zarr").exists()


@pytest.mark.parametrize("counts", [[(0, 2), (1, 2)], [(0, 2), (0, 2)], [(3, 1), (5, 1), (4, 1)]])
def test_coordinates_that_overlap_or_are_not_in_order(tmp_path: Path, counts: Any) -> None:
    places = [
        written(tmp_path / f"{n}.zarr", dataset(start, count), chunked())
        for n, (start, count) in enumerate(counts)
    ]
    with pytest.raises(NotConvertibleError, match="neither increase nor decrease") as caught:
        zm.concat(places, dim="time", target=tmp_path / "c.zarr")
    assert caught.value.array == "time"
    assert "2000-01-0" in str(caught.value)
    assert not (tmp_path / "c.zarr").exists()


def test_decreasing_coordinates_are_in_order(tmp_path: Path) -> None:
    given = [dataset(2, 2)[{"time": [1, 0]}], dataset(0, 2)[{"time": [1, 0]}]]
    places = [written(tmp_path / f"{n}.zarr", each, chunked()) for n, each in enumerate(given)]
    zm.concat(places, dim="time", target=tmp_path / "c.zarr")
    xr.testing.assert_identical(opened(tmp_path / "c.zarr", tmp_path), xr.concat(given, "time"))


def test_other_coordinates_must_be_the_same(tmp_path: Path) -> None:
    one, other = dataset(0, 1), dataset(1, 1).assign_coords(x=[10, 21])
    places = [written(tmp_path / "a.zarr", one), written(tmp_path / "b.zarr", other)]
    with pytest.raises(NotConvertibleError, match=r"b\.zarr has other values") as caught:
        zm.concat(places, dim="time", target=tmp_path / "c.zarr")
    assert caught.value.array == "x"


def test_other_arrays_must_be_the_same(tmp_path: Path) -> None:
    places: list[Path] = []
    for name, values in (("a", [1.0, np.nan]), ("b", [1.0, np.nan]), ("c", [1.0, 2.0])):
        given = dataset(len(places), 1).assign(other=("x", values))
        places.append(written(tmp_path / f"{name}.zarr", given, chunked()))
    assert zm.concat(places[:2], dim="time", target=tmp_path / "d.zarr").refused == []
    (refused,) = zm.concat(places, dim="time", target=tmp_path / "e.zarr").refused
    assert refused.path == "other"
    assert "c.zarr has other values" in refused.reason


def test_references_that_readers_must_allow(tmp_path: Path) -> None:
    part = Part(np.arange(2, dtype="u1"), (1,), ())
    for name in ("a", "b"):
        part.write(tmp_path / f"{name}.zarr", "x", dimension_names=["x"])
        part.write(tmp_path / f"{name}.zarr", "v", dimension_names=["time"])
    places = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    with pytest.raises(LocationNotAllowedError) as caught:
        zm.concat(places, dim="time", target=tmp_path / "c.zarr")
    assert caught.value.array == "x"
    assert zm.concat(places, dim="time", target=tmp_path / "c.zarr", allow=[tmp_path]).refused == []


# ------------------------------------------------ sources of all kinds


def test_files_and_nodes_are_sources_too(tmp_path: Path) -> None:
    given = [dataset(n, 1) for n in range(3)]
    for n, each in enumerate(given):
        each.to_netcdf(tmp_path / f"{n}.nc", encoding={"time": {"units": "days since 2000-01-01"}})
    write_hierarchy(tmp_path / "0.zarr", read_files([tmp_path / "0.nc"]))
    nodes = list(read_files([tmp_path / "2.nc"]))
    sources: list[Any] = [tmp_path / "0.zarr", str(tmp_path / "1*.nc"), nodes]
    report = zm.concat(sources, dim="time", target=tmp_path / "all.zarr", allow=[tmp_path])
    assert report.refused == []
    found = opened(tmp_path / "all.zarr", tmp_path)
    xr.testing.assert_equal(found, xr.concat(given, "time"))


def test_stores_are_sources_too(tmp_path: Path) -> None:
    stores: list[Any] = []
    for n in range(2):
        store = zarr.storage.MemoryStore()
        part = Part(np.arange(2, dtype="u1") + 2 * n, (1,), ["inline", "empty"])
        part.write(tmp_path / f"{n}.zarr", "v", dimension_names=["time"])
        write_hierarchy(store, read_hierarchy(tmp_path / f"{n}.zarr"))
        stores.append(store)
    zm.concat(stores, dim="time", target=tmp_path / "all.zarr")
    found = read(zm.ManifestStore(tmp_path / "all.zarr"), "v")
    assert found.tolist() == [0, FILL, 2, FILL]


def test_checksums_come_along(tmp_path: Path) -> None:
    for n in range(2):
        part = Part(np.arange(2, dtype="u1"), (2,), ())
        part.write(tmp_path / f"{n}.zarr", "v", dimension_names=["time"])
    zm.concat([tmp_path / "0.zarr", tmp_path / "1.zarr"], dim="time", target=tmp_path / "c.zarr")
    (tmp_path / "1-v.bin").write_bytes(b"start\7\7")
    with pytest.raises(ChecksumMismatchError):
        read(zm.ManifestStore(tmp_path / "c.zarr", allow=[tmp_path]), "v")


def test_a_hierarchy_is_not_its_own_source(tmp_path: Path) -> None:
    Part(np.ones(2, "u1"), (1,), ()).write(tmp_path / "a.zarr", "v", dimension_names=["time"])
    with pytest.raises(zm.ManifestError, match="already a hierarchy"):
        zm.concat([tmp_path / "a.zarr"] * 2, dim="time", target=tmp_path / "a.zarr")
