"""Entries of an array, read and changed in an edit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.hierarchies import read
from tests.writing.edited_fields import FORMS, with_field


def test_entries_are_changed(tmp_path: Path) -> None:
    field = np.arange(2000, dtype="<i4").reshape(4, 500)
    root, allow = tmp_path / "h", with_field(tmp_path, field, chunks=(1, 500), inline=False)
    zarr.create_array(root / "t", data=np.arange(4), chunks=(2,))
    with zm.edit(root, allow=[allow]) as group:
        entries = zm.entries(group["field"])
        entries[0, 0] = {}
        entries[1, 0] = None
        entries[2, 0] = {"path": "3.0"}
        with pytest.raises(zm.errors.InvalidEntryError):
            entries[3, 0] = {"pth": "3.0"}
        with pytest.raises(zm.errors.InvalidChunkKeyError):
            entries[9, 0] = {}
        with pytest.raises(zm.errors.InvalidConfigurationError, match="no manifest"):
            zm.entries(group["t"])
    with pytest.raises(zm.errors.ReadOnlyError, match="in an edit"):
        zm.entries(zarr.open_group(zm.ManifestStore(root), mode="r")["field"])[0, 0] = {}
    values = read(zm.ManifestStore(root, allow=[allow]), "field")
    assert (values[:2] == -1).all()
    np.testing.assert_array_equal(values[2], values[3])


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_entries_are_read(tmp_path: Path, form: str) -> None:
    """In readers and in edits, before and after they are changed."""
    values = np.arange(4 * 300, dtype="i4").reshape(4, 300)
    allow = with_field(tmp_path, values, chunks=(1, 200), base="../", **FORMS[form])
    root = tmp_path / "h"
    stored = {(i, j): {"path": f"../src/{i}.{j}"} for i in range(4) for j in range(2)}
    reader = zarr.open_group(zm.ManifestStore(root, read_only=True), mode="r")
    assert dict(zm.entries(reader["field"])) == stored
    with zm.edit(root, allow=[allow]) as group:
        entries = zm.entries(group["field"])
        assert dict(entries) == stored
        assert len(entries) == 8
        entries[0, 1] = {}
        entries[3, 0] = {"data": b"abc"}
        del entries[2, 0]
        with pytest.raises(KeyError):
            del entries[2, 0]
        group["field"][1, :200] = 7
        written = entries[1, 0]
        assert written is not None
        assert written["path"].startswith("field/chunks/sha256/")
        expected = {**stored, (0, 1): {}, (3, 0): {"data": "YWJj"}, (1, 0): written}
        del expected[2, 0]
        assert dict(entries) == expected
        assert len(entries) == 7
        group["field"].resize((5, 300))
        entries[4, 1] = entries[0, 0]
        expected[4, 1] = expected[0, 0]
    assert dict(zm.entries(reader["field"])) == stored
    found = zm.entries(zarr.open_group(zm.ManifestStore(root), mode="r")["field"])
    assert dict(found) == expected
    assert len(found) == 8
    for absent in [(2, 0), (9, 0), (0, 0, 0), (-1, 0)]:
        assert absent not in found


def test_entries_are_those_of_manifest_stores(tmp_path: Path) -> None:
    native = zarr.create_array(tmp_path, name="n", shape=4, chunks=2, dtype="i4")
    with pytest.raises(TypeError, match="of a ManifestStore"):
        zm.entries(native)
