"""What plain zarr does with a manifest array, and why this package exists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import split_into_source, write_manifest_array

DATA = np.arange(1, 25, dtype="<i4").reshape(4, 6)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A group with one manifest array, whose chunks lie in ``raw.bin``."""
    root = tmp_path / "data.zarr"
    zarr.create_group(root)
    manifest, source = split_into_source(DATA, (2, 3), path="../raw.bin", start=5)
    (root / "raw.bin").write_bytes(source)
    write_manifest_array(root, "sst", DATA, (2, 3), manifest, fill_value=-7)
    return root


def test_plain_zarr_refuses_to_open_the_array(root: Path) -> None:
    with pytest.raises(ValueError, match=r"storage_transformers|storage transformers"):
        zarr.open_array(root / "sst", mode="r")


def test_plain_zarr_reads_fill_values_through_a_group_without_a_word(root: Path) -> None:
    silently_wrong = zarr.open_group(root, mode="r")["sst"][:]
    np.testing.assert_array_equal(silently_wrong, np.full_like(DATA, -7))


def test_through_the_manifest_store_both_are_right(root: Path) -> None:
    store = zm.ManifestStore(root)
    np.testing.assert_array_equal(zarr.open_array(store, path="sst", mode="r")[:], DATA)
    np.testing.assert_array_equal(zarr.open_group(store, mode="r")["sst"][:], DATA)


def test_enabled_plain_zarr_is_right(root: Path) -> None:
    with zm.enable():
        np.testing.assert_array_equal(zarr.open_group(root, mode="r")["sst"][:], DATA)
