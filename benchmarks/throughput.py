"""Local files: the same chunks through a manifest and natively, the whole array at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.datasets import Dataset, write_dataset
from benchmarks.readers import ReadableArray, readers_for
from benchmarks.tables import Table, mebibytes, milliseconds, ratio
from benchmarks.timing import interleaved

BASELINE = "zarr LocalStore"
SIZES = ((4000, 4 * 1024), (1000, 64 * 1024), (128, 1024 * 1024))


def run(quick: bool) -> Iterator[Table]:
    for chunks, chunk_bytes in SIZES:
        with TemporaryDirectory() as directory:
            dataset = write_dataset(Path(directory), chunks // (4 if quick else 1), chunk_bytes)
            yield compare(dataset, rounds=3 if quick else 11)


def compare(dataset: Dataset, rounds: int) -> Table:
    arrays = {reader.name: reader.open(dataset) for reader in readers_for(dataset)}
    expected = arrays[BASELINE][:]
    for name, array in arrays.items():
        np.testing.assert_array_equal(array[:], expected, err_msg=name)
    times = interleaved({name: partial(read, array) for name, array in arrays.items()}, rounds)
    table = Table(
        f"Local files, {dataset.chunks} chunks of {dataset.chunk_bytes // 1024} KiB "
        f"(ratio of times: below 1 is faster than {BASELINE})",
        ("reader", "time", "throughput", "ratio"),
    )
    total = dataset.chunks * dataset.chunk_bytes
    for name, taken in times.items():
        table.add(
            name,
            milliseconds(taken.median),
            f"{mebibytes(total / taken.median)}/s",
            ratio(taken.ratio(times[BASELINE])),
        )
    return table


def read(array: ReadableArray) -> None:
    array[:]
