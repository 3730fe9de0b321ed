"""What plain zarr and xarray do with a manifest array: locked, and not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import zarr_manifest as zm
from tests.hierarchies import consolidate, split_into_source

pytestmark = pytest.mark.filterwarnings(
    "ignore:Consolidated metadata", "ignore:Object at .* is not recognized", "ignore:Failed to open"
)

DATA = np.arange(1, 25, dtype="<i4").reshape(4, 6)
NATIVE = np.arange(6)


def write(root: Path, *, lock: bool) -> Path:
    """A group with a native array and a manifest array, whose chunks lie in ``raw.bin``."""
    zarr.create_group(root)
    zarr.create_array(root, name="native", data=NATIVE, dimension_names=["x"])
    entries, source = split_into_source(DATA, (2, 3), path="../raw.bin", start=5)
    (root / "raw.bin").write_bytes(source)
    zm.create_array(
        root, "sst", entries, shape=DATA.shape, chunks=(2, 3), dtype=DATA.dtype, fill_value=-7,
        dimension_names=["y", "x"], lock=lock,
    )  # fmt: skip
    return root


@pytest.fixture(params=[False, True], ids=["plain", "consolidated"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    root = write(tmp_path / "data.zarr", lock=True)
    if request.param:
        consolidate(root)
    return root


WAYS: dict[str, Callable[[Path], Any]] = {
    "group": lambda root: zarr.open_group(root, mode="r")["sst"][...],
    "group, not consolidated": lambda root: zarr.open_group(root, mode="r", use_consolidated=False)[
        "sst"
    ][...],
    "open_array": lambda root: zarr.open_array(root / "sst", mode="r")[...],
    "open": lambda root: zarr.open(root, path="sst", mode="r")[...],
    "members": lambda root: list(zarr.open_group(root, mode="r").members()),
    "arrays": lambda root: list(zarr.open_group(root, mode="r").arrays()),
    "xarray": lambda root: xr.open_dataset(root, engine="zarr").load(),
    "xarray, not consolidated": lambda root: xr.open_zarr(root, consolidated=False).load(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_locked_array_is_refused_by_an_error_that_names_the_extension(
    root: Path, way: str
) -> None:
    # Its class is another one in each version of zarr.
    with pytest.raises((ValueError, TypeError), match=r"chunk-manifest-json|storage.transformers"):
        WAYS[way](root)


def test_native_arrays_beside_it_can_be_read_by_name(root: Path) -> None:
    group = zarr.open_group(root, mode="r", use_consolidated=False)
    np.testing.assert_array_equal(group["native"][...], NATIVE)
    np.testing.assert_array_equal(zarr.open_array(root / "native", mode="r")[...], NATIVE)


@pytest.mark.slow
def test_tensorstore_refuses_it_with_and_without_the_lock(tmp_path: Path) -> None:
    tensorstore: Any = pytest.importorskip("tensorstore")
    for name, lock in (("locked", True), ("not", False)):
        root = write(tmp_path / name, lock=lock)
        spec = {"driver": "zarr3", "kvstore": (root / "sst").as_uri() + "/"}
        with pytest.raises(ValueError, match="storage_transformers"):
            tensorstore.open(spec).result()
        spec["kvstore"] = (root / "native").as_uri() + "/"
        assert tensorstore.open(spec).result().read().result().tolist() == NATIVE.tolist()


def test_with_us_everything_is_right(root: Path) -> None:
    store = zm.ManifestStore(root)
    np.testing.assert_array_equal(zarr.open_array(store, path="sst", mode="r")[:], DATA)
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["sst"][:], DATA)
    assert [name for name, _ in zarr.open_group(store, mode="r").arrays()].count("sst") == 1
    np.testing.assert_array_equal(xr.open_dataset(root, engine="zarr-manifest")["sst"], DATA)
    with zm.enable():
        np.testing.assert_array_equal(zarr.open_group(root, mode="r")["sst"][:], DATA)


def test_without_the_lock_a_group_reads_fill_values_without_a_word(tmp_path: Path) -> None:
    root = write(tmp_path / "data.zarr", lock=False)
    silently_wrong = zarr.open_group(root, mode="r")["sst"][:]
    np.testing.assert_array_equal(silently_wrong, np.full_like(DATA, -7))
    with pytest.raises(ValueError, match=r"storage_transformers|storage transformers"):
        zarr.open_array(root / "sst", mode="r")
