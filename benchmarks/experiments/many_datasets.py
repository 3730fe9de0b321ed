"""How long does the conversion of a file with many small datasets take, such as MATLAB writes?

CPU time for each dataset: ours to a hierarchy, kerchunk's to a JSON file, and VirtualiZarr's to
objects in memory. Ours is at most kerchunk's, and does not grow with their number.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np

from benchmarks.effort import Effort
from benchmarks.goals import MET, NOT_MET
from benchmarks.layout import Table, number
from zarr_manifest.conversion import read_files, write_hierarchy

# What ours may take relative to kerchunk, and for a dataset of the largest file relative to the
# smallest.
_GOAL, _GROWTH_GOAL = 1.0, 1.2

type _Way = Callable[[Path, Path], object]


def run(effort: Effort) -> Iterator[Table]:
    table = Table(
        ("datasets", "ours, ms", "kerchunk, ms", "VirtualiZarr's parser, ms", "ours / kerchunk"),
        title="CPU time for each dataset of an HDF5 file",
    )
    ways = (_ours, _kerchunk, _virtual)
    _measured(ways, 10, 1)  # what is imported or cached first is not counted
    ours: list[float] = []
    ratios: list[float] = []
    for count in effort.pick((500, 2000, 15_000), (100, 1000)):
        each = _measured(ways, count, 3 if count <= 2000 else 1)
        ours.append(each[0])
        ratios.append(each[0] / each[1])
        table.add(f"{count:,}", *map(number, each), number(ratios[-1]))
    yield table
    goals = Table(("goal", "bound", "ours", "verdict"), title="Goals")
    for text, bound, value in (
        ("CPU time relative to kerchunk", _GOAL, max(ratios)),
        ("CPU time of a dataset: largest file / smallest", _GROWTH_GOAL, ours[-1] / ours[0]),
    ):
        verdict = MET if value <= bound else NOT_MET
        goals.add(text, f"≤ {number(bound)} x", f"{number(value)} x", verdict)
    yield goals


def _measured(ways: Sequence[_Way], count: int, passes: int) -> list[float]:
    """Return the CPU time for each of so many datasets, in milliseconds: the least of passes."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "many.h5")
        _write(path, count)
        times: list[list[float]] = [[] for _ in ways]
        for number_of_pass in range(passes):
            for way, found in zip(ways, times, strict=True):
                target = Path(directory, f"{way.__name__}-{number_of_pass}")
                target.mkdir()
                start = time.process_time()
                way(path, target)
                found.append(time.process_time() - start)
    return [min(found) / count * 1e3 for found in times]


def _write(path: Path, count: int) -> None:
    with h5py.File(path, "w", userblock_size=512) as file:
        group = file.create_group("#refs#")
        for index in range(count):
            dataset = group.create_dataset(f"d{index}", data=np.arange(4.0).reshape(1, 4))
            dataset.attrs["MATLAB_class"] = np.bytes_("double")


def _ours(path: Path, target: Path) -> None:
    write_hierarchy(target / "many.zarr", read_files(path))


def _kerchunk(path: Path, target: Path) -> None:
    from kerchunk.hdf import SingleHdf5ToZarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = SingleHdf5ToZarr(str(path), inline_threshold=0).translate()
    (target / "many.json").write_text(json.dumps(found))


def _virtual(path: Path, _: Path) -> object:
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import HDFParser

    return HDFParser()(path.as_uri(), ObjectStoreRegistry({"file://": LocalStore()}))
