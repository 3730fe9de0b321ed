"""A hierarchy that grows: appended values are read after the present ones, all arrays at once."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.conversion.concatenation.parts import (
    Part,
    archive,
    chunked,
    daily,
    dataset,
    fits,
    opened,
    parts_along,
    write_parts,
    written,
)
from tests.hierarchies import declared, files_below, read
from tests.properties import examples
from zarr_manifest.conversion import read_files, write_hierarchy
from zarr_manifest.errors import LocationNotAllowedError, NotConvertibleError
from zarr_manifest.writing import Change

pytestmark = [pytest.mark.slow]


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


def test_a_hierarchy_of_one_file_grows_without_access_to_it(tmp_path: Path) -> None:
    files = [daily(tmp_path, day) for day in range(3)]
    root = tmp_path / "all.zarr"
    write_hierarchy(root, read_files(files[0]))
    for new in files[1:]:
        assert zm.append(root, new, dim="time").appended == [new.as_uri()]
    assert len(zm.append(root, files, dim="time").there) == 3
    expected = xr.concat([dataset(n, 1) for n in range(3)], "time")
    xr.testing.assert_equal(opened(root, tmp_path), expected)


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


def test_native_arrays_become_references_to_their_own_chunks(tmp_path: Path) -> None:
    given = [dataset(0, 2), dataset(2, 2)]
    places = [written(tmp_path / f"{n}.zarr", each, chunked()) for n, each in enumerate(given)]
    zm.append(places[0], places[1], dim="time")
    assert declared(places[0], "v")
    assert json.loads((places[0] / "x" / "zarr.json").read_text()).get("storage_transformers") == []
    xr.testing.assert_identical(opened(places[0], tmp_path), xr.concat(given, "time"))


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
