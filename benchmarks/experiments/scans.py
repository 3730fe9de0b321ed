"""What do kept scans cost, and save? Many small files, and a process that is killed on the way.

CPU time for each file: to scan it, and to use the scan that is kept, combining included. The
process is killed five times at random, the last time while it combines, and resumed. The result
has to be that of a process that found all scans, byte for byte, within the memory that the goal
allows.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import h5py
import numpy as np

from benchmarks.effort import Effort
from benchmarks.goals import MET, NOT_MET
from benchmarks.layout import Table, number
from benchmarks.runner import to_stderr
from tests.hierarchies import files_below

_KILLS = 5
_MOST_MEGABYTES = 3000

# A value that is replaced in the bytes of a file, which HDF5 stores as they are.
_MARK = 12345.678

_CREATE = """
import sys
from zarr_manifest.conversion import read_files, write_hierarchy
files, root, *scans = sys.argv[1:]
nodes = read_files(files, concat_dim="time", scans=scans[0] if scans else None)
write_hierarchy(root, nodes, overwrite=True)  # it may have been killed once all was written
"""
_SCAN = """
import sys
from zarr_manifest.conversion import scan_files
scan_files(*sys.argv[1:])
"""


class Process(NamedTuple):
    """A process that has ended: its CPU time in seconds, and its peak memory in megabytes."""

    cpu: float
    megabytes: float


def run(effort: Effort) -> Iterator[Table]:
    count = effort.pick(100_000 if effort.huge else 30_000, 300)
    with TemporaryDirectory() as name:
        directory = Path(name)
        size = _write_files(directory / "files", count)
        files = f"{directory}/files/*.nc"
        to_stderr(f"{count:,} files written")
        one = _run(_SCAN, f"{directory}/files/0000000.nc", directory / "one")
        some = f"{directory}/files/0000[0-4]*.nc"
        scanning = _run(_SCAN, some, directory / "some")
        scanned = len(list((directory / "files").glob("0000[0-4]*.nc")))
        ended = list(_interrupted(files, directory / "resumed.zarr", directory / "scans", count))
        using = _run(_CREATE, files, directory / "used.zarr", directory / "scans")
        same = files_below(directory / "resumed.zarr") == files_below(directory / "used.zarr")
        stored = sum(path.stat().st_size for path in _documents(directory / "scans"))
    table = Table(
        ("", "files", "CPU ms/file", "peak MB"),
        title=f"{count:,} files of {size:,} B; {stored / count:,.0f} B a scan",
    )
    for what, processes, of in (
        ("scan", [scanning], scanned),
        (f"create, killed {_KILLS} times: all runs", ended, count),
        ("create, all scans kept", [using], count),
    ):
        seconds = sum(each.cpu - one.cpu for each in processes)
        peak = max(each.megabytes for each in processes)
        table.add(what, f"{of:,}", number(seconds / of * 1e3), number(peak))
    yield table
    goals = Table(("goal", "bound", "ours", "verdict"), title="Goals")
    megabytes = max(each.megabytes for each in (scanning, using, *ended))
    verdict = MET if megabytes <= _MOST_MEGABYTES else NOT_MET
    goals.add("peak memory", f"≤ {_MOST_MEGABYTES:,} MB", f"{number(megabytes)} MB", verdict)
    goals.add(
        "resumed: equal byte for byte", "yes", "yes" if same else "no", MET if same else NOT_MET
    )
    yield goals


def _write_files(directory: Path, count: int) -> int:
    """Write files that differ in one value; return their size."""
    directory.mkdir()
    template = directory / "template"
    with h5py.File(template, "w") as file:
        steps = file.create_dataset("time", data=[_MARK])
        steps.make_scale("time")
        steps.attrs["units"] = "days since 2000-01-01"
        lat = file.create_dataset("lat", data=np.arange(4.0))
        lat.make_scale("lat")
        sst = file.create_dataset("sst", data=np.ones((1, 4), "f4"), chunks=(1, 4))
        sst.dims[0].attach_scale(steps)
        sst.dims[1].attach_scale(lat)
        sst.attrs["units"] = "K"
    body = template.read_bytes()
    template.unlink()
    mark = np.float64(_MARK).tobytes()
    for day in range(count):
        path = directory / f"{day:07}.nc"
        path.write_bytes(body.replace(mark, np.float64(day).tobytes()))
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return len(body)


def _start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)])


def _ended(process: subprocess.Popen[bytes], expected: int) -> Process:
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != expected:
        raise RuntimeError(f"a process ended with {process.returncode}, not {expected}")
    return Process(used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)


def _run(code: str, *arguments: object) -> Process:
    return _ended(_start(code, *arguments), 0)


def _interrupted(files: str, root: Path, scans: Path, count: int) -> Iterator[Process]:
    """Create a hierarchy, killed on the way when so many scans are kept; yield each process."""
    for kept in (*sorted(random.sample(range(count), _KILLS - 1)), count):
        process = _start(_CREATE, files, root, scans)
        while sum(1 for _ in _documents(scans)) < kept:
            # Counting takes time, too.
            time.sleep(max(0.1, count / 20_000))
        process.send_signal(signal.SIGKILL)
        yield _ended(process, -signal.SIGKILL)
        to_stderr(f"killed when {sum(1 for _ in _documents(scans)):,} scans were kept")
    yield _run(_CREATE, files, root, scans)


def _documents(scans: Path) -> Iterator[Path]:
    return scans.glob("*/*")
