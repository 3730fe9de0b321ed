"""Many files, many processes: killed, at once, and on the workers of others."""

from __future__ import annotations

import pickle
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.conversion.files.scanned_files import age, documents, write_days
from tests.hierarchies import files_below
from tests.processes import CONTEXT
from tests.properties import THOROUGH
from zarr_manifest.conversion import Scan, ScanReport, read_files, scan_files, write_hierarchy
from zarr_manifest.conversion.files import reading, scanning

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"concat_dim": "time", "override": ["crs"]}


def _create(directory: Path, scans: Path, root: Path) -> None:
    write_hierarchy(root, read_files(f"{directory}/*.nc", scans=scans, **OPTIONS))


def _creating(*arguments: Path) -> Any:
    process = CONTEXT.Process(target=_create, args=arguments)
    process.start()
    return process


def test_killed_again_and_again_and_resumed(tmp_path: Path) -> None:
    count, kills = (56, 5) if THOROUGH else (24, 2)
    files = write_days(tmp_path / "days", count)
    scans = tmp_path / "scans"
    for kill in range(1, kills + 1):
        process = _creating(tmp_path / "days", scans, tmp_path / "h.zarr")
        while len(documents(scans)) < kill * count // (kills + 2):
            assert process.is_alive()
            time.sleep(0.005)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert len(documents(scans)) < count
    _create(tmp_path / "days", scans, tmp_path / "h.zarr")
    expected = tmp_path / "expected.zarr"
    write_hierarchy(expected, read_files(files, **OPTIONS))
    assert files_below(tmp_path / "h.zarr") == files_below(expected)


def test_several_processes_scan_into_one_place(tmp_path: Path) -> None:
    write_days(tmp_path / "days", 12)
    roots = [tmp_path / f"{number}.zarr" for number in range(3 if THOROUGH else 2)]
    started = [_creating(tmp_path / "days", tmp_path / "scans", root) for root in roots]
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * len(roots)
    first, *others = map(files_below, roots)
    assert all(other == first for other in others)
    assert len(documents(tmp_path / "scans")) == 12


@pytest.mark.parametrize("how", ["processes", "dask"])
def test_workers_keep_scans_and_return_their_names(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_days(tmp_path / "days", 6)
    returned: list[Scan] = []
    opened_scan = reading.opened_scan

    def watched(scan: Scan, work: Any) -> Any:
        returned.append(scan)
        return opened_scan(scan, work)

    monkeypatch.setattr(reading, "opened_scan", watched)
    with ProcessPoolExecutor(2, CONTEXT) as pool:
        parallel: Any = pool if how == "processes" else "dask"
        found = list(read_files(files, scans=tmp_path / "scans", parallel=parallel, **OPTIONS))
    assert [scan.document for scan in returned] == [None] * 6
    assert found[1:] == list(read_files(files, **OPTIONS))[1:]
    assert scan_files(files, tmp_path / "scans") == ScanReport(found=6)


def test_what_dask_returns_does_not_grow_with_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: dict[str, int] = {}
    keep_scan = scanning.keep_scan

    def watched(file: Any, work: Any) -> Any:
        made = keep_scan(file, work)
        sizes[Path(file.url).name] = len(pickle.dumps(made))
        return made

    monkeypatch.setattr(scanning, "keep_scan", watched)
    for name, chunk in (("1.nc", 4000), ("4.nc", 1)):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("sst", data=np.zeros(4000, "i1"), chunks=(chunk,))
        age(tmp_path / name)
    scan_files(sorted(tmp_path.glob("*.nc")), tmp_path / "scans", parallel="dask")
    assert sizes["1.nc"] == sizes["4.nc"] < 500
    stored = sorted(path.stat().st_size for path in documents(tmp_path / "scans"))
    assert stored[1] > 5 * stored[0]
