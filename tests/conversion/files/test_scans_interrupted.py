"""Many files, many processes: killed, at once, and on the workers of others."""

from __future__ import annotations

import pickle
import signal
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.conversion.files.scanned_files import age, documents, write_days
from tests.hierarchies import files_below
from tests.processes import CONTEXT
from tests.properties import THOROUGH
from zarr_manifest.conversion import ScanReport, read_files, scan_files, write_hierarchy

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
def test_workers_keep_scans(tmp_path: Path, how: str) -> None:
    files = write_days(tmp_path / "days", 6)
    with ProcessPoolExecutor(2, CONTEXT) as pool:
        parallel: Any = pool if how == "processes" else "dask"
        found = list(read_files(files, scans=tmp_path / "scans", parallel=parallel, **OPTIONS))
    assert found[1:] == list(read_files(files, **OPTIONS))[1:]
    assert scan_files(files, tmp_path / "scans") == ScanReport(found=6)


class Watched(ThreadPoolExecutor):
    """Keeps what is sent back of each call, were it made in another process."""

    def __init__(self) -> None:
        super().__init__(1)
        self.returned: list[Future[Any]] = []

    def submit(self, call: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        self.returned.append(super().submit(call, *arguments, **options))
        return self.returned[-1]


def test_what_workers_return_does_not_grow_with_references(tmp_path: Path) -> None:
    for name, chunk in (("1.nc", 4000), ("4.nc", 1)):
        with h5py.File(tmp_path / name, "w") as file:
            file.create_dataset("sst", data=np.zeros(4000, "i1"), chunks=(chunk,))
        age(tmp_path / name)
    with Watched() as pool:
        scan_files(sorted(tmp_path.glob("*.nc")), tmp_path / "scans", parallel=pool)
    few, many = (len(pickle.dumps(each.result())) for each in pool.returned)
    assert few == many < 500
    stored = sorted(path.stat().st_size for path in documents(tmp_path / "scans"))
    assert stored[1] > 5 * stored[0]
