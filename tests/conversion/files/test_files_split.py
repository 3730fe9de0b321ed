"""Files whose uncompressed chunks differ in length, as one array: their chunks are split."""

from __future__ import annotations

import itertools
import math
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

from tests.combinations import combinations
from tests.conversion.files.converted_files import IGNORED_WARNINGS, Converted, convert, same
from zarr_manifest.conversion.fitting import common_length
from zarr_manifest.conversion.joining import in_pieces, placing
from zarr_manifest.conversion.nodes import ArrayNode
from zarr_manifest.conversion.target import unwritten_array
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.manifest import INLINE, Manifest, References, references_of

pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS)]

# ------------------------------------------------------------ the splitting itself

KINDS = st.sampled_from(["stored", "missing", "inlined"])


@st.composite
def stored_files(draw: st.DrawFn) -> tuple[list[Any], list[int], list[list[str]]]:
    """Arrays of (1, rows, columns), chunk lengths of each, and what their chunks are."""
    columns = draw(st.integers(1, 3))
    parts = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), min_size=1))
    numbers = itertools.count(1)
    values = [
        np.array([next(numbers) for _ in range(2 * length * columns)], ">i4")
        .reshape(2, length, columns)
        for length, _ in parts
    ]  # fmt: skip
    chunks = [chunk for _, chunk in parts]
    kinds = [
        draw(st.lists(KINDS, min_size=(n := 2 * -(-length // chunk)), max_size=n))
        for length, chunk in parts
    ]
    return values, chunks, kinds


def store(values: Any, chunk: int, kinds: list[str]) -> tuple[bytes, References, Any]:
    """Write chunks one after the other with gaps; return what is read where some are missing."""
    outer, length, columns = values.shape
    count = -(-length // chunk)
    offsets: dict[tuple[int, ...], int] = {}
    inlined: dict[tuple[int, ...], bytes] = {}
    stored, read = bytearray(), values.copy()
    places = itertools.product(range(outer), range(count), [0])
    for place, kind in zip(places, kinds, strict=True):
        first, rows = place[0], slice(place[1] * chunk, (place[1] + 1) * chunk)
        data = np.full((chunk, columns), -1, values.dtype)
        data[: len(values[first, rows])] = values[first, rows]
        if kind == "missing":
            read[first, rows] = 0
        elif kind == "inlined":
            inlined[place] = data.tobytes()
        else:
            stored += b"gap"
            offsets[place] = len(stored)
            stored += data.tobytes()
    manifest = Manifest.from_columns(
        (outer, count, 1),
        paths="file:///f",
        offsets=[*offsets.values()],
        lengths=chunk * columns * 4,
        indices=np.array([*offsets], np.int64).reshape(len(offsets), 3),
        data=inlined,
    )
    return bytes(stored), references_of(manifest), read


@given(stored_files())
def test_pieces_are_the_rows_of_the_files_one_after_the_other(given: Any) -> None:
    values, chunks, kinds = given
    lengths = [part.shape[1] for part in values]
    is_last = [number == len(values) - 1 for number in range(len(values))]
    piece = common_length(lengths, chunks, is_last)
    if piece is None:
        assert not any(lengths)
        return
    columns = values[0].shape[2]
    nbytes = piece * columns * 4
    total = sum(lengths)
    found = np.zeros((2, -(-total // piece) * piece, columns), ">i4")
    expected, at = [], 0
    for part, chunk, kind in zip(values, chunks, kinds, strict=True):
        stored, references, read = store(part, chunk, kind)
        expected.append(read)
        length = part.shape[1]
        shape = (2, -(-length // piece), 1)
        pieces = -(-min(chunk, length) // piece) if length else 1
        split = in_pieces(references, shape, 1, pieces=pieces, nbytes=nbytes)
        for place, row in split.items():
            rows = slice(at + place[1] * piece, at + (place[1] + 1) * piece)
            data = row.data
            assert (data is not None) == (row.path_number == INLINE)
            data = stored[row.offset : row.offset + nbytes] if data is None else data
            found[place[0], rows] = np.frombuffer(data, ">i4").reshape(piece, columns)
        assert at % piece == 0  # no chunk belongs to two files
        at += length
    assert same(found[:, :total], np.concatenate(expected, axis=1))


@given(st.integers(1, 60), st.lists(st.integers(0, 9)), st.integers(1, 400))
def test_one_length_that_fits_is_kept(chunk: int, counts: list[int], last: int) -> None:
    """Files that one chunk grid has room for need no splitting."""
    lengths = [count * chunk for count in counts] + [last]
    is_last = [False] * len(counts) + [True]
    assert common_length(lengths, [chunk] * len(lengths), is_last) == chunk


@given(st.lists(st.integers(1, 400), min_size=1))
def test_contiguous_files_have_their_greatest_common_divisor(lengths: list[int]) -> None:
    is_last = [False] * (len(lengths) - 1) + [True]
    assert common_length(lengths, lengths, is_last) == math.gcd(*lengths)


def test_padding_of_a_single_chunk_does_not_count() -> None:
    assert common_length([24, 48, 36], [512] * 3, [False, False, True]) == 12


def stored_node(length: int, lengths: list[int]) -> ArrayNode:
    """One of bytes, in one file, in chunks of ten that are stored with these lengths."""
    metadata = unwritten_array(
        (length,), np.dtype("u1"), dimension_names=["t"], attributes={}, fill_value=0, chunks=(10,)
    )
    stored = [number for number, size in enumerate(lengths) if size]
    manifest = Manifest.from_columns(
        (-(-length // 10),),
        paths="file:///f",
        offsets=[number * 10 for number in stored],
        lengths=[lengths[number] for number in stored],
        indices=np.array(stored, np.int64).reshape(len(stored), 1),
    )
    return ArrayNode("v", metadata, manifest)


@pytest.mark.parametrize(
    ("lengths", "is_split"),
    [
        ([10, 10], True),
        ([10, 5], False),  # ends with the values, as Zarr's chunks do not
        ([0, 10], True),
        ([0], True),
    ],
)
def test_chunks_are_whole(lengths: list[int], is_split: bool) -> None:
    nodes = [stored_node(15, lengths), stored_node(20, [10, 10])]
    if not is_split:
        with pytest.raises(NotConvertibleError, match="begin inside a chunk of 10"):
            placing.fit(nodes, 0, ["a", "b"])
        return
    joint = placing.fit(nodes, 0, ["a", "b"])
    assert joint.metadata["chunk_grid"]["configuration"]["chunk_shape"] == [5]
    assert joint.grid_shape == (7,)
    manifest = joint.manifest()
    assert isinstance(manifest, Manifest)
    stored = [number for number in range(3) if lengths[number // 2 :][:1] not in ([0], [])]
    assert [index for (index,) in manifest] == [*stored, 3, 4, 5, 6]
    assert all(each.length == 5 for _, each in manifest.items())


# ------------------------------------------------------------ files that xarray writes

MONTHS = ((1, 31), (2, 28), (3, 31), (4, 30))
BOTH = ["time", "time_bnds"]


def month(number: int, days: int, seed: int = 0) -> xr.Dataset:
    start = np.datetime64(f"2023-{number:02}-01", "ns")
    time = start + np.arange(days) * np.timedelta64(1, "D")
    rng = np.random.default_rng(number + seed)
    bounds = np.stack([time, time + np.timedelta64(1, "D")], axis=1)
    dataset = xr.Dataset(
        {
            "sst": (("time", "y", "x"), rng.normal(285, 5, (days, 2, 3)), {"units": "K"}),
            "count": (("time", "x"), rng.integers(0, 99, (days, 3), "i2")),
            "flag": ("time", rng.integers(0, 2, days, "i1")),
            "time_bnds": (("time", "n"), bounds),
            "mask": (("y", "x"), np.ones((2, 3), "f4")),
        },
        coords={"time": ("time", time, {"bounds": "time_bnds"}), "y": [1.0, 2.0]},
        attrs={"title": "months"},
    )
    dataset["time"].encoding["units"] = f"days since 2023-{number:02}-01"
    return dataset


def write_months(directory: Path, engine: Any, **options: Any) -> list[Path]:
    paths = [directory / f"{number}.nc" for number, _ in MONTHS]
    for path, (number, days) in zip(paths, MONTHS, strict=True):
        month(number, days).to_netcdf(path, engine=engine, **options)
    return paths


def check(found: Converted, paths: list[Path]) -> None:
    options: Any = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    with (
        xr.open_mfdataset(paths, combine="by_coords", join="exact", **options) as expected,
        xr.open_zarr(found.store(), consolidated=False, chunks=None) as opened,
    ):
        xr.testing.assert_identical(opened.load(), expected.load())
    assert found.refused == {}


@pytest.mark.parametrize("engine", combinations(["netcdf4", "h5netcdf", "scipy"], ["h5netcdf"]))
@pytest.mark.parametrize("how", combinations(["by name", "by values", "unlimited"], ["by name"]))
def test_months_that_xarray_writes(tmp_path: Path, engine: str, how: str) -> None:
    dim = None if how == "by values" else "time"
    unlimited = ["time"] if how == "unlimited" else []
    paths = write_months(tmp_path, engine, unlimited_dims=unlimited)
    given = paths if dim else paths[::-1]
    found = convert(given, tmp_path / "h.zarr", concat_dim=dim, loadable_variables=[*BOTH, "y"])
    check(found, paths)
    if not unlimited:
        notes = dict(found.report.notes)
        assert "split into pieces of (1, 2, 3)" in notes["sst"]
        assert "120 references instead of 4" in notes["sst"]
        assert found.arrays["sst"].chunks == (1, 2, 3)


def test_bounds_that_are_not_loaded_follow_one_another(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.nc" for number, _ in MONTHS]
    for path, (number, days) in zip(paths, MONTHS, strict=True):
        dataset = month(number, days)
        dataset["time"].encoding["units"] = "days since 2000-01-01"
        dataset.to_netcdf(path)
    found = convert(paths, tmp_path / "h.zarr", concat_dim="time")
    check(found, paths)
    assert found.arrays["time_bnds"].chunks == (1, 2)


def test_compressed_months_are_refused_by_name(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.nc" for number, _ in MONTHS]
    for path, (number, days) in zip(paths, MONTHS, strict=True):
        encoding: dict[str, Any] = {
            "sst": {"zlib": True, "chunksizes": (days, 2, 3)},
            "count": {"shuffle": True, "chunksizes": (days, 3)},
        }
        month(number, days).to_netcdf(path, engine="h5netcdf", encoding=encoding)
    found = convert(paths, tmp_path / "h.zarr", concat_dim="time", loadable_variables=[*BOTH, "y"])
    assert found.refused.keys() == {"sst", "count"}
    assert "has chunks of (28, 2, 3)" in found.refused["sst"]
    assert "has chunks of (28, 3)" in found.refused["count"]
    assert found.arrays["flag"].shape == (120,)


# ------------------------------------------------------------ other chunks


def write_arrays(directory: Path, **datasets: list[Any]) -> list[Path]:
    """Files of HDF5, of which each has the datasets with its number: values and options."""
    count = len(next(iter(datasets.values())))
    paths = [directory / f"{number}.nc" for number in range(count)]
    for number, path in enumerate(paths):
        with netCDF4.Dataset(path, "w") as file:
            for name, parts in datasets.items():
                values, dims, options = parts[number]
                for dim, length in zip(dims, values.shape, strict=True):
                    if dim not in file.dimensions:
                        file.createDimension(dim, length)
                file.createVariable(name, values.dtype, dims, **options)[...] = values
    return paths


def rows(count: int, *others: int) -> Any:
    return np.random.default_rng(count).integers(1, 1000, (count, *others), "i4")


def test_chunks_of_which_the_last_of_a_file_is_not_full(tmp_path: Path) -> None:
    options = {"chunksizes": (10, 2)}
    parts: list[Any] = [(rows(count, 5), ("t", "x"), options) for count in (35, 25, 31)]
    paths = write_arrays(tmp_path, v=parts)
    found = convert(paths, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused == {}
    assert same(found.arrays["v"][...], np.concatenate([values for values, *_ in parts]))
    assert found.arrays["v"].chunks == (5, 2)
    notes = dict(found.report.notes)
    assert f"{3 * (7 + 5 + 7)} references instead of {3 * (4 + 3 + 4)}" in notes["v"]


def write_series(directory: Path, lengths: Sequence[int], make: Any) -> list[Path]:
    """Files of HDF5, each with `v`, which `make` makes, along a time that goes on."""
    paths = [directory / f"{number}.h5" for number in range(len(lengths))]
    for path, first, count in zip(paths, itertools.accumulate(lengths), lengths, strict=True):
        with h5py.File(path, "w") as file:
            file["t"] = np.arange(count) + first - count
            file["t"].make_scale("t")
            make(file, count).dims[0].attach_scale(file["t"])
    return paths


def series(chunk: int) -> Any:
    def make(file: h5py.File, count: int) -> h5py.Dataset:
        first = file["t"][0]
        return file.create_dataset("v", data=np.arange(count) + first, chunks=(chunk,))

    return make


@pytest.mark.parametrize("dim", ["t", None])
def test_chunks_that_are_longer_than_the_files(tmp_path: Path, dim: str | None) -> None:
    def make(file: h5py.File, count: int) -> h5py.Dataset:
        data = np.arange(count) + file["t"][0]
        return file.create_dataset("v", data=data, chunks=(512,), maxshape=(None,))

    paths = write_series(tmp_path, (24, 48, 36), make)
    found = convert(paths, tmp_path / "h.zarr", concat_dim=dim)
    assert found.refused == {}
    assert same(found.arrays["v"][...], np.arange(108))
    assert found.arrays["v"].chunks == (12,)


@pytest.mark.parametrize(("lengths", "chunk"), [((30, 20, 25), 10), ((30, 25, 20), 5)])
def test_only_the_last_by_the_coordinates_ends_within_a_chunk(
    tmp_path: Path, lengths: Sequence[int], chunk: int
) -> None:
    paths = write_series(tmp_path, lengths, series(10))
    found = convert([paths[2], paths[0], paths[1]], tmp_path / "h.zarr")
    assert same(found.arrays["v"][...], np.arange(75))
    assert found.arrays["v"].chunks == (chunk,)
    assert ("v" in dict(found.report.notes)) == (chunk != 10)


def test_a_time_that_runs_backwards(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.nc" for number in range(3)]
    time = np.arange(75)[::-1]
    encoding = {"v": {"chunksizes": (10,)}}
    for path, (first, stop) in zip(paths, [(0, 30), (30, 50), (50, 75)], strict=True):
        part = time[first:stop]
        dataset = xr.Dataset({"v": ("t", part * 2)}, {"t": part})
        dataset.to_netcdf(path, engine="h5netcdf", encoding=encoding)
    found = convert(paths[::-1], tmp_path / "h.zarr")
    assert same(found.arrays["v"][...], 2 * time)
    assert found.arrays["v"].chunks == (10,)


def test_a_file_that_was_never_written_is_filled(tmp_path: Path) -> None:
    def make(file: h5py.File, count: int) -> h5py.Dataset:
        data = file.create_dataset("v", (count, 2), "f4", fillvalue=7)
        if count != 6:
            data[...] = np.arange(count)[:, None]
        return data

    paths = write_series(tmp_path, (4, 6, 2), make)
    found = convert(paths, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused == {}
    assert same(found.arrays["v"][:, 1], [0, 1, 2, 3, *[7] * 6, 0, 1])
    assert "3 references instead of 2" in dict(found.report.notes)["v"]


def test_values_that_are_held_inline(tmp_path: Path) -> None:
    """HDF5 holds small datasets in the header, if it is told to."""

    def make(file: h5py.File, count: int) -> h5py.Dataset:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((count,))
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32BE, space, plist)
        file["v"][...] = np.arange(count) + file["t"][0]
        return file["v"]

    paths = write_series(tmp_path, (4, 6, 8), make)
    found = convert(paths, tmp_path / "h.zarr", concat_dim="t")
    assert found.refused == {}
    assert same(found.arrays["v"][...], np.arange(18))
    assert found.arrays["v"].chunks == (2,)


def test_pieces_that_are_not_contiguous_are_refused(tmp_path: Path) -> None:
    """Contiguous (x, t): the values of one time lie in many places."""
    parts: list[Any] = [(rows(3, count), ("x", "t"), {}) for count in (31, 28)]
    paths = write_arrays(tmp_path, v=parts)
    found = convert(paths, tmp_path / "h.zarr", concat_dim="t")
    assert "has chunks of (3, 28)" in found.refused["v"]
    parts = [(rows(6, 6), ("t", "x"), {"chunksizes": size}) for size in ((3, 3), (2, 2))]
    paths = write_arrays(tmp_path, v=parts)
    found = convert(paths, tmp_path / "j.zarr", concat_dim="t")
    assert "has chunks of (2, 2)" in found.refused["v"]
    parts = [(rows(1, count), ("x", "t"), {}) for count in (31, 28)]
    paths = write_arrays(tmp_path, v=parts)
    found = convert(paths, tmp_path / "i.zarr", concat_dim="t")
    assert same(found.arrays["v"][...], np.concatenate([part for part, *_ in parts], axis=1))


def test_not_more_references_than_are_sane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "MOST_REFERENCES", 50)
    parts: list[Any] = [(rows(count), ("t",), {}) for count in (31, 28)]
    chunked = [(rows(count), ("t",), {"chunksizes": (10,)}) for count in (31, 28)]
    paths = write_arrays(tmp_path, v=parts, w=chunked)
    found = convert(paths, tmp_path / "h.zarr", concat_dim="t")
    assert "has chunks of (28,)" in found.refused["v"]
    assert "takes 59 references, more than 50" in found.refused["v"]
    assert "has 31 values along it" in found.refused["w"]
