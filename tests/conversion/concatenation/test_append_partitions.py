"""Partitioned manifests that grow: only those documents are read and written that change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.conversion.concatenation.parts import (
    FILL,
    Part,
    documents,
    kinds,
)
from tests.counting_store import Counting
from tests.hierarchies import read

pytestmark = [pytest.mark.slow]


def test_only_the_partition_at_the_joint_is_read_and_written(tmp_path: Path) -> None:
    root = tmp_path / "all.zarr"
    part = Part(np.arange(7, dtype="u1"), (1,), ["stored", "inline", "empty", "missing"])
    part.write(root, "v", dimension_names=["time"], partition_shape=(2,), codecs=["zstd"])
    new = Part(np.array([7, 8], "u1"), (1,), ())
    new.write(tmp_path / "new.zarr", "v", dimension_names=["time"])
    for place, days in ((root, range(7)), (tmp_path / "new.zarr", range(7, 9))):
        Part(np.array(days), (9,), ["inline"]).write(place, "time", dimension_names=["time"])
    before = documents(root, "v")
    counting = Counting(zarr.storage.LocalStore(root))
    report = zm.append(counting, tmp_path / "new.zarr", dim="time", sole_writer=True)
    assert report.references == 1 + 2 + 1  # at the joint, the new ones, and the coordinate
    asked = {key[:13] for key in counting.asked if "manifest/" in key}
    assert asked == {"v/manifest/3-"}
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
