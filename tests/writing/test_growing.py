"""zarr grows an array before it writes: a manifest array would be left with fill values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import zarr_manifest as zm
from tests.hierarchies import FIELD, Values, consolidate, files_below, read

pytestmark = [
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
    pytest.mark.filterwarnings("ignore:Object at (raw|old|v2) is not recognized"),
]


@pytest.mark.parametrize("path", ["a/b/external", "inline"])
def test_growing_in_an_edit(path: str, root: Path, values: Values) -> None:
    with zm.edit(root) as group:
        group[path].resize((9, 10))
        group[path][6:] = 1
    grown = read(zm.ManifestStore(root), path)
    np.testing.assert_array_equal(grown[:6, :8], values[path])
    assert (grown[:6, 8:] == -1).all()
    assert (grown[6:] == 1).all()


# xarray ----------------------------------------------------------------------------------


def dataset(steps: range) -> xr.Dataset:
    values = np.stack([FIELD + step for step in steps]).astype("f8")
    return xr.Dataset(
        {
            "sst": (("time", "y", "x"), values),
            "ice": (("time", "y", "x"), -values),
            "mask": (("y", "x"), FIELD % 2),
        },
        coords={"time": np.array(steps, "f8")},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("virtual", "consolidated", "chunks"),
    [
        (["sst"], True, None),
        (["ice"], False, {"time": 1}),
        (["time"], True, {"time": 1}),
        (["sst", "ice", "time"], False, None),
    ],
)
def test_appending_a_dataset(
    tmp_path: Path, virtual: list[str], consolidated: bool, chunks: Any
) -> None:
    """Some variables are native. xarray writes the attributes of the group first."""
    first = dataset(range(2))
    root = tmp_path / "h.zarr"
    encoding = {name: {"compressors": None} for name in first.variables}
    first.to_zarr(root, zarr_format=3, consolidated=False, encoding=encoding)
    for name in virtual:
        body = first[name].to_numpy().tobytes()
        zm.write_manifest(root, name, {(0,) * first[name].ndim: {"data": body}}, inline=True)
    if consolidated:
        consolidate(root)
    new = dataset(range(2, 4)).assign_attrs(title="new").drop_vars("mask")
    before = files_below(root)
    for compute in (True, False):
        with pytest.raises(zm.errors.ReadOnlyError, match=r"zarr_manifest\.edit"):
            (new if chunks is None else new.chunk(chunks)).to_zarr(
                zm.ManifestStore(root), append_dim="time", mode="a", compute=compute
            )
    assert files_below(root) == before


@pytest.mark.slow
@pytest.mark.parametrize("compute", [True, False])
def test_appending_in_an_edit(tmp_path: Path, *, compute: bool) -> None:
    """Some variables are native, and others not; with dask, they are written when it computes."""
    root = tmp_path / "h.zarr"
    first, both = dataset(range(2)), dataset(range(4))
    encoding = {name: {"compressors": None} for name in first.variables}
    first.to_zarr(root, zarr_format=3, consolidated=False, encoding=encoding)
    body = first["sst"].to_numpy().tobytes()
    zm.write_manifest(root, "sst", {(0, 0, 0): {"data": body}}, inline=True)
    new = dataset(range(2, 4)).drop_vars("mask").chunk({"time": 2})
    with zm.edit(root) as group:
        delayed = new.to_zarr(group.store, append_dim="time", compute=compute, consolidated=False)
        if not compute:
            delayed.compute(scheduler="threads")
        found: Any = xr.open_zarr(zm.ManifestStore(root), consolidated=False)
        xr.testing.assert_identical(found.load(), first)
    found = xr.open_zarr(zm.ManifestStore(root), consolidated=False)
    xr.testing.assert_identical(found.load(), both)


@pytest.mark.slow
def test_an_append_that_fails_in_an_edit_changes_nothing(tmp_path: Path) -> None:
    """xarray has replaced attributes and made arrays longer by then."""
    root = tmp_path / "h.zarr"
    first = dataset(range(2))
    first.to_zarr(root, zarr_format=3, consolidated=False)
    body = first["sst"].to_numpy().tobytes()
    zm.write_manifest(root, "sst", {(0, 0, 0): {"data": body}}, inline=True)

    def fail(block: Any) -> Any:
        raise ZeroDivisionError

    new = dataset(range(2, 4)).drop_vars("mask").chunk({"time": 2}).assign_attrs(title="new")
    new["sst"] = new["sst"].copy(data=new["sst"].data.map_blocks(fail, dtype="i4"))
    before = files_below(root)
    with pytest.raises(ZeroDivisionError), zm.edit(root) as group:
        new.to_zarr(group.store, append_dim="time", consolidated=False)
    after = files_below(root)
    assert {key: after[key] for key in before} == before
    written = after.keys() - before.keys()
    assert all("/chunks/sha256/" in key for key in written)
