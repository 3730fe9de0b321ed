"""A hierarchy that loses its beginning, in whole chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import zarr_manifest as zm
from tests.conversion.concatenation.parts import (
    FILL,
    Part,
    archive,
    chunked,
    daily,
    dataset,
    opened,
    written,
)
from tests.hierarchies import files_below, read
from zarr_manifest.errors import NotConvertibleError

pytestmark = [pytest.mark.slow]


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
