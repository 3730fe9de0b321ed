"""``scan``, and ``create --scans``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line.commands import run
from tests.conversion.files.scanned_files import age, documents, write_days

pytestmark = pytest.mark.slow


def test_parts_and_then_create(tmp_path: Path) -> None:
    days = write_days(tmp_path / "days", 5)
    pattern, scans = f"{tmp_path}/days/*.nc", tmp_path / "scans"
    parts = [
        run("scan", pattern, "--scans", scans, "--part", f"{n}/3", "--json") for n in (1, 2, 3)
    ]
    assert [done.status for done in parts] == [0, 0, 0]
    assert sum(done.document["made"] for done in parts) == len(documents(scans)) == 5
    done = run("scan", *days, "--scans", scans)
    assert (done.stdout, done.stderr) == (f"{scans}: 5 scans found, 0 made\n", "")
    options = ("--concat-dim", "time", "--override", "crs")
    done = run("create", pattern, tmp_path / "h.zarr", "--scans", scans, *options)
    assert done.status == 0
    assert "note: /: 5 scans found, 0 made\n" in done.stderr


def test_files_that_fail_are_named(tmp_path: Path) -> None:
    days = write_days(tmp_path / "days", 3)
    age(Path(days[1].write_bytes(b"no file") and days[1]))
    scans = tmp_path / "scans"
    done = run("scan", *days, "--scans", scans, "--parallel", "2")
    assert done.status == 1
    assert done.stdout == f"{scans}: 0 scans found, 2 made\n"
    assert f"refused: {days[1].as_uri()}: not_convertible: " in done.stderr
    create = ("create", *days, tmp_path / "h.zarr", "--scans", scans, "--concat-dim", "time")
    assert run(*create).status == 3
    done = run(*create, "--keep-going")
    assert done.status == 1
    assert "0001.nc was left out" in done.stderr


def test_a_file_of_the_present_moment_is_noted(tmp_path: Path) -> None:
    days = write_days(tmp_path / "days", 1)
    days[0].touch()
    done = run("scan", days[0], "--scans", tmp_path / "scans")
    assert done.status == 0
    assert f"note: {days[0].as_uri()}: not kept" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["f.nc", "--scans", "s", "--part", "3"], "N/COUNT"),
        (["f.nc", "--scans", "s", "--part", "0/4"], "parts are 1 to 4"),
        (["f.nc"], "--scans"),
        (["--scans", "s"], "name the files"),
    ],
)
def test_usage(arguments: list[str], problem: str) -> None:
    done = run("scan", *arguments)
    assert done.status == 2
    assert problem in done.stderr
