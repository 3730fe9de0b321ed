"""Open three netCDF files as one Zarr hierarchy, without copying them.

Usage: python -m demo [OUTPUT_DIR]

Puts the files into OUTPUT_DIR/archive (default ./demo-output), makes OUTPUT_DIR/sst.zarr of two of
them with the command zarr-manifest, opens it with xarray, appends the third, compares every
variable with what the files hold, repairs values, draws a map, and verifies every chunk. The exit
status is nonzero if anything differs. Needs no network.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import netCDF4
import numpy as np
import xarray as xr

from demo import report
from demo.commands import Finished, run
from demo.picture import print_map, save_picture
from demo.source_files import DATA_DIRECTORY
from zarr_manifest import ManifestError, edit

ARCHIVE = "archive"
HIERARCHY = "sst.zarr"
PICTURE = "sst.png"
PAGE = "sst.html"
DIMENSION = "time_counter"
VARIABLE = "tos"
ENGINE = "zarr-manifest"


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if len(arguments) == 1 else 2
    directory = Path(arguments[0] if arguments else "demo-output").resolve()
    print("Open netCDF files as Zarr, without copying them: three months of an ocean model")
    files = put_files(directory / ARCHIVE)
    create(directory, files[:-1])
    prefix = look(directory)
    with xr.open_dataset(directory / HIERARCHY, engine=ENGINE, allow=[prefix]) as opened:
        print_opened(opened)
    append(directory, files[-1], prefix)
    with xr.open_dataset(directory / HIERARCHY, engine=ENGINE, allow=[prefix]) as opened:
        compare(opened, files, report.bytes_written(directory / HIERARCHY))
    repair(directory, prefix, files)
    with xr.open_dataset(directory / HIERARCHY, engine=ENGINE, allow=[prefix]) as opened:
        print(report.heading("6. A map: sea-surface temperature in the first month"))
        month = opened.isel({DIMENSION: 0})
        print_map(month)
        save_picture(month, directory / PICTURE)
    verify(directory, prefix)
    print_next_steps(os.path.relpath(directory))
    return 0


def put_files(archive: Path) -> list[Path]:
    """Put files of the package iris-sample-data into a directory, with their times filled in."""
    archive.mkdir(parents=True, exist_ok=True)
    sources = sorted((DATA_DIRECTORY / "NEMO").glob("*.nc"))
    files = [Path(shutil.copyfile(source, archive / source.name)) for source in sources]
    for file in files:
        # The model left zeros there, and the middle of the month in another variable.
        with netCDF4.Dataset(file, "a") as dataset:
            time, middle = dataset[DIMENSION], dataset["time_centered"]
            time[:] = middle[:]
            time.setncatts({name: middle.getncattr(name) for name in ("units", "calendar")})
    return files


def create(directory: Path, files: list[Path]) -> None:
    """Make the hierarchy."""
    print(report.heading("1. Make a hierarchy: the chunks stay in the files"))
    print(f"  $ cd {os.path.relpath(directory)}")
    names = [file.relative_to(directory).as_posix() for file in files]
    # Every manifest in a file of its own, to be shown.
    options = (HIERARCHY, "--concat-dim", DIMENSION, "--inline-below", "0")
    require(
        run(
            directory, "create", *names, *options, "--overwrite", shown=["create", *names, *options]
        )
    )


def look(directory: Path) -> str:
    """Show what readers must allow; show that nothing else is read, and return it."""
    print(report.heading("2. Open it with xarray: you name what may be read"))
    prefix = require(run(directory, "locations", HIERARCHY)).stdout.strip()
    print(f'  >>> xr.open_dataset("{HIERARCHY}", engine="{ENGINE}")["{VARIABLE}"].load()')
    code = "nothing"
    try:
        xr.open_dataset(directory / HIERARCHY, engine=ENGINE)[VARIABLE].load()
    except ManifestError as error:
        code = error.code
    if code != "location_not_allowed":
        fail(f"NOT SAFE: a file was read that nobody had allowed, and {code} was raised")
    print(f"  {code}: as nothing was allowed yet")
    return prefix


def print_opened(opened: xr.Dataset) -> None:
    """Print a dataset as xarray sees it."""
    print(
        f'  >>> xr.open_dataset("{HIERARCHY}", engine="{ENGINE}", allow=["file:///…/{ARCHIVE}/"])'
    )
    print("\n".join("  " + line for line in report.short_repr(opened[[VARIABLE]])))


def append(directory: Path, file: Path, prefix: str) -> None:
    """Append a month; a second time, it is there already."""
    print(report.heading("3. The next month: append it, as one change"))
    name = file.relative_to(directory).as_posix()
    options = ("--dim", DIMENSION, "--allow")
    for _ in range(2):
        shown = ["append", HIERARCHY, name, *options, f"file:///…/{ARCHIVE}/"]
        require(run(directory, "append", HIERARCHY, name, *options, prefix, shown=shown))


def repair(directory: Path, prefix: str, files: list[Path]) -> None:
    """Write values as one change, and compare them and the files with what was there."""
    print(report.heading("5. Wrong values: repair them, and leave the files as they are"))
    before = [file.read_bytes() for file in files]
    row = np.full(10, 20.0, "f4")
    with edit(directory / HIERARCHY, allow=[prefix]) as root:
        root[VARIABLE][-1, 0, :10] = row
    print(f'  >>> with zm.edit("{HIERARCHY}", allow=["file:///…/{ARCHIVE}/"]) as root:')
    print(f'  ...     root["{VARIABLE}"][-1, 0, :10] = 20.0')
    with xr.open_dataset(directory / HIERARCHY, engine=ENGINE, allow=[prefix]) as opened:
        month = xr.open_dataset(files[-1], engine="netcdf4")[VARIABLE][0].load()
        month[0, :10] = row
        if not np.array_equal(opened[VARIABLE][-1], month, equal_nan=True):
            fail("DIFFERENT: the repaired values, or others")
    if [file.read_bytes() for file in files] != before:
        fail("CHANGED: a file of the archive")
    print("  10 values are new, all others and the files of the archive are the same")


def compare(opened: xr.Dataset, files: list[Path], written: tuple[int, int]) -> None:
    """Compare the hierarchy with what netCDF4 reads from the files."""
    print(report.heading("4. Is it what the files hold?"))
    months = [xr.open_dataset(file, engine="netcdf4") for file in files]
    expected = xr.concat(
        months, DIMENSION, data_vars="minimal", coords="minimal", compat="override", join="override"
    )
    different = [name for name in expected.variables if not opened[name].equals(expected[name])]
    held = sum(file.stat().st_size for file in files)
    for month in months:
        month.close()
    if different:
        fail(f"DIFFERENT: {', '.join(map(str, different))}")
    count = len(expected.variables)
    print(f"  {count} of {count} variables equal what netCDF4 reads")
    print(f"  {report.size(held)} in {len(files)} files of the archive, untouched")
    print(f"  {report.size(written[1])} in {written[0]} plain files of {HIERARCHY}")


def verify(directory: Path, prefix: str) -> None:
    """Read and decode every chunk, and show where the chunks are."""
    print(report.heading("7. Is all of it still there? Verify it, and look"))
    options = ("--read", "all", "--decode", "--allow")
    shown = ["verify", HIERARCHY, *options, f"file:///…/{ARCHIVE}/"]
    require(run(directory, "verify", HIERARCHY, *options, prefix, shown=shown))
    require(run(directory, "info", HIERARCHY, "--map", "state", "--html", PAGE))


def print_next_steps(here: str) -> None:
    """Print what to do with one's own files, and what else there is."""
    program = os.path.relpath(Path(sys.executable).parent / "zarr-manifest")
    print(f"  As a picture: {here}/{PICTURE}; as a page: {here}/{PAGE}")
    print(report.heading("Your own files"))
    print(f"  $ {program} create YOUR/*.nc yours.zarr --concat-dim time   # or s3://bucket/…")
    print(report.heading("More"))
    print(f"  $ cat {here}/{HIERARCHY}/{VARIABLE}/manifest-*.json")
    print("  $ make map    # the same files as maps in your web browser")


def require(done: Finished) -> Finished:
    """Return a command that has succeeded; end the program if it has not."""
    if done.status != 0:
        fail("the command failed")
    return done


def fail(why: str) -> NoReturn:
    """End the program."""
    raise SystemExit(f"  {why}")


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))
