"""Opening and reading a dataset on a web server 30 ms away, as xarray and dask do.

50 variables of 36 chunks each, interleaved in 12 objects like those of monthly files, and three
coordinates, which xarray reads when it opens the dataset. References hold these inline, as whoever
writes references has them. Everything is on the server but Icechunk's repository; native chunks are
an object each.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from benchmarks import cases
from benchmarks.cases import REQUESTS, Case, Group, Quantity, Task
from benchmarks.effort import Effort
from benchmarks.measuring import Measured, least
from benchmarks.participants import icechunk_repository
from benchmarks.participants.served_datasets import NATIVE_BY_URL, open_dataset
from benchmarks.remote_server import RemoteServer, running

LATENCY = 0.03
OBJECTS = 12
CHUNKS = 36
SIDE = 64
STEPS = 4  # in each chunk

_FIRST = Quantity("first", "s, first variable")
_NEW = Quantity("new", "s, in a new process")
_NEXT = Quantity("wall", "s, next variable")

COLUMNS = (cases.US, cases.NATIVE, cases.FSSPEC_JSON, cases.ICECHUNK)
_REQUIRES = ("xarray", "dask")
_REASONS = {
    cases.TENSORSTORE: "has no xarray engine",
    cases.FLOOR: "depends on how much is read together",
    **dict.fromkeys(
        (cases.NATIVE_FUSED, cases.VIRTUALIZARR, cases.FSSPEC_PARQUET),
        "is compared over one array, in the rows R",
    ),
}


def group(effort: Effort) -> Group:
    """Return the rows D."""
    one = f"one variable of {CHUNKS} chunks"
    few = {"time": slice(0, 3 * STEPS)}
    works: tuple[tuple[str, str, Callable[[Task], Measured]], ...] = (
        ("D none", f"{one}, `chunks=None`", partial(_read, None, 1, {})),
        ("D auto", f'{one}, `chunks="auto"`', partial(_read, "auto", 2, {})),
        ("D tasks", f"{one}, `chunks={{}}`, 2 threads", partial(_read, {}, 2, {})),
        ("D tasks 8", f"{one}, `chunks={{}}`, 8 threads", partial(_read, {}, 8, {})),
        ("D few", "3 chunks of a variable, `chunks={}`, 2 threads", partial(_read, {}, 2, few)),
    )
    quantities = (_FIRST, _NEXT, REQUESTS)
    return Group(
        "xarray",
        (
            *(
                Case(name, f"{name[:1]} {title}", quantities, run, COLUMNS, _REASONS, _REQUIRES)
                for name, title, run in works
            ),
            Case(
                "D turns",
                "D 10 variables of 12 chunks, one after the other, `chunks={}`, 4 threads",
                (cases.SECONDS, REQUESTS),
                _read_in_turn,
                COLUMNS,
                _REASONS,
                _REQUIRES,
            ),
            Case(
                "D each",
                f"D one chunk of each of {_variables(effort)} variables, `chunks=None`",
                (cases.SECONDS, REQUESTS),
                _read_each,
                COLUMNS,
                _REASONS,
                _REQUIRES,
            ),
            Case(
                "D open",
                f"D open {_variables(effort)} variables, then read one chunk",
                (_NEW, cases.SECONDS, REQUESTS),
                _open,
                COLUMNS,
                _REASONS,
                _REQUIRES,
            ),
            Case(
                "D open URL",
                f"D open {_variables(effort)} variables by URL, then read one chunk",
                (_NEW, cases.SECONDS, REQUESTS),
                _open_by_url,
                (cases.US, cases.NATIVE),
                _REASONS | dict.fromkeys(COLUMNS[2:], "is compared in the row above"),
                (*_REQUIRES, "fsspec", "aiohttp"),
            ),
        ),
        prepare,
    )


def _variables(effort: Effort) -> int:
    return effort.pick(50, 12)


def _values(number: int) -> Any:
    field = np.random.default_rng(number).normal(size=(SIDE, SIDE)).astype("<f4")
    return field + np.arange(CHUNKS * STEPS, dtype="<f4")[:, None, None]


def _coordinates() -> dict[str, Any]:
    shape = (CHUNKS * STEPS, SIDE, SIDE)
    return {name: np.arange(size) for name, size in zip(("time", "y", "x"), shape, strict=True)}


def _name(number: int) -> str:
    return f"v{number:02}"


# What everybody reads --------------------------------------------------------------------


@contextmanager
def prepare(directory: Path, effort: Effort) -> Iterator[None]:
    """Write the dataset for everybody, and serve it with and without latency."""
    with running(0.0) as unhurried, running(LATENCY) as server:
        for name, origin, count in (("warm", unhurried, 2), ("data", server, _variables(effort))):
            (directory / name).mkdir()
            _write(directory / name, f"{origin.url}/{name}/", count)
            (directory / name / "server.pickle").write_bytes(pickle.dumps(origin))
            origin.serve(directory)
        yield


def _write(directory: Path, url: str, count: int) -> None:
    import xarray

    places = _write_objects(directory, count)
    data = {_name(n): (("time", "y", "x"), _values(n)) for n in range(count)}
    encoding: dict[str, Any] = {name: {"compressors": None} for name in (*data, *_coordinates())}
    for name in data:
        encoding[name]["chunks"] = (STEPS, SIDE, SIDE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # consolidated metadata are not in the specification
        xarray.Dataset(data, _coordinates()).to_zarr(
            directory / "native.zarr", zarr_format=3, encoding=encoding, consolidated=True
        )
        _write_ours(directory, url, places)
    _write_reference_set(directory, url, places)
    _write_icechunk(directory, url, places)
    (directory / "places.json").write_text(
        json.dumps({"sources": url, "native": f"{url}native.zarr"})
    )


type _ChunkPlaces = dict[str, list[tuple[str, int, int]]]


def _write_objects(directory: Path, count: int) -> _ChunkPlaces:
    """Write the objects, and return the object, offset and length of each variable's chunks."""
    places: _ChunkPlaces = {_name(number): [] for number in range(count)}
    for month in range(OBJECTS):
        with (directory / f"{month:02}.bin").open("wb") as file:
            for number in range(count):
                per_object = CHUNKS // OBJECTS * STEPS
                values = _values(number)[month * per_object : (month + 1) * per_object]
                for chunk in np.split(values, CHUNKS // OBJECTS):
                    places[_name(number)].append((file.name, file.tell(), chunk.nbytes))
                    file.write(chunk.tobytes())
    return {
        name: [(Path(path).name, offset, length) for path, offset, length in chunks]
        for name, chunks in places.items()
    }


def _write_ours(directory: Path, url: str, places: _ChunkPlaces) -> None:
    from zarr_manifest import create_array, edit

    target = directory / "ours.zarr"
    zarr.create_group(target)
    for name, chunks in places.items():
        entries: dict[tuple[int, ...], dict[str, Any]] = {
            (number, 0, 0): {"path": path, "offset": offset, "length": length}
            for number, (path, offset, length) in enumerate(chunks)
        }
        create_array(
            target,
            name,
            entries,
            base=url,
            shape=(CHUNKS * STEPS, SIDE, SIDE),
            chunks=(STEPS, SIDE, SIDE),
            dtype="<f4",
            compressors=None,
            fill_value=float("nan"),
            dimension_names=("time", "y", "x"),
        )
    for name, values in _coordinates().items():
        create_array(
            target,
            name,
            {"0": {"data": values.astype("<i8").tobytes()}},
            shape=values.shape,
            chunks=values.shape,
            dtype="<i8",
            compressors=None,
            dimension_names=(name,),
        )
    with edit(target) as root:
        zarr.consolidate_metadata(root.store)


def _write_reference_set(directory: Path, url: str, places: _ChunkPlaces) -> None:
    refs: dict[str, Any] = {"zarr.json": (directory / "native.zarr" / "zarr.json").read_text()}
    for name, chunks in places.items():
        refs[f"{name}/zarr.json"] = (directory / "native.zarr" / name / "zarr.json").read_text()
        for number, (path, offset, length) in enumerate(chunks):
            refs[f"{name}/c/{number}/0/0"] = [url + path, offset, length]
    for name, values in _coordinates().items():
        refs[f"{name}/zarr.json"] = (directory / "native.zarr" / name / "zarr.json").read_text()
        encoded = base64.b64encode(values.astype("<i8").tobytes()).decode()
        refs[f"{name}/c/0"] = f"base64:{encoded}"
    (directory / "references.json").write_text(json.dumps({"version": 1, "refs": refs}))


def _write_icechunk(directory: Path, url: str, places: _ChunkPlaces) -> None:
    try:
        import icechunk
    except ImportError:
        return
    session = icechunk_repository.create_empty(directory, url)
    native: Any = zarr.open_group(directory / "native.zarr", mode="r")
    target = zarr.create_group(session.store)
    for name, chunks in places.items():
        target.create_array(
            name,
            shape=native[name].shape,
            chunks=native[name].chunks,
            dtype="<f4",
            compressors=None,
            fill_value=float("nan"),
            dimension_names=("time", "y", "x"),
        )
        specs = [
            icechunk.VirtualChunkSpec([number, 0, 0], url + path, offset, length)
            for number, (path, offset, length) in enumerate(chunks)
        ]
        session.store.set_virtual_refs(name, specs)
    for name, values in _coordinates().items():
        target.create_array(
            name, data=values.astype("<i8"), compressors=None, dimension_names=(name,)
        )
    session.commit("references")


# What is measured ------------------------------------------------------------------------


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _check(number: int, found: Any) -> None:
    # float32 sums depend on their order.
    np.testing.assert_allclose(found, _values(number)[: len(found)].mean(axis=(1, 2)), rtol=1e-3)


def _mean(dataset: Any, number: int, part: dict[str, slice]) -> None:
    found = dataset[_name(number)].isel(part).mean(("y", "x")).load()
    _check(number, found.values)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    import dask

    with (
        ThreadPoolExecutor(count) as pool,
        dask.config.set(scheduler="threads", pool=pool, num_workers=count),
    ):
        yield


def _read(chunks: Any, threads: int, part: dict[str, slice], task: Task) -> Measured:
    """Read one variable of a dataset that has just been opened, and then another."""
    server: RemoteServer = pickle.loads((task.directory / "data" / "server.pickle").read_bytes())
    with _threads(threads):
        _mean(open_dataset(task.column, task.directory / "warm", chunks), 0, part)
        measured = []
        for _ in task.effort.rounds():
            opened = open_dataset(task.column, task.directory / "data", chunks)
            server.clear()
            first = _timed(partial(_mean, opened, 1, part))
            requests = len(server.requests)
            others = [_timed(partial(_mean, opened, number, part)) for number in range(2, 6)]
            measured.append({"first": first, "wall": min(others), "requests": requests})
    return least(measured)


def _read_in_turn(task: Task) -> Measured:
    server: RemoteServer = pickle.loads((task.directory / "data" / "server.pickle").read_bytes())
    part = {"time": slice(0, 12 * STEPS)}

    def read(directory: Path, count: int) -> None:
        opened = open_dataset(task.column, directory, {})
        for number in range(count):
            _mean(opened, number, part)

    measured = []
    with _threads(4):
        read(task.directory / "warm", 1)
        for _ in task.effort.rounds():
            server.clear()
            wall = _timed(lambda: read(task.directory / "data", 10))
            measured.append({"wall": wall, "requests": len(server.requests)})
    return least(measured)


def _read_each(task: Task) -> Measured:
    """Load a time step of a dataset that has just been opened."""
    server: RemoteServer = pickle.loads((task.directory / "data" / "server.pickle").read_bytes())

    def opened(directory: Path) -> Any:
        return open_dataset(task.column, directory, None).isel(time=0)

    opened(task.directory / "warm").load()
    measured = []
    for _ in task.effort.rounds():
        step = opened(task.directory / "data")
        server.clear()
        wall = _timed(step.load)
        measured.append({"wall": wall, "requests": len(server.requests)})
        for number in (0, 1, _variables(task.effort) - 1):
            np.testing.assert_array_equal(step[_name(number)], _values(number)[0])
    return least(measured)


def _open_and_read(column: str, directory: Path) -> None:
    opened = open_dataset(column, directory, None)
    found = opened[_name(1)].isel(time=slice(0, STEPS)).load()
    _check(1, found.values.mean(axis=(1, 2)))


# Garbage of the imports before is collected in advance: it takes as long as what is measured, and
# nobody can say when it would happen.
_PROGRAM = """
import gc, json, os, pathlib, sys, time, warnings
warnings.simplefilter("ignore")
import dask, xarray, zarr
from benchmarks.participants.served_datasets import open_dataset
column, directory, name, steps = sys.argv[1:]
gc.collect()
start = time.perf_counter()
opened = open_dataset(column, pathlib.Path(directory), None)
found = opened[name].isel(time=slice(0, int(steps))).load()
seconds = time.perf_counter() - start
print(json.dumps([seconds, found.values.mean(axis=(1, 2)).tolist()]), flush=True)
os._exit(0)  # obstore may abort a process that ends
"""


def _open_in_new_process(column: str, directory: Path) -> float:
    """Return the seconds of a process that has imported zarr, xarray and dask, and nothing else."""
    # Users do not wait for compilation, which would happen if bytecode could not be written.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _PROGRAM, column, str(directory), _name(1), str(STEPS)]
    seconds, found = json.loads(subprocess.check_output(command, text=True, env=environment))
    _check(1, np.array(found))
    return float(seconds)


def _open_by_url(task: Task) -> Measured:
    """Do the same as people do who have nothing but a URL; ours is opened by one in any case."""
    is_native = task.column == cases.NATIVE
    return _open(replace(task, column=NATIVE_BY_URL) if is_native else task)


def _open(task: Task) -> Measured:
    """Open and read a chunk: in new processes, and again in this one."""
    server: RemoteServer = pickle.loads((task.directory / "data" / "server.pickle").read_bytes())
    data = task.directory / "data"
    new = [_open_in_new_process(task.column, data) for _ in range(task.effort.pick(6, 2))]
    _open_and_read(task.column, task.directory / "warm")
    server.clear()
    again = [_timed(lambda: _open_and_read(task.column, data))]
    requests = len(server.requests)
    again += [_timed(lambda: _open_and_read(task.column, data)) for _ in task.effort.rounds()]
    return {"new": min(new), "wall": min(again), "requests": requests}
