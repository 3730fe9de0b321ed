"""A hierarchy that grows: appended values are read after the present ones, all arrays at once."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from zarr.storage import MemoryStore

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
from tests.counting_store import Counting
from tests.hierarchies import declared, files_below, read
from tests.properties import examples
from zarr_manifest.conversion import read_files, write_hierarchy
from zarr_manifest.errors import LocationNotAllowedError, NotConvertibleError
from zarr_manifest.writing import Change

pytestmark = [pytest.mark.slow]


def documents(root: Path, path: str) -> set[str]:
    return {name for name in files_below(root / path) if name != "zarr.json"}


@examples(1)
@given(parts_along())
def test_the_values_are_those_of_numpy(given: Any) -> None:
    axis, parts, _ = given
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        places, expected = write_parts(root, given, "auto")
        before = files_below(places[0])
        try:
            report = zm.append(places[0], places[1:] or places, dim="time", allow=[root])
        except NotConvertibleError:
            assert not fits(axis, parts)
            assert files_below(places[0]) == before
            return
        assert zm.validate(places[0], allow=[root]) == []
        if len(report.there) == len(places[1:] or places):
            return
        assert report.there == []
        found = read(zm.ManifestStore(places[0], allow=[root]), "v")
        np.testing.assert_array_equal(found, expected)


def daily(directory: Path, day: int) -> Path:
    path = directory / f"{day:03d}.nc"
    dataset(day, 1).to_netcdf(
        path, encoding={"time": {"units": f"days since 2000-01-{day + 1:02d}"}, "v": {"zlib": True}}
    )
    return path


def archive(directory: Path, days: int, **layout: Any) -> Path:
    files = [daily(directory, day) for day in range(days)]
    write_hierarchy(directory / "all.zarr", read_files(files, concat_dim="time"), **layout)
    return directory / "all.zarr"


def test_a_file_every_day(tmp_path: Path) -> None:
    root = archive(tmp_path, 2)
    for day in range(2, 6):
        report = zm.append(root, daily(tmp_path, day), dim="time")
        assert (report.arrays, len(report.appended), report.new_locations) == (2, 1, [])
        expected = xr.concat([dataset(n, 1) for n in range(day + 1)], "time")
        xr.testing.assert_equal(opened(root, tmp_path), expected)
    assert zm.validate(root, allow=[tmp_path]) == []
    stated = json.loads((root / "v" / "zarr.json").read_text())
    assert "../005.nc" in json.dumps(stated["storage_transformers"]), "paths stay relative"


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


def test_what_comes_before_is_refused(tmp_path: Path) -> None:
    for day in range(4):
        daily(tmp_path, day)
    files = [tmp_path / "002.nc", tmp_path / "003.nc"]
    write_hierarchy(tmp_path / "all.zarr", read_files(files, concat_dim="time"))
    before = files_below(tmp_path / "all.zarr")
    with pytest.raises(NotConvertibleError, match="neither increase nor decrease"):
        zm.append(tmp_path / "all.zarr", tmp_path / "001.nc", dim="time")
    assert files_below(tmp_path / "all.zarr") == before


def test_nothing_is_written_if_one_array_does_not_fit(tmp_path: Path) -> None:
    root = archive(tmp_path, 2)
    odd = dataset(2, 1, units="K")
    odd.to_netcdf(tmp_path / "odd.nc", encoding={"v": {"zlib": True}})
    before = files_below(root)
    with pytest.raises(NotConvertibleError, match="nothing was appended") as caught:
        zm.append(root, tmp_path / "odd.nc", dim="time")
    assert caught.value.array == "v"
    assert "has units 'K'" in str(caught.value)
    assert files_below(root) == before


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


def test_what_is_held_in_the_hierarchy_is_loaded_from_files(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.nc" for n in range(3)]
    for n, path in enumerate(files):
        given = dataset(2 * n, 2).assign(step=("time", [2.0 * n, np.nan]))
        # As netCDF4 stores what may grow: chunks are longer than what is there.
        encoding = {
            "step": {"zlib": True, "chunksizes": (512,)},
            "v": {"zlib": True, "chunksizes": (1, 2)},
        }
        given.to_netcdf(path, encoding=encoding, unlimited_dims=["time"])
    root = tmp_path / "all.zarr"
    nodes = read_files(files[:2], concat_dim="time", loadable_variables=["time", "x", "step"])
    write_hierarchy(root, nodes)
    assert zm.append(root, files[2], dim="time").appended == [files[2].as_uri()]
    assert zm.append(root, files[2], dim="time").there == [files[2].as_uri()]
    assert opened(root, tmp_path)["step"].values[::2].tolist() == [0, 2, 4]


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


def test_what_is_found_in_files_is_kept(tmp_path: Path) -> None:
    root = archive(tmp_path, 2)
    new = daily(tmp_path, 2)
    os.utime(new, (new.stat().st_atime, new.stat().st_mtime - 1000))  # young files may change
    zm.append(root, new, dim="time", scans=tmp_path / "scans")
    kept = files_below(tmp_path / "scans")
    assert len(kept) == 1
    assert zm.append(root, new, dim="time", scans=tmp_path / "scans").there == [new.as_uri()]
    assert files_below(tmp_path / "scans") == kept


@pytest.mark.parametrize("path", ["old", "no group/old"])
def test_nodes_that_only_a_listing_finds_must_fit_as_well(tmp_path: Path, path: str) -> None:
    root = tmp_path / "all.zarr"
    Part(np.arange(2, dtype="u1"), (1,), ()).write(root, "v", dimension_names=["time"])
    Part(np.arange(2, dtype="u1"), (1,), ()).write(
        tmp_path / "n.zarr", "v", dimension_names=["time"]
    )
    old = zarr.create_array(root / path, shape=2, dtype="u1", zarr_format=2)
    old.attrs["_ARRAY_DIMENSIONS"] = ["time"]
    with pytest.raises(NotConvertibleError, match="does not have it") as caught:
        zm.append(root, tmp_path / "n.zarr", dim="time")
    assert caught.value.array == path


# Partitions ---------------------------------------------------------------------------


def test_only_the_partition_at_the_joint_is_read_and_written(tmp_path: Path) -> None:
    root = tmp_path / "all.zarr"
    part = Part(np.arange(7, dtype="u1"), (1,), ["stored", "inline", "empty", "missing"])
    part.write(root, "v", dimension_names=["time"], partition_shape=(2,), codecs=["zstd"])
    new = Part(np.array([7, 8], "u1"), (1,), ())
    new.write(tmp_path / "new.zarr", "v", dimension_names=["time"])
    before = documents(root, "v")
    counting = Counting(zarr.storage.LocalStore(root))
    report = zm.append(counting, tmp_path / "new.zarr", dim="time", sole_writer=True)
    assert report.references == 1 + 2  # of the partition at the joint, and the new ones
    # The last values are compared with the new ones, which have no coordinates.
    asked = {key[:13] for key in counting.asked if "manifest/" in key}
    assert asked == {"v/manifest/2-", "v/manifest/3-"}
    assert before <= documents(root, "v")  # for readers that opened it before
    assert len(documents(root, "v") - before) == 2
    found = read(zm.ManifestStore(root, allow=[tmp_path]), "v")
    assert found.tolist() == [0, 1, FILL, FILL, 4, 5, FILL, 7, 8]
    assert zm.validate(root, allow=[tmp_path]) == []
    assert kinds(root, "v") == {"stored": 4, "inline": 2, "empty": 2, "checksums": 2}


@pytest.mark.parametrize("axis", [0, 1])
def test_partitions_along_any_dimension(tmp_path: Path, axis: int) -> None:
    root = tmp_path / "all.zarr"
    names = ["y", "x"]
    names[axis] = "time"
    values = np.arange(20, dtype="<i4").reshape(4, 5)
    Part(values, (1, 1), ()).write(root, "v", dimension_names=names, partition_shape=(3, 2))
    Part(values + 50, (1, 1), ()).write(tmp_path / "new.zarr", "v", dimension_names=names)
    zm.append(root, tmp_path / "new.zarr", dim="time")
    found = read(zm.ManifestStore(root, allow=[tmp_path]), "v")
    np.testing.assert_array_equal(found, np.concatenate([values, values + 50], axis))
    assert len(zm.append(root, tmp_path / "new.zarr", dim="time").there) == 1


@pytest.mark.parametrize("begin", [{}, {"inline": True}], ids=["document", "inline"])
def test_what_grows_is_partitioned_so_that_a_day_writes_one_document(
    tmp_path: Path, begin: dict[str, Any]
) -> None:
    root = tmp_path / "all.zarr"
    Part(np.arange(126, dtype="u1"), (1,), ()).write(root, "v", dimension_names=["time"], **begin)
    shutil.copytree(root, tmp_path / "once.zarr")
    written: list[set[str]] = []
    news = [tmp_path / f"{day}.zarr" for day in range(126, 131)]
    for day, new in enumerate(news, start=126):
        Part(np.array([day], "u1"), (1,), ()).write(new, "v", dimension_names=["time"])
        before = documents(root, "v")
        zm.append(root, new, dim="time")
        written.append({name.partition("-")[0] for name in documents(root, "v") - before})
    # One document as long as one partition would hold all; then the first is full.
    assert [len(names) for names in written] == [1, 1, 2, 1, 1]
    assert written[-1] == {"manifest/1"}
    found = read(zm.ManifestStore(root, allow=[tmp_path]), "v")
    assert found.tolist() == list(range(131))
    assert zm.validate(root, allow=[tmp_path]) == []
    # One append of them all leaves the same.
    zm.append(tmp_path / "once.zarr", news, dim="time")
    assert (tmp_path / "once.zarr/v/zarr.json").read_text() == (root / "v/zarr.json").read_text()


def test_a_document_with_a_name_of_its_own_stays_one(tmp_path: Path) -> None:
    root = tmp_path / "all.zarr"
    part = Part(np.arange(140, dtype="u1"), (1,), ())
    part.write(root, "v", dimension_names=["time"], manifest_url="./manifest.json")
    Part(np.array([140], "u1"), (1,), ()).write(tmp_path / "n.zarr", "v", dimension_names=["time"])
    zm.append(root, tmp_path / "n.zarr", dim="time")
    stated = json.loads((root / "v" / "zarr.json").read_text())["storage_transformers"]
    assert "partition_shape" not in stated[0]["configuration"]
    assert read(zm.ManifestStore(root, allow=[tmp_path]), "v").tolist() == list(range(141))


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (5, 7), (7, 11), (9, 14)])
def test_only_the_partitions_of_what_is_replaced_are_written(
    tmp_path: Path, start: int, stop: int
) -> None:
    """Of twelve values in partitions of three; the others keep their documents."""

    def dated(values: Any, days: range, place: Path, **form: Any) -> Path:
        kinds_of = ["stored", "inline", "empty", "missing", "stored"]
        Part(values, (1,), kinds_of).write(place, "v", dimension_names=["time"], **form)
        axis = np.array(days, "<i4")
        Part(axis, (len(axis),), ["inline"]).write(place, "time", dimension_names=["time"])
        return place

    values = np.arange(12, dtype="u1")
    root = dated(values, range(12), tmp_path / "all.zarr", partition_shape=(3,))
    before = documents(root, "v")
    new = np.arange(start, stop, dtype="u1") + 100
    place = dated(new, range(start, stop), tmp_path / "new.zarr")
    expected = [*read(zm.ManifestStore(root, allow=[tmp_path]), "v").tolist()]
    expected[start:stop] = read(zm.ManifestStore(place, allow=[tmp_path]), "v").tolist()
    counting = Counting(zarr.storage.LocalStore(root))
    zm.append(counting, place, dim="time", replace=True, sole_writer=True)
    assert read(zm.ManifestStore(root, allow=[tmp_path]), "v").tolist() == expected
    named = {f"manifest/{number}" for number in range(start // 3, -(-stop // 3))}
    assert {name.partition("-")[0] for name in documents(root, "v") - before} == named
    last = "manifest/3"  # what it refers to is compared with new locations
    asked = {key[2:].partition("-")[0] for key in counting.asked if "manifest/" in key}
    assert asked <= named | {last}
    assert zm.validate(root, allow=[tmp_path]) == []


# Locations ----------------------------------------------------------------------------


def test_new_locations_are_said_or_refused(tmp_path: Path) -> None:
    root = tmp_path / "a" / "all.zarr"
    for directory in ("a", "b"):
        (tmp_path / directory).mkdir()
    Part(np.arange(2, dtype="u1"), (1,), ()).write(root, "v", dimension_names=["time"])
    new = tmp_path / "b" / "new.zarr"
    Part(np.arange(2, dtype="u1"), (1,), ()).write(new, "v", dimension_names=["time"])
    before = files_below(root)
    with pytest.raises(LocationNotAllowedError, match="other locations") as caught:
        zm.append(root, new, dim="time", same_locations=True)
    assert (tmp_path / "b").as_uri() in str(caught.value.location)
    assert files_below(root) == before
    report = zm.append(root, new, dim="time")
    assert report.new_locations == [(tmp_path / "b").as_uri() + "/"]
    assert zm.append(root, new, dim="time", same_locations=True).there == [new.as_uri()]


def test_native_arrays_become_references_to_their_own_chunks(tmp_path: Path) -> None:
    given = [dataset(0, 2), dataset(2, 2)]
    places = [written(tmp_path / f"{n}.zarr", each, chunked()) for n, each in enumerate(given)]
    zm.append(places[0], places[1], dim="time")
    assert declared(places[0], "v")
    assert json.loads((places[0] / "x" / "zarr.json").read_text()).get("storage_transformers") == []
    xr.testing.assert_identical(opened(places[0], tmp_path), xr.concat(given, "time"))


# Several writers ----------------------------------------------------------------------


def test_several_writers_append_one_after_the_other(tmp_path: Path) -> None:
    root = tmp_path / "all.zarr"
    Part(np.array([0], "u1"), (1,), ()).write(root, "v", dimension_names=["time"])
    places = [tmp_path / f"{n}.zarr" for n in range(1, 7)]
    for n, place in enumerate(places, start=1):
        Part(np.array([n], "u1"), (1,), ()).write(place, "v", dimension_names=["time"])
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda place: zm.append(root, place, dim="time"), places))
    found = read(zm.ManifestStore(root, allow=[tmp_path]), "v").tolist()
    assert found[0] == 0
    assert sorted(found) == list(range(7))


# Trim ---------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [{}, {"partition_shape": (2, 1)}])
def test_a_rolling_window(tmp_path: Path, layout: dict[str, Any]) -> None:
    root = archive(tmp_path, 5, **layout)
    report = zm.trim(root, dim="time", keep=3)
    assert (report.kept, report.removed, report.arrays) == (3, 2, 2)
    expected = xr.concat([dataset(n, 1) for n in range(2, 5)], "time")
    xr.testing.assert_equal(opened(root, tmp_path), expected)
    assert zm.trim(root, dim="time", keep=3).removed == 0
    zm.append(root, daily(tmp_path, 5), dim="time")
    zm.trim(root, dim="time", keep=1)
    xr.testing.assert_equal(opened(root, tmp_path), dataset(5, 1))
    assert zm.validate(root, allow=[tmp_path]) == []


def test_only_whole_chunks_are_removed(tmp_path: Path) -> None:
    values = np.arange(7, dtype="u1")
    kinds_of = ["stored", "empty", "inline", "missing"]
    part = Part(values, (2,), kinds_of)
    part.write(tmp_path / "a.zarr", "v", dimension_names=["time"], partition_shape=(2,))
    report = zm.trim(tmp_path / "a.zarr", dim="time", keep=2)
    assert (report.kept, report.removed) == (3, 4)
    found = read(zm.ManifestStore(tmp_path / "a.zarr", allow=[tmp_path]), "v")
    assert found.tolist() == [4, 5, FILL]


def test_native_arrays_are_trimmed_by_reference(tmp_path: Path) -> None:
    root = written(tmp_path / "a.zarr", dataset(0, 4), chunked(time={"chunks": (1,)}))
    chunks = {name for name in files_below(root) if "/c/" in name}
    zm.trim(root, dim="time", keep=2)
    assert chunks <= files_below(root).keys()
    xr.testing.assert_identical(opened(root, tmp_path), dataset(2, 2))


def test_trimming_along_an_unknown_dimension(tmp_path: Path) -> None:
    Part(np.ones(2, "u1"), (1,), ()).write(tmp_path / "a.zarr", "v", dimension_names=["time"])
    with pytest.raises(NotConvertibleError, match="no array has the dimension 'x'"):
        zm.trim(tmp_path / "a.zarr", dim="x", keep=1)
    with pytest.raises(ValueError, match="at least 1"):
        zm.trim(tmp_path / "a.zarr", dim="time", keep=0)


def test_zarr_reads_what_was_consolidated(tmp_path: Path) -> None:
    root = archive(tmp_path, 2)
    zm.append(root, daily(tmp_path, 2), dim="time")
    store = zm.ManifestStore(root, allow=[tmp_path])
    group: Any = zarr.open_consolidated(store)
    assert [group[name].shape for name in ("v", "time")] == [(3, 2), (3,)]


def test_an_array_that_cannot_be_read_does_not_stay_shorter() -> None:
    """Native chunks in memory have no URL."""
    stores = [MemoryStore(), MemoryStore()]
    for number, store in enumerate(stores):
        zarr.create_group(store)
        options: dict[str, Any] = {"shape": 2, "chunks": 2, "dtype": "u1"}
        options |= {"dimension_names": ["time"], "compressors": None}
        entries = {"0": {"data": bytes([number, 7])}}
        zm.create_array(store, "v", entries, **options)
        zm.create_array(store, "n", entries, **options)
    zarr.create_array(
        stores[0], name="n", data=np.arange(2, dtype="u1"), dimension_names=["time"],
        compressors=None, overwrite=True,
    )  # fmt: skip
    with pytest.raises(NotConvertibleError, match="nothing was appended") as caught:
        zm.append(stores[0], stores[1], dim="time")
    assert caught.value.array == "n"
    assert read(zm.ManifestStore(stores[0]), "v").tolist() == [0, 7]


def test_a_hierarchy_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two arrays, one is read before another append, and the other after it."""
    root = archive(tmp_path, 2)
    new = [daily(tmp_path, 2), daily(tmp_path, 3)]
    read_node = Change._found
    others, is_read = [new[0]], threading.Event()

    def read_late(self: Change, path: str) -> Any:
        if path == "time" and others:
            other = others.pop()
            assert is_read.wait(60)
            zm.append(root, other, dim="time")
        found = read_node(self, path)
        if path == "v":
            is_read.set()
        return found

    monkeypatch.setattr(Change, "_found", read_late)
    assert zm.append(root, new, dim="time").appended == [new[1].as_uri()]
    expected = xr.concat([dataset(n, 1) for n in range(4)], "time")
    xr.testing.assert_equal(opened(root, tmp_path), expected)
