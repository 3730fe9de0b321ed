"""Appended files: left out if they are damaged, parsed in parallel, converted if loaded."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

import zarr_manifest as zm
from tests.command_line.commands import run
from tests.conversion.concatenation.parts import archive, daily, dataset, opened
from tests.hierarchies import files_below
from tests.processes import CONTEXT
from zarr_manifest.conversion import read_files, write_hierarchy
from zarr_manifest.errors import NotConvertibleError, SourceNotFoundError

pytestmark = [pytest.mark.slow]


def damaged(directory: Path, day: int) -> Path:
    path = daily(directory, day)
    os.truncate(path, path.stat().st_size // 2)
    return path


def test_files_that_fail_are_left_out_by_name(tmp_path: Path) -> None:
    root = archive(tmp_path, 2)
    files = [damaged(tmp_path, 2), daily(tmp_path, 3), tmp_path / "absent.nc", daily(tmp_path, 4)]
    before = files_below(root)
    with pytest.raises(zm.ManifestError, match="2 of 4 files") as caught:
        zm.append(root, files, dim="time")
    assert [note.partition(": ")[0] for note in caught.value.__notes__] == [
        files[0].as_uri(), files[2].as_uri()
    ]  # fmt: skip
    assert "keep_going=True" in str(caught.value)
    assert files_below(root) == before
    report = zm.append(root, files, dim="time", keep_going=True)
    assert [each.location for each in report.refused] == [files[0].as_uri(), files[2].as_uri()]
    assert report.appended == [files[1].as_uri(), files[3].as_uri()]
    expected = xr.concat([dataset(day, 1) for day in (0, 1, 3, 4)], "time")
    xr.testing.assert_equal(opened(root, tmp_path), expected)
    # What was left out in between is not put there later.
    daily(tmp_path, 2)
    with pytest.raises(NotConvertibleError):
        zm.append(root, files[0], dim="time")


def test_if_all_fail_it_is_an_error(tmp_path: Path) -> None:
    root = archive(tmp_path, 1)
    with pytest.raises(SourceNotFoundError):
        zm.append(root, tmp_path / "absent.nc", dim="time", keep_going=True)


@pytest.mark.parametrize("is_kept", [False, True])
def test_files_are_parsed_in_parallel(tmp_path: Path, *, is_kept: bool) -> None:
    root = archive(tmp_path, 1)
    files = [daily(tmp_path, day) for day in range(1, 4)]
    for path in files:
        os.utime(path, (0, 0))  # young files have no scans
    scans = tmp_path / "scans" if is_kept else None
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as workers:
        report = zm.append(root, files, dim="time", parallel=workers, scans=scans)
    assert report.appended == [path.as_uri() for path in files]
    expected = xr.concat([dataset(day, 1) for day in range(4)], "time")
    xr.testing.assert_equal(opened(root, tmp_path), expected)
    assert len(files_below(tmp_path / "scans")) == (3 if is_kept else 0)


def test_what_is_loaded_is_converted(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.nc" for n in range(2)]
    for n, path in enumerate(files):
        given = dataset(n, 1).assign(when=("time", [2.0], {"units": f"days since 200{n}-01-01"}))
        given.to_netcdf(path, encoding={"time": {"units": "days since 2000-01-01"}})
    root = tmp_path / "all.zarr"
    write_hierarchy(root, read_files(files[0]))
    with pytest.raises(NotConvertibleError, match="can be converted if it is loaded"):
        zm.append(root, files[1], dim="time")
    with pytest.raises(NotConvertibleError, match="no file has a variable 'wen'"):
        zm.append(root, files[1], dim="time", loadable_variables=["wen"])
    options: dict[str, Any] = {"loadable_variables": ["when"], "allow": [tmp_path]}
    assert zm.append(root, files[1], dim="time", **options).arrays == 3
    found = opened(root, tmp_path)
    assert found["when"].values.astype("M8[D]").astype(str).tolist() == ["2000-01-03", "2001-01-03"]
    assert zm.append(root, files[1], dim="time", **options).there == [files[1].as_uri()]


def test_the_command_names_what_it_left_out(tmp_path: Path) -> None:
    root = archive(tmp_path, 2)
    files = [damaged(tmp_path, 2), daily(tmp_path, 3)]
    done = run("append", root, *files, "--dim", "time", "--keep-going", "--parallel", "threads")
    assert done.status == 1
    assert f"refused: {files[0].as_uri()}: " in done.stderr
    assert f"appended: {files[1].as_uri()}" in done.stdout
    done = run("append", root, *files, "--dim", "time", "--json")
    assert done.status == 3
    done = run("append", root, *files, "--dim", "time", "--keep-going", "--json")
    assert done.status == 1
    assert [each["location"] for each in done.document["refused"]] == [files[0].as_uri()]
    assert done.document["already_there"] == [files[1].as_uri()]


def test_the_command_says_which_option_lets_it_compare_what_has_no_such_dimension(
    tmp_path: Path,
) -> None:
    files = [tmp_path / f"{n}.nc" for n in range(2)]
    for n, path in enumerate(files):
        given = dataset(n, 1).assign(mask=(("x", "y"), [[1, 2], [3, 4]]))
        given.to_netcdf(path, encoding={"time": {"units": "days since 2000-01-01"}})
    root = tmp_path / "all.zarr"
    write_hierarchy(root, read_files(files[0]))
    done = run("append", root, files[1], "--dim", "time")
    assert done.status == 3
    assert "array: mask" in done.stderr
    option = f"--allow {tmp_path.as_uri()}/"
    assert f"add: {option}" in done.stderr
    assert run("append", root, files[1], "--dim", "time", *option.split()).status == 0
