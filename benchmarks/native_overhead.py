"""The overhead of ManifestStore for a native array, which it only passes through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import zarr
from obstore.store import LocalStore as ObstoreLocalStore
from zarr.abc.store import Store
from zarr.storage import LocalStore, ObjectStore

from benchmarks.datasets import write_dataset
from benchmarks.readers import ReadableArray
from benchmarks.tables import Table, milliseconds, ratio
from benchmarks.throughput import read
from benchmarks.timing import interleaved
from zarr_manifest import ManifestStore

SIZES = ((4000, 4 * 1024), (1000, 64 * 1024))


def run(quick: bool) -> Iterator[Table]:
    table = Table(
        "A native array, through ManifestStore and without (ratio of times)",
        ("store within", "chunks", "without", "through", "ratio"),
    )
    for chunks, chunk_bytes in SIZES:
        with TemporaryDirectory() as directory:
            dataset = write_dataset(Path(directory), chunks // (4 if quick else 1), chunk_bytes)
            stores: dict[str, Callable[[str], Store]] = {
                "LocalStore": partial(LocalStore, read_only=True),
                "ObjectStore": lambda p: ObjectStore(ObstoreLocalStore(p), read_only=True),
            }
            for name, make in stores.items():
                times = interleaved(
                    {
                        "without": partial(read, open_data(make(dataset.native))),
                        "through": partial(read, open_data(ManifestStore(make(dataset.native)))),
                    },
                    rounds=3 if quick else 9,
                )
                table.add(
                    name,
                    f"{dataset.chunks} x {chunk_bytes // 1024} KiB",
                    milliseconds(times["without"].median),
                    milliseconds(times["through"].median),
                    ratio(times["through"].ratio(times["without"])),
                )
    yield table


def open_data(store: Store) -> ReadableArray:
    return zarr.open_array(store, path="data", mode="r")
