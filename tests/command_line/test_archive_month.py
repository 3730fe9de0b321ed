"""An archive's month through the command line: in a directory, in a bucket, on a web server.

After each step, the hierarchy is read by an array that was open before it and by a new store. The
new one reads the values that are right now, or raises the error that the step is about. The older
one may also refuse what it cannot know yet. Neither ever reads other values.
"""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import zarr_manifest as zm
from tests.command_line.commands import run
from tests.properties import THOROUGH
from tests.servers.http_files import FileServer
from tests.servers.s3 import S3Server

DAYS = 3


def write_month(file: Path, month: int, shift: int = 0) -> np.ndarray[Any, Any]:
    """Write the file of a month, of the same size each time, and return its values."""
    values = np.arange(DAYS * 4, dtype="f4").reshape(DAYS, 4) + 100 * month + shift
    file.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(file, "w") as written:
        time = written.create_dataset("time", data=np.arange(DAYS) + DAYS * month)
        time.attrs["units"] = "days since 2000-01-01"
        time.make_scale("time")
        sst = written.create_dataset("sst", data=values, chunks=(1, 4))
        sst.dims[0].attach_scale(time)
    return values


class InDirectory:
    """An archive whose files and hierarchy are in a directory."""

    restoring_keeps_the_state = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.times = itertools.count(1_700_000_000, 60)
        self.target = self.hierarchy = str(directory / "sst.zarr")
        self.options = tuple(f"--allow={prefix}" for prefix in self.allow)

    def prefix(self, name: str) -> str:
        return f"{(self.directory / name).as_uri()}/"

    @property
    def allow(self) -> Any:
        return [self.prefix("archive"), self.prefix("moved")]

    def publish(self, file: Path, name: str) -> None:
        published = self.directory / name
        published.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, published)
        when = next(self.times)
        os.utime(published, (when, when))

    def remove(self, name: str) -> None:
        (self.directory / name).unlink()


class OnWebServer(InDirectory):
    """An archive whose files and hierarchy are read from a web server, which cannot list them."""

    restoring_keeps_the_state = True

    def __init__(self, directory: Path, url: str) -> None:
        self.url = url
        super().__init__(directory)
        self.hierarchy = f"{url}/sst.zarr"

    def prefix(self, name: str) -> str:
        return f"{self.url}/{name}/"


class InBucket:
    """An archive whose files and hierarchy are in a bucket."""

    restoring_keeps_the_state = True

    def __init__(self, bucket: str, server: S3Server) -> None:
        self.bucket, self.server = bucket, server
        self.target = self.hierarchy = f"s3://{bucket}/sst.zarr"
        self.options: tuple[str, ...] = ("--environment", f"s3://{bucket}/")

    def prefix(self, name: str) -> str:
        return f"s3://{self.bucket}/{name}/"

    @property
    def allow(self) -> Any:
        return {f"s3://{self.bucket}/": zm.environment()}

    def publish(self, file: Path, name: str) -> None:
        self.server.put(self.bucket, name, file.read_bytes())

    def remove(self, name: str) -> None:
        self.server.delete(self.bucket, name)


type Place = InDirectory | OnWebServer | InBucket


# Each command reads and writes in other places in tests of its own.
PLACES = ["directory", "server", "bucket"] if THOROUGH else ["directory", "server"]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    directory = tmp_path / "www"
    directory.mkdir()
    match request.param:
        case "directory":
            yield InDirectory(directory)
        case "server":
            with FileServer(directory) as server:
                yield OnWebServer(directory, server.url)
        case _:
            server = request.getfixturevalue("s3_server")
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            yield InBucket(request.getfixturevalue("s3_bucket"), server)


class Month:
    """The archive, what its hierarchy must read as, and an array that was opened before."""

    def __init__(self, place: Place, files: Path) -> None:
        self.place, self.files = place, files
        self.months: list[np.ndarray[Any, Any]] = []
        self.before: Any = None

    def write(self, month: int, shift: int = 0) -> None:
        """Write the file of a month, and publish it, in place of an earlier one."""
        values = write_month(self.files / f"{month}.h5", month, shift)
        self.months[month:] = [values, *self.months[month + 1 :]]
        self.publish(month)

    def publish(self, month: int, directory: str = "archive") -> None:
        self.place.publish(self.files / f"{month}.h5", f"{directory}/{month}.h5")

    def run(self, *call: str, status: int = 0) -> str:
        done = run(*call, *self.place.options)
        assert done.status == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def create(self, *options: str, directory: str = "archive") -> str:
        names = [f"{self.place.prefix(directory)}{n}.h5" for n in range(len(self.months))]
        call = ("create", *names, self.place.target, "--concat-dim", "time")
        return self.run(*call, "--checksum", "crc32c", *options)

    def opened(self) -> Any:
        store = zm.ManifestStore(self.place.hierarchy, allow=self.place.allow)
        return zarr.open_group(store, mode="r")["sst"]

    def read(self) -> None:
        """Read by a new store, and by the array that was opened before the last step."""
        expected = np.concatenate(self.months)
        np.testing.assert_array_equal(self.opened()[:], expected)
        self.read_by_the_older(expected)
        self.before = self.opened()

    def read_by_the_older(self, expected: np.ndarray[Any, Any]) -> None:
        if self.before is None:
            return
        for day in range(self.before.shape[0]):
            try:
                found = self.before[day]
            except zm.ManifestError:
                continue
            np.testing.assert_array_equal(found, expected[day])

    def fails(self, code: str, days: range) -> zm.ManifestError:
        """Read by both, of which some days must raise an error, and the others must be right."""
        array, expected = self.opened(), np.concatenate(self.months)
        errors: list[zm.ManifestError] = []
        for day in range(array.shape[0]):
            if day in days:
                with pytest.raises(zm.ManifestError) as caught:
                    array[day]
                errors.append(caught.value)
            else:
                np.testing.assert_array_equal(array[day], expected[day])
        assert {error.code for error in errors} == {code}
        self.read_by_the_older(expected)
        return errors[0]


@pytest.mark.slow
def test_a_month(place: Place, tmp_path: Path) -> None:
    month = Month(place, tmp_path / "written")

    # The first day: the hierarchy is created, and published.
    month.write(0)
    month.write(1)
    month.create()
    assert "is valid" in month.run("validate", place.target, "--strict")
    month.read()

    # The next file arrives.
    month.write(2)
    month.create("--overwrite")
    month.read()

    # Somebody adds an array of their own; making the hierarchy again keeps it.
    plain = zm.ManifestStore(place.target, allow=place.allow).underneath
    zarr.create_array(plain, name="mask", data=np.arange(4), chunks=2)
    month.create("--overwrite")
    store = zm.ManifestStore(place.hierarchy, allow=place.allow)
    np.testing.assert_array_equal(zarr.open_array(store, path="mask", mode="r")[:], np.arange(4))
    month.read()

    # A file is restored from a backup: the same bytes, but another time.
    month.publish(1)
    if not place.restoring_keeps_the_state:
        error = month.fails("source_changed", range(DAYS, 2 * DAYS))
        assert "refresh" in str(error)
        month.run("refresh", place.target, "--read")
    month.read()

    # All files move.
    for number in range(3):
        month.publish(number, "moved")
        place.remove(f"archive/{number}.h5")
    month.fails("source_not_found", range(3 * DAYS))
    month.run(
        "relocate", place.target, f"{place.prefix('archive')}={place.prefix('moved')}", "--read"
    )
    month.read()

    # A file is replaced by one of the same size: no command takes it for the old one.
    place.publish(other_file(month), "moved/2.h5")
    month.fails("source_changed", range(2 * DAYS, 3 * DAYS))
    said = month.run("refresh", place.target, "--read", status=1)
    assert "moved/2.h5" in said
    month.fails("source_changed", range(2 * DAYS, 3 * DAYS))

    # Its values are right, so that the hierarchy is made again.
    month.months[2] = month.months[2] + 7
    month.create("--overwrite", directory="moved")
    month.read()
    assert "is valid" in month.run("validate", place.target, "--strict")


def other_file(month: Month) -> Path:
    """Write the file of the last month with other values."""
    file = month.files / "other.h5"
    write_month(file, 2, shift=7)
    return file
