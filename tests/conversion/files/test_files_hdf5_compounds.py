"""Compound types of HDF5 whose fields lie in any order: every field equals what h5py reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from tests.conversion.files.converted_files import (
    IGNORED_WARNINGS,
    convert,
    hdf5_values,
    same,
    write,
)
from tests.properties import examples
from zarr_manifest.conversion import read_virtual

pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS)]

LEAVES = [np.dtype(code) for code in ("i1", "<u2", "<i4", "<f8", "<c8", "S3", "?")]
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "gzip": {"chunks": (3,), "compression": "gzip", "shuffle": True},
    "unlimited": {"chunks": (3,), "maxshape": (None,)},
}


def laid_out(fields: list[np.dtype[Any]], order: list[int], gaps: list[int]) -> np.dtype[Any]:
    """Return a type whose fields lie in an order other than that of their names."""
    offsets, position = [0] * len(fields), 0
    for number in order:
        offsets[number] = position = position + gaps[number]
        position += fields[number].itemsize
    names = [f"f{number}" for number in range(len(fields))]
    spec: Any = {
        "names": names,
        "formats": fields,
        "offsets": offsets,
        "itemsize": position + gaps[-1],
    }
    return np.dtype(spec)


@st.composite
def compounds(draw: st.DrawFn, of: st.SearchStrategy[np.dtype[Any]]) -> np.dtype[Any]:
    fields = draw(st.lists(of, min_size=1, max_size=4))
    gap = st.just(0) if draw(st.booleans()) else st.integers(0, 3)
    gaps = draw(st.lists(gap, min_size=len(fields) + 1, max_size=len(fields) + 1))
    return laid_out(fields, draw(st.permutations(range(len(fields)))), gaps)


TYPES = compounds(st.sampled_from(LEAVES) | compounds(st.sampled_from(LEAVES)))


def counted(dtype: np.dtype[Any], start: int, count: int) -> Any:
    """Return values of which each field has others."""
    values: Any = np.zeros(count, dtype)
    for number, name in enumerate(dtype.names or ()):
        inner = dtype[name]
        first = start + 10 * number
        values[name] = (
            counted(inner, first, count)
            if inner.names
            else (np.arange(count) + first).astype("?" if inner.kind == "b" else inner)
        )
    return values


@examples(1)
@given(TYPES, st.sampled_from(sorted(LAYOUTS)))
def test_fields_in_any_order_with_any_gaps(dtype: np.dtype[Any], layout: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        values = counted(dtype, 1, 4)
        with h5py.File(directory / "f.h5", "w") as file:
            file.create_dataset("x", data=values, **LAYOUTS[layout])
            file.create_dataset("never_written", (4,), dtype, fillvalue=values[3])
            partly = file.create_dataset(
                "partly", (4,), dtype, fillvalue=values[3], chunks=(2,), maxshape=(None,)
            )
            partly[:2] = values[:2]
        found = convert(directory / "f.h5", directory / "h.zarr")
        assert found.refused == {}
        with h5py.File(directory / "f.h5") as file:
            for path in file:
                assert same(found.arrays[path][...], hdf5_values(file[path])), path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fields_without_gaps_are_references_whatever_their_order(
    tmp_path: Path, layout: str
) -> None:
    # As PyTables writes them: by name in the type, by position in the bytes.
    values = counted(laid_out([LEAVES[3], LEAVES[1], LEAVES[5]], [2, 0, 1], [0] * 4), 1, 7)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("table", data=values, **LAYOUTS[layout])
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr", inline_limit=0)
    assert (found.refused, found.report.notes) == ({}, [])
    assert same(found.arrays["table"][...], values)


def test_strings_of_any_length_beside_fields_in_another_order(tmp_path: Path) -> None:
    inner = laid_out(LEAVES[2:4], [1, 0], [0, 0, 2])
    dtype = laid_out([inner, h5py.string_dtype(), LEAVES[1]], [2, 1, 0], [0] * 4)
    values: Any = np.zeros(3, dtype)
    values["f0"], values["f1"], values["f2"] = counted(inner, 1, 3), ["a", "bcd", ""], [7, 8, 9]
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = values
    found: Any = convert(tmp_path / "f.h5", tmp_path / "h.zarr").arrays["x"][...]
    assert same(found["f0"], values["f0"])
    assert found["f1"].tolist() == ["a", "bcd", ""]
    assert found["f2"].tolist() == [7, 8, 9]


def test_arrays_as_fields_are_refused(tmp_path: Path) -> None:
    spec: Any = {"names": ["b", "a"], "formats": ["<i4", ("<f4", (2,))], "offsets": [8, 0]}
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = np.zeros(3, np.dtype(spec))
    reason = convert(tmp_path / "f.h5", tmp_path / "h.zarr").refused["x"]
    assert reason.startswith("field 'a': its elements are arrays")


@given(TYPES)
@examples(0.25)
def test_loaded_variables_of_such_types(dtype: np.dtype[Any]) -> None:
    values = counted(dtype, 1, 4)
    with tempfile.TemporaryDirectory() as name:
        found = write(read_virtual(xr.Dataset({"x": ("i", values)})), Path(name) / "h.zarr")
        assert found.refused == {}
        assert same(found.arrays["x"][...], values)
