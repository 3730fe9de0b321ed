"""Reading through xarray and dask: each task is a selection of its own.

The tasks add up what they read, because sending it between processes would cost more than reading.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks import cases
from benchmarks.cases import Task
from benchmarks.chunks import total
from benchmarks.measuring import Measured, repeat
from benchmarks.participants import PARTICIPANTS
from benchmarks.participants.xarray_datasets import open_lazily
from benchmarks.references import References

COLUMNS = tuple(column for column in cases.COLUMNS if column not in (cases.TENSORSTORE,))
REASONS = {cases.TENSORSTORE: "has no xarray engine"}
REQUIRES = ("xarray", "dask")
WORKERS = 2


def read_in_threads(name: str, chunks: dict[str, int], task: Task) -> Measured:
    with ThreadPoolExecutor(WORKERS) as pool:
        return _read(name, chunks, task, "threads", pool)


def read_in_processes(name: str, chunks: dict[str, int], task: Task) -> Measured:
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        return _read(name, chunks, task, "processes", pool)


def adding(name: str, chunks: dict[str, int], task: Task) -> Callable[[], int]:
    """Return what opens lazily, reads and adds up all values."""
    PARTICIPANTS[task.column].configure()
    directory = task.directory / name
    if task.column == cases.FLOOR:
        array = PARTICIPANTS[task.column].open(directory)
        return lambda: int(np.sum(array[:], dtype=np.int64))
    lazy = open_lazily(task.column, directory, chunks)
    return lambda: int(lazy.sum(dtype=np.int64).compute())


def _read(
    name: str, chunks: dict[str, int], task: Task, scheduler: str, pool: Executor
) -> Measured:
    import dask

    expected = total(References.load(task.directory / name))
    with dask.config.set(scheduler=scheduler, pool=pool):
        add: Any = adding(name, chunks, task)
        if (found := add()) != expected:
            raise AssertionError(f"the sum is {found}, not {expected}")
        return repeat(add, task.effort.rounds())
