"""Many processes append the same files at once: each file is there once, and in its order."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from obstore.store import S3Store
from zarr.abc.store import Store
from zarr.storage import LocalStore, ObjectStore

import zarr_manifest as zm
from tests.processes import CONTEXT
from tests.properties import THOROUGH
from tests.servers.s3 import S3Server
from zarr_manifest.conversion import Node, read_files, write_hierarchy

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Consolidated metadata")]

# Fewer, where each takes long: the thorough tier appends them all.
DAYS, PROCESSES, KILLS = (80, 8, 8) if THOROUGH else (8, 3, 4)

# Files that each of the processes appends at a time: some of them are there already by then.
BATCHES = [max(1, DAYS // share) for share in (8, 2, 5, 4, 4, 3, 3, 2)[:PROCESSES]]

type Place = tuple[str, dict[str, Any]]
"""A directory; or the URL of a bucket, and how it is opened."""


def store_at(place: Place) -> Store:
    where, options = place
    return ObjectStore(S3Store.from_url(where, **options)) if options else LocalStore(where)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "directory":
        return str(tmp_path / "all.zarr"), {}
    server: S3Server = request.getfixturevalue("s3_server")
    bucket: str = request.getfixturevalue("s3_bucket")
    return f"s3://{bucket}/all.zarr", server.options


def day(number: int) -> xr.Dataset:
    values = np.arange(6, dtype="i4").reshape(1, 2, 3) + 10 * number
    return xr.Dataset(
        {"v": (("time", "y", "x"), values), "name": ("y", [1, 2])},
        coords={"time": ("time", [float(number)])},
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[Node]]]:
    """A directory of files, one for each day, and what is in each."""
    root = tmp_path_factory.mktemp("days")
    found: list[list[Node]] = []
    for number in range(DAYS):
        path = root / f"{number:03d}.nc"
        day(number).to_netcdf(path, unlimited_dims=["time"], encoding={"v": {"zlib": True}})
        found.append(list(read_files(path)))
    return root, found


def append_all(
    place: Place, files: Sequence[list[Node]], batch: int, allow: Path, meeting: Any, answers: Any
) -> None:
    if meeting is not None:
        meeting.wait(60)
    appended = 0
    for start in range(0, len(files), batch):
        some = files[start : start + batch]
        report = zm.append(store_at(place), some, dim="time", allow=[allow])
        assert len(report.appended) + len(report.there) == len(some)
        appended += len(report.appended)
    answers.put(appended)


def process(*arguments: Any) -> Any:
    started = CONTEXT.Process(target=append_all, args=arguments)
    started.start()
    return started


def assert_all_there(place: Place, allow: Path, count: int = DAYS) -> None:
    expected = xr.concat([day(number) for number in range(count)], "time", data_vars="minimal")
    for consolidated in (True, False):
        store = zm.ManifestStore(store_at(place), allow=[allow])
        xr.testing.assert_equal(xr.open_zarr(store, consolidated=consolidated), expected)
    assert zm.validate(store_at(place), allow=[allow]) == []


# Puts that are conditional, as S3 has them, meet in `tests/writing/test_writing_races.py`, too.
PLACES: list[Any] = [("directory", {"partition_shape": (16, 1, 1)})]
if THOROUGH:
    PLACES.append(("S3", {}))


@pytest.mark.parametrize(
    ("place", "layout"), PLACES, indirect=["place"], ids=["directory", "S3"][: len(PLACES)]
)
def test_processes_append_the_same_files(
    place: Place, files: tuple[Path, list[list[Node]]], layout: dict[str, Any]
) -> None:
    allow, nodes = files
    write_hierarchy(store_at(place), nodes[0], **layout)
    meeting, answers = CONTEXT.Barrier(len(BATCHES)), CONTEXT.SimpleQueue()
    started = [process(place, nodes, batch, allow, meeting, answers) for batch in BATCHES]
    for each in started:
        each.join()
    assert [each.exitcode for each in started] == [0] * len(started)
    # Of two that make the same change at once, both say so.
    assert sum(answers.get() for _ in started) >= DAYS - 1
    assert_all_there(place, allow)


@pytest.mark.parametrize("place", ["directory"], indirect=True)
def test_processes_that_are_killed_and_started_again(
    place: Place, files: tuple[Path, list[list[Node]]]
) -> None:
    allow, nodes = files
    write_hierarchy(store_at(place), nodes[0])
    answers = CONTEXT.SimpleQueue()
    started = [process(place, nodes, batch, allow, None, answers) for batch in BATCHES[:4]]
    for number in range(KILLS):
        time.sleep(random.uniform(0, 0.2))
        which = number % len(started)
        victim = started[which]
        if victim.is_alive():
            os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        started[which] = process(place, nodes, BATCHES[which], allow, None, answers)
    for each in started:
        each.join()
    assert [each.exitcode for each in started] == [0] * len(started)
    assert_all_there(place, allow)
