"""How long does the conversion of a file with many small datasets take, such as MATLAB writes?

CPU time for each dataset: ours to a hierarchy, kerchunk's to a JSON file, and VirtualiZarr's to
objects in memory. It should not grow with their number.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import numpy as np

from benchmarks.effort import Effort
from benchmarks.layout import Table, number
from zarr_manifest.conversion import read_files, write_hierarchy


def run(effort: Effort) -> Iterator[Table]:
    table = Table(
        ("datasets", "ours, ms", "kerchunk, ms", "VirtualiZarr's parser, ms"),
        title="CPU time for each dataset of an HDF5 file",
    )
    with TemporaryDirectory() as directory:
        path = Path(directory, "many.h5")
        for count in effort.pick((500, 2000, 15_000), (100, 400)):
            _write(path, count)
            ways = (_ours, _kerchunk, _virtual)
            for way in ways:
                way(path)  # what is imported or cached first is not counted
            each = (_cpu_seconds(way, path) / count * 1e3 for way in ways)
            table.add(f"{count:,}", *map(number, each))
    yield table


def _write(path: Path, count: int) -> None:
    with h5py.File(path, "w", userblock_size=512) as file:
        group = file.create_group("#refs#")
        for index in range(count):
            dataset = group.create_dataset(f"d{index}", data=np.arange(4.0).reshape(1, 4))
            dataset.attrs["MATLAB_class"] = np.bytes_("double")


def _cpu_seconds(way: Callable[[Path], Any], path: Path) -> float:
    start = time.process_time()
    way(path)
    return time.process_time() - start


def _ours(path: Path) -> None:
    with TemporaryDirectory(dir=path.parent) as target:
        write_hierarchy(Path(target, "many.zarr"), read_files(path))


def _kerchunk(path: Path) -> None:
    from kerchunk.hdf import SingleHdf5ToZarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = SingleHdf5ToZarr(str(path), inline_threshold=0).translate()
    path.with_suffix(".json").write_text(json.dumps(found))


def _virtual(path: Path) -> Any:
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import HDFParser

    return HDFParser()(path.as_uri(), ObjectStoreRegistry({"file://": LocalStore()}))
