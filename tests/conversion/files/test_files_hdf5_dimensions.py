"""Dimension scales of HDF5 files: found by address, wherever they are, and without searching."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

from tests.conversion.files.converted_files import IGNORED_WARNINGS, convert
from zarr_manifest.conversion import ArrayNode, read_files

pytestmark = [pytest.mark.filterwarnings(text) for text in IGNORED_WARNINGS]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count what HDF5 is asked that makes it search the file: names, and visits of all objects."""
    found: list[str] = []
    # h5py's own modules share this one.
    named, visited = h5py.h5i.get_name, h5py.h5o.visit

    def name(*args: Any) -> Any:
        found.append("name")
        return named(*args)

    def visit(*args: Any, **options: Any) -> Any:
        found.append("visit")
        return visited(*args, **options)

    monkeypatch.setattr(h5py.h5i, "get_name", name)
    monkeypatch.setattr(h5py.h5o, "visit", visit)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("where", ["", "group"])
def test_a_shared_scale_is_not_searched_for(
    tmp_path: Path, searches: list[str], where: str
) -> None:
    # HDF5 searches the whole file for a name: the time was quadratic in the number of variables.
    with netCDF4.Dataset(tmp_path / "f.nc", "w") as file:
        file.createDimension("x", 4)
        file.createVariable("x", "i4", ("x",))[:] = range(4)
        group = file.createGroup(where) if where else file
        for number in range(30):
            group.createVariable(f"v{number}", "i4", ("x",))[:] = number
    nodes = list(read_files(tmp_path / "f.nc"))
    arrays = [node for node in nodes if isinstance(node, ArrayNode)]
    assert len(arrays) == 31
    assert all(node.metadata["dimension_names"] == ["x"] for node in arrays)
    assert searches == []


@pytest.mark.slow
def test_scales_of_later_groups_are_searched_for_once(tmp_path: Path, searches: list[str]) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        for name in ("x", "y"):
            file[f"later/{name}"] = np.arange(3)
            file[f"later/{name}"].make_scale(name)
        for number in range(10):
            file[f"a/v{number}"] = np.zeros((3, 3))
            for dim, name in enumerate(("y", "x")):
                file[f"a/v{number}"].dims[dim].attach_scale(file[f"later/{name}"])
    searches.clear()
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert searches == ["visit"]
    assert found.arrays["a/v7"].metadata.dimension_names == ("y", "x")


def test_a_scale_without_a_name_is_nameless(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["x"] = np.arange(3)
        file["x"].make_scale("x")
        file["v"] = np.zeros(3)
        file["v"].dims[0].attach_scale(file["x"])
        file.flush()
        del file["x"]
    found = convert(tmp_path / "f.h5", tmp_path / "h.zarr")
    assert found.refused == {}
    assert found.arrays["v"].metadata.dimension_names == ("phony_dim_0",)
