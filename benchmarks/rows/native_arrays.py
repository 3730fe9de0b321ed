"""Native arrays through our store, and without it: times of reading, opening and listing; requests.

Both are measured in turn in one process, because the difference is to be at most a few per cent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore

from benchmarks import cases
from benchmarks.cases import MILLISECONDS, REQUESTS, Case, Group, Quantity, Task
from benchmarks.chunks import write_chunks
from benchmarks.counted_store import CountedStore
from benchmarks.effort import Effort
from benchmarks.measuring import Measured, least, measure
from benchmarks.participants import PARTICIPANTS
from zarr_manifest import ManifestStore

COLUMNS = (cases.US, cases.NATIVE)
REASONS = dict.fromkeys(
    (column for column in cases.COLUMNS if column not in COLUMNS),
    "native arrays through our store are compared with zarr's own",
)
CPU_MILLISECONDS = Quantity("cpu", "CPU ms", 1e3)
WITHOUT = Quantity("without", "CPU ms without it, in turn", 1e3)
ARRAYS = 200
_CHUNKS = "chunks"
_ARRAYS = "arrays"


def group(effort: Effort) -> Group:
    count = effort.pick(1000, 100)
    timed = (MILLISECONDS, CPU_MILLISECONDS, WITHOUT)
    appended = (REQUESTS, Quantity("later", "requests, once more"))
    return Group(
        "native",
        (
            _case("R5 read", f"R5 native array, read {count:,} x 64 KiB", timed, _read),
            _case("R5 open", f"R5 open a group of {ARRAYS} native arrays", timed, _open_members),
            _case("R5 list", f"R5 list {count:,} native chunks", timed, _list),
            Case("R5 append", "R5 append, native array", appended, _append, COLUMNS, REASONS),
        ),
        prepare,
    )


def _case(
    name: str, title: str, quantities: tuple[Quantity, ...], action: Callable[[Store], object]
) -> Case:
    return Case(name, title, quantities, partial(_compare, action), COLUMNS, REASONS)


@contextmanager
def prepare(directory: Path, effort: Effort) -> Iterator[None]:
    (directory / _CHUNKS).mkdir()
    write_chunks(directory / _CHUNKS, (effort.pick(1000, 100), 128, 128), objects=1)
    root = zarr.create_group(directory / _ARRAYS)
    for number in range(ARRAYS):
        root.create_array(f"variable-{number:03}", shape=10, chunks=10, dtype="f4")
    yield


def _read(store: Store) -> None:
    zarr.open_array(store, path=f"{_CHUNKS}/native.zarr/data", mode="r")[:]


def _open_members(store: Store) -> None:
    found = dict(zarr.open_group(store, path=_ARRAYS, mode="r", use_consolidated=False).members())
    assert len(found) == ARRAYS, len(found)


def _list(store: Store) -> None:
    async def collect() -> list[str]:
        return [key async for key in store.list_prefix(f"{_CHUNKS}/native.zarr/data/c")]

    assert sync(collect())


def _compare(action: Callable[[Store], object], task: Task) -> Measured:
    """Do it without our store, and, unless that is the column, through it in turn."""
    PARTICIPANTS[task.column].configure()
    plain = LocalStore(task.directory, read_only=True)
    if task.column == cases.NATIVE:
        action(plain)
        return _least_of(partial(action, plain), task.effort)
    ours = ManifestStore(task.directory)
    action(plain)
    action(ours)
    without, through = [], []
    # So few that a process takes a moment: what differs from one to the next is more than that.
    for _ in range(task.effort.pick(5, 2)):
        without.append(measure(partial(action, plain)))
        through.append(measure(partial(action, ours)))
    return {**least(through), "without": least(without)["cpu"]}


def _least_of(action: Callable[[], object], effort: Effort) -> Measured:
    return least([measure(action) for _ in effort.rounds()])


def _append(task: Task) -> Measured:
    """Count what is asked of the store underneath; the array is opened before."""
    PARTICIPANTS[task.column].configure()
    counted = CountedStore(MemoryStore())
    values: Any = np.arange(10, dtype="<i4")
    zarr.create_group(counted).create_array("data", data=values, chunks=(10,))
    store: Store = counted if task.column == cases.NATIVE else ManifestStore(counted)
    array: Any = zarr.open_group(store, mode="r+")["data"]
    taken: Measured = {}
    for name in ("requests", "later"):
        counted.requests.clear()
        array.append(values)
        taken[name] = len(counted.requests)
    return taken
