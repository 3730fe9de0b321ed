"""What is in a hierarchy already is neither appended twice, nor replaced unasked."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import zarr_manifest as zm
from tests.conversion.concatenation.parts import (
    Part,
    archive,
    daily,
    dataset,
    opened,
)
from tests.hierarchies import files_below, read
from zarr_manifest.conversion import read_files, write_hierarchy
from zarr_manifest.errors import NotConvertibleError

pytestmark = [pytest.mark.slow]


def test_a_second_time_it_is_there_already(tmp_path: Path) -> None:
    root = archive(tmp_path, 2)
    new = [daily(tmp_path, 2), daily(tmp_path, 3)]
    assert zm.append(root, new, dim="time").appended == [path.as_uri() for path in new]
    before = files_below(root)
    report = zm.append(root, [*new, tmp_path / "001.nc"], dim="time")
    assert (len(report.there), report.appended, report.arrays) == (3, [], 0)
    assert files_below(root) == before
    report = zm.append(root, [new[1], daily(tmp_path, 4)], dim="time")
    assert (len(report.there), len(report.appended)) == (1, 1)
    expected = xr.concat([dataset(n, 1) for n in range(5)], "time")
    xr.testing.assert_equal(opened(root, tmp_path), expected)


def test_what_has_no_coordinate_is_known_by_its_references(tmp_path: Path) -> None:
    root, *places = [tmp_path / f"{n}.zarr" for n in range(4)]
    for n, place in enumerate([root, *places]):
        Part(np.array([n], "u1"), (1,), ()).write(place, "v", dimension_names=["time"])
    assert len(zm.append(root, places[:2], dim="time").appended) == 2
    assert len(zm.append(root, places[:2], dim="time").there) == 2
    report = zm.append(root, places, dim="time")
    assert (len(report.there), report.appended) == (2, [places[2].as_uri()])
    store = zm.ManifestStore(root, allow=[tmp_path])
    assert read(store, "v").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("has_coordinate", [True, False])
def test_chunks_that_were_split_are_there_a_second_time(
    tmp_path: Path, has_coordinate: bool
) -> None:
    lengths, files = [3, 2, 4, 2], [tmp_path / f"{n}.nc" for n in range(4)]
    for first, length, path in zip(np.cumsum([0, *lengths]).tolist(), lengths, files, strict=False):
        month = dataset(first, length)
        (month if has_coordinate else month.drop_vars("time")).to_netcdf(path)
    root = tmp_path / "all.zarr"
    write_hierarchy(root, read_files(files[:2], concat_dim="time"))
    assert zm.append(root, files[1], dim="time").there == [files[1].as_uri()]
    assert zm.append(root, files[2], dim="time").there == []
    assert zm.append(root, files[2:], dim="time").appended == [files[3].as_uri()]
    report = zm.append(root, files[2:], dim="time")
    assert (len(report.there), report.appended) == (2, [])
    assert read(zm.ManifestStore(root, allow=[tmp_path]), "v").shape[0] == sum(lengths)


def test_what_comes_before_is_refused(tmp_path: Path) -> None:
    for day in range(4):
        daily(tmp_path, day)
    files = [tmp_path / "002.nc", tmp_path / "003.nc"]
    write_hierarchy(tmp_path / "all.zarr", read_files(files, concat_dim="time"))
    before = files_below(tmp_path / "all.zarr")
    with pytest.raises(NotConvertibleError, match="neither increase nor decrease"):
        zm.append(tmp_path / "all.zarr", tmp_path / "001.nc", dim="time")
    assert files_below(tmp_path / "all.zarr") == before


def test_other_references_of_the_same_time_are_refused_or_replace(tmp_path: Path) -> None:
    root = archive(tmp_path, 3)
    (tmp_path / "new").mkdir()
    corrected = dataset(1, 1) + 100
    corrected.to_netcdf(
        tmp_path / "new" / "1.nc",
        encoding={"time": {"units": "days since 2000-01-01"}, "v": {"zlib": True}},
    )
    before = files_below(root)
    with pytest.raises(NotConvertibleError, match="other references") as caught:
        zm.append(root, tmp_path / "new" / "1.nc", dim="time")
    assert "replace=True" in str(caught.value)
    assert files_below(root) == before
    report = zm.append(root, tmp_path / "new" / "1.nc", dim="time", replace=True)
    assert len(report.replaced) == 1
    expected = xr.concat([dataset(0, 1), corrected, dataset(2, 1)], "time")
    xr.testing.assert_equal(opened(root, tmp_path), expected)
    again = zm.append(root, tmp_path / "new" / "1.nc", dim="time", replace=True)
    assert len(again.there) == 1


def test_what_overlaps_in_part_is_replaced_to_its_end(tmp_path: Path) -> None:
    root = archive(tmp_path, 3)
    (tmp_path / "new").mkdir()
    later = dataset(2, 2) + 100
    later.to_netcdf(
        tmp_path / "new" / "1.nc",
        encoding={
            "time": {"units": "days since 2000-01-01"},
            "v": {"zlib": True, "chunksizes": (1, 2)},
        },
    )
    with pytest.raises(NotConvertibleError):
        zm.append(root, tmp_path / "new" / "1.nc", dim="time")
    zm.append(root, tmp_path / "new" / "1.nc", dim="time", replace=True)
    expected = xr.concat([dataset(0, 2), later], "time")
    xr.testing.assert_equal(opened(root, tmp_path), expected)


def test_a_corrected_file_of_the_same_size_replaces(tmp_path: Path) -> None:
    root = archive(tmp_path, 2)
    path = tmp_path / "001.nc"
    with h5py.File(path, "r+") as file:
        values = file["v"][...]
        file["v"][...] = values[..., ::-1]
    later = path.stat().st_mtime + 10
    os.utime(path, (later, later))
    with pytest.raises(NotConvertibleError, match="other references"):
        zm.append(root, path, dim="time")
    assert zm.append(root, path, dim="time", replace=True).replaced == [path.as_uri()]
    np.testing.assert_array_equal(opened(root, tmp_path)["v"][1:], values[..., ::-1])
