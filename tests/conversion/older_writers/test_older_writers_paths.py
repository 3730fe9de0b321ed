"""Paths that were relative to the working directory of the writer, which nothing states."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from zarr.buffer import default_buffer_prototype
from zarr.errors import UnstableSpecificationWarning
from zarr.storage import MemoryStore

import zarr_manifest as zm
from tests.conversion.older_writers.older_writer_stores import check, files_in, unpack
from zarr_manifest.conversion import upgrade

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        f"ignore::{UnstableSpecificationWarning.__module__}.{UnstableSpecificationWarning.__name__}"
    ),
]


def base_in(root: Path, path: str) -> str | None:
    metadata = json.loads((root / path / "zarr.json").read_text())
    configuration = metadata["storage_transformers"][0]["configuration"]
    base: str | None = configuration.get("base")
    return base


def test_the_directory_of_the_writer_is_found(writer: Path) -> None:
    """Above the hierarchy, as it is where somebody wrote it into a directory of the sources."""
    root = unpack("1.0.0", "classic.nc", writer, writer / "some" / "where" / "h.zarr")
    report = upgrade(root)
    assert base_in(root, "time") == f"{writer.as_uri()}/"
    assert report.repairs["time"][-2] == (
        "its paths were relative to the writer's working directory, now "
        f"'{writer.as_uri()}/', the only directory above it with all files"
    )
    check(root, writer, "1.0.0", "classic.nc", report)


def test_the_directory_of_the_writer_is_the_hierarchy(writer: Path) -> None:
    """Then both can be moved together."""
    root = unpack("1.1.0", "classic.nc", writer, writer)
    report = upgrade(root)
    assert base_in(root, "time") == "../"
    moved = shutil.move(root, writer.parent / "moved")
    check(moved, writer, "1.1.0", "classic.nc", report)


def test_several_directories_have_all_files(writer: Path) -> None:
    root = unpack("1.0.0", "classic.nc", writer)
    shutil.copy(writer / "classic.nc", writer.parent)
    before = files_in(root)
    report = upgrade(root)
    assert (report.repairs, report.notes, report.written) == ({}, [], [])
    assert files_in(root) == before
    for node in report.refused:
        assert "several have all files" in node.reason
        assert f"{writer}, {writer.parent}. State it: working_directory=..." in node.reason
    again = upgrade(root, working_directory=writer)
    assert set(again.repaired) == {node.path for node in report.refused}
    check(root, writer, "1.0.0", "classic.nc", again)
    assert upgrade(root, working_directory=writer).repaired == []


def test_no_directory_has_all_files(writer: Path) -> None:
    root = unpack("1.0.0", "classic.nc", writer)
    (writer / "classic.nc").rename(writer / "elsewhere.nc")
    report = upgrade(root)
    assert report.refused
    assert all("is unknown. State it: working_directory=" in n.reason for n in report.refused)
    assert report.repaired == []


def test_the_directory_of_the_writer_cannot_be_searched_for(writer: Path) -> None:
    """As in a bucket. Repaired arrays would only look readable; valid ones may be."""
    root = unpack("1.0.0", "classic.nc", writer)
    buffer = default_buffer_prototype().buffer
    store = MemoryStore({key: buffer.from_bytes(body) for key, body in files_in(root).items()})
    report = upgrade(store)
    assert all("is unknown. State it: working_directory=" in n.reason for n in report.refused)
    assert report.refused
    assert report.repaired == []
    entry = {"path": "f.bin", "offset": 0, "length": 2}
    options: Any = {"shape": 2, "chunks": 2, "dtype": "u1", "lock": False}
    options["manifest_url"] = "./manifest.json"
    zm.create_array(store, "valid", {(0,): entry}, **options)
    ((path, note),) = upgrade(store).notes
    assert (path, "is unknown. State it: working_directory=" in note) == ("valid", True)


@pytest.mark.parametrize(
    ("say", "base"),
    [
        (lambda writer: writer, "{writer}/"),
        (str, "{writer}/"),
        (lambda writer: writer.as_uri(), "{writer}/"),
        (lambda writer: f"{writer.as_uri()}/", "{writer}/"),
        (lambda _: "raw/data", "../raw/data/"),
        (lambda _: Path("raw data"), "../raw%20data/"),
        (lambda _: ".", "../"),
        (lambda _: "s3://bucket/data", "s3://bucket/data/"),
    ],
)
def test_the_directory_of_the_writer_is_given(
    say: Callable[[Path], str | Path], base: str, writer: Path
) -> None:
    root = unpack("1.0.0", "classic.nc", writer)
    report = upgrade(root, working_directory=say(writer))
    assert base_in(root, "time") == base.format(writer=writer.as_uri())
    assert report.repairs["time"][-2].endswith(", as given")
    assert zm.validate(root) == []


def test_paths_that_lead_to_files_beside_the_array(writer: Path) -> None:
    root = unpack("1.1.0", "field.fits", writer)
    (writer / "field.fits").rename(root / "PRIMARY" / "field.fits")
    report = upgrade(root)
    assert base_in(root, "PRIMARY") is None
    assert report.notes == []
    check(root, writer, "1.1.0", "field.fits", report)
