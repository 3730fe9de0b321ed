"""Many files, many processes: killed, at once, and on the workers of others."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.conversion.files.scanning.scanned_files import documents, write_days
from tests.hierarchies import files_below
from tests.properties import THOROUGH
from zarr_manifest.conversion import ScanReport, read_files, scan_files, write_hierarchy
from zarr_manifest.conversion.files import reading
from zarr_manifest.conversion.files.scanning import Scan

pytestmark = pytest.mark.slow

_CREATE = """
import sys
from zarr_manifest.conversion import read_files, write_hierarchy
files, scans, root = sys.argv[1:]
write_hierarchy(root, read_files(files, concat_dim="time", override=["crs"], scans=scans))
"""


def _create(directory: Path, scans: Path, root: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _CREATE, f"{directory}/*.nc", str(scans), str(root)]
    return subprocess.Popen(command)


def test_killed_again_and_again_and_resumed(tmp_path: Path) -> None:
    count, kills = (56, 5) if THOROUGH else (24, 2)
    files = write_days(tmp_path / "days", count)
    scans = tmp_path / "scans"
    for kill in range(1, kills + 1):
        process = _create(tmp_path / "days", scans, tmp_path / "h.zarr")
        while len(documents(scans)) < kill * count // (kills + 2):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert len(documents(scans)) < count
    assert _create(tmp_path / "days", scans, tmp_path / "h.zarr").wait() == 0
    expected = tmp_path / "expected.zarr"
    write_hierarchy(expected, read_files(files, concat_dim="time", override=["crs"]))
    assert files_below(tmp_path / "h.zarr") == files_below(expected)


def test_several_processes_scan_into_one_place(tmp_path: Path) -> None:
    write_days(tmp_path / "days", 12)
    roots = [tmp_path / f"{number}.zarr" for number in range(3 if THOROUGH else 2)]
    started = [_create(tmp_path / "days", tmp_path / "scans", root) for root in roots]
    assert [process.wait() for process in started] == [0] * len(roots)
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
    options: dict[str, Any] = {"concat_dim": "time", "override": ["crs"]}
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        parallel: Any = pool if how == "processes" else "dask"
        found = list(read_files(files, scans=tmp_path / "scans", parallel=parallel, **options))
    assert [scan.document for scan in returned] == [None] * 6
    assert found[1:] == list(read_files(files, **options))[1:]
    assert scan_files(files, tmp_path / "scans") == ScanReport(found=6)
