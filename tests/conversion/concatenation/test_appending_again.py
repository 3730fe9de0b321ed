"""What is in a hierarchy already is neither appended twice, nor replaced unasked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr

import zarr_manifest as zm
from tests.command_line.commands import run
from tests.conversion.concatenation.parts import (
    Part,
    archive,
    daily,
    dataset,
    opened,
)
from tests.counting_store import Counting
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
    with pytest.raises(NotConvertibleError, match="1 of 1 source would come before") as caught:
        zm.append(tmp_path / "all.zarr", tmp_path / "001.nc", dim="time")
    assert "Only what comes after 2000-01-04" in str(caught.value)
    assert files_below(tmp_path / "all.zarr") == before


def rewritten(directory: Path, values: xr.Dataset, **encoding: Any) -> xr.Dataset:
    """Write compressed values of days that are there already; return them."""
    (directory / "new").mkdir()
    variables = {"time": {"units": "days since 2000-01-01"}, "v": {"zlib": True, **encoding}}
    values.to_netcdf(directory / "new" / "1.nc", encoding=variables)
    return values


def test_other_references_of_the_same_time_are_refused_or_replace(tmp_path: Path) -> None:
    root = archive(tmp_path, 3)
    corrected = rewritten(tmp_path, dataset(1, 1) + 100)
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
    later = rewritten(tmp_path, dataset(2, 2) + 100, chunksizes=(1, 2))
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


def test_what_was_trimmed_is_named_with_what_to_append_instead(tmp_path: Path) -> None:
    root = archive(tmp_path, 5)
    zm.trim(root, dim="time", keep=2)
    daily(tmp_path, 5)
    before = files_below(root)
    with pytest.raises(NotConvertibleError, match="3 of 6 sources would come before") as caught:
        zm.append(root, str(tmp_path / "*.nc"), dim="time")
    assert caught.value.array == "time"
    assert f"such as {(tmp_path / '002.nc').as_uri()}" in str(caught.value)
    assert f"only those from {(tmp_path / '003.nc').as_uri()} on" in str(caught.value)
    assert files_below(root) == before
    report = zm.append(root, str(tmp_path / "00[3-9].nc"), dim="time")
    assert (len(report.there), len(report.appended)) == (2, 1)


def test_a_window_of_one_value_refuses_what_was_trimmed(tmp_path: Path) -> None:
    root = archive(tmp_path, 3)
    zm.trim(root, dim="time", keep=1)
    with pytest.raises(NotConvertibleError, match="2 of 3 sources would come before"):
        zm.append(root, str(tmp_path / "*.nc"), dim="time")


def test_arrays_that_only_a_file_has_are_named_and_left_out(tmp_path: Path) -> None:
    root = archive(tmp_path, 1)
    new = tmp_path / "001.nc"
    given = dataset(1, 1).assign(w=("time", [1.0]))
    given.to_netcdf(new, encoding={"time": {"units": "days since 2000-01-01"}, "v": {"zlib": True}})
    done = run("append", root, new, "--dim", "time")
    assert done.status == 0
    assert f"note: /w: it was left out: {root.as_uri()} does not have it" in done.stderr
    report = zm.append(root, new, dim="time")
    assert (report.there, report.arrays) == ([new.as_uri()], 0)


# Without coordinates ------------------------------------------------------------------


def undated(root: Path, number: int, count: int = 1, **layout: Any) -> Path:
    """Write a hierarchy of two arrays without a coordinate."""
    place = root / f"{number}.zarr"
    values = np.arange(number, number + count, dtype="u1")
    Part(values, (1,), ()).write(place, "v", dimension_names=["time"], **layout)
    both = np.repeat(values[:, None], 2, 1)
    Part(both, (1, 1), ()).write(place, "w", dimension_names=["time", "x"])
    return place


def test_what_is_before_the_end_is_there_too(tmp_path: Path) -> None:
    root, *news = [undated(tmp_path, number) for number in range(5)]
    shutil.copytree(root, tmp_path / "first.zarr")
    zm.append(root, news, dim="time")
    before = files_below(root)
    for some in ([tmp_path / "first.zarr"], news[1:3], [news[2], news[0]]):
        report = zm.append(root, some, dim="time")
        assert (len(report.there), report.appended) == (len(some), [])
    assert files_below(root) == before
    report = zm.append(root, [news[0], news[3], undated(tmp_path, 9)], dim="time")
    assert (len(report.there), len(report.appended)) == (2, 1)
    found = read(zm.ManifestStore(root, allow=[tmp_path]), "v")
    assert found.tolist() == [0, 1, 2, 3, 4, 9]


def test_of_one_array_all_documents_are_read_once_to_find_it(tmp_path: Path) -> None:
    root = undated(tmp_path, 0, 6, partition_shape=(2,))
    new = undated(tmp_path, 9)
    counting = Counting(zarr.storage.LocalStore(root))
    zm.append(counting, new, dim="time", sole_writer=True)
    read_documents = [key for key in counting.asked if "manifest" in key]
    assert sorted(key[:13] for key in read_documents if key.startswith("v/")) == [
        "v/manifest/0-", "v/manifest/1-", "v/manifest/2-"
    ]  # fmt: skip


def test_what_was_trimmed_does_not_come_after_what_is_there(tmp_path: Path) -> None:
    root, *news = [undated(tmp_path, number) for number in range(4)]
    zm.append(root, news, dim="time")
    zm.trim(root, dim="time", keep=2)
    before = files_below(root)
    with pytest.raises(NotConvertibleError, match="1 of 4 sources would come after") as caught:
        zm.append(root, [*news, undated(tmp_path, 4)], dim="time")
    assert f"such as {news[0].as_uri()}" in str(caught.value)
    assert f"only those from {news[1].as_uri()} on" in str(caught.value)
    assert files_below(root) == before
    assert len(zm.append(root, [*news[1:], tmp_path / "4.zarr"], dim="time").appended) == 1


def test_what_is_there_in_part_is_refused(tmp_path: Path) -> None:
    root, month, last = undated(tmp_path, 0), undated(tmp_path, 1, 2), undated(tmp_path, 3)
    zm.append(root, [month, last], dim="time")
    with zm.edit(root, allow=[tmp_path]) as group:
        zm.entries(group["w"])[1, 0] = {}
    with pytest.raises(NotConvertibleError, match="other references in the place"):
        zm.append(root, month, dim="time")
    zm.trim(root, dim="time", keep=2)
    with pytest.raises(NotConvertibleError, match=r"has the end of .* but not its beginning"):
        zm.append(root, month, dim="time")
    assert zm.append(root, last, dim="time").there == [last.as_uri()]


def test_chunks_that_several_days_share_do_not_identify_one(tmp_path: Path) -> None:
    """Such as those of a mask that is stored once."""
    places = [undated(tmp_path, number) for number in range(4)]
    shared = {"0": {"path": (tmp_path / "0-v.bin").as_uri(), "offset": 5, "length": 1}}
    for place in places[1:]:
        zm.write_manifest(place, "v", shared)
    root, *news = places
    zm.append(root, news[:2], dim="time")
    assert len(zm.append(root, news[2], dim="time").appended) == 1
    assert len(zm.append(root, news, dim="time").there) == 3
