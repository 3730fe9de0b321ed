"""Show real netCDF files as one Zarr hierarchy, without copying them.

Usage: python -m demo [OUTPUT_DIR]

Makes OUTPUT_DIR/data.zarr (default ./demo-output) with the command zarr-manifest,
reads it back with zarr and xarray, and compares every element with what netCDF4
reads; then does the same with every available file. Also draws a map of the data. The
exit status is nonzero if anything differs, or if a command fails. Needs no network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import xarray as xr
import zarr
from zarr.errors import UnstableSpecificationWarning

from demo import report
from demo.commands import run
from demo.compare import EQUAL, compare_file, decoded_alike
from demo.every_file import every_file
from demo.picture import print_map, save_picture
from demo.source_files import DATA_DIRECTORY, FILES, SourceFile, source_files
from zarr_manifest import ManifestError, ManifestStore

if TYPE_CHECKING:
    from collections.abc import Callable

HIERARCHY = "data.zarr"
EVERY_FILE = "every-file.zarr"
DATASET = "ostia_monthly"
NATIVE_ARRAY = f"{DATASET}/mean_temperature"
OCEAN = "nemo_1m_20150101-20150201_grid-T"
PICTURE = "sea_surface_temperature.png"
EVERY_VARIABLE = "every-variable.txt"

#: Attribute of the root group that allows a later run to delete the hierarchy.
MARK = {"made_by": "zarr-manifest demo"}

_REFUSED = re.compile(r"^refused: /(\S+)/([^:/]+): (.*)$", re.MULTILINE)


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if len(arguments) == 1 else 2
    directory = Path(arguments[0] if arguments else "demo-output").resolve()
    # netCDF's `char` is a data type without a specification.
    warnings.simplefilter("ignore", UnstableSpecificationWarning)
    print("zarr-manifest: scientific files as one Zarr hierarchy, without copying a chunk")
    clear(directory / HIERARCHY)
    files = create(directory)
    prefixes = None if files is None else look(directory)
    if files is None or prefixes is None:
        print("  a command failed")
        return 1
    shown = show(directory / HIERARCHY, prefixes, files)
    clear(directory / EVERY_FILE)
    print(report.heading("8. Every real file of iris-sample-data"))
    every = every_file(directory, EVERY_FILE, MARK, listing=EVERY_VARIABLE)
    print_next_steps(directory / HIERARCHY, prefixes)
    return 0 if shown and every else 1


def clear(location: Path) -> None:
    """Delete the hierarchy of an earlier run.

    Raises
    ------
    FileExistsError
        Something else is there, which this program did not write.
    """
    location.parent.mkdir(parents=True, exist_ok=True)
    if not location.exists():
        return
    document = location / "zarr.json"
    node = json.loads(document.read_text()) if document.is_file() else {}
    if node.get("attributes") != MARK:
        raise FileExistsError(f"{location} was not written by the demo; name another directory")
    shutil.rmtree(location)


def create(directory: Path) -> list[SourceFile] | None:
    """Make the hierarchy: references to the files, and one native array."""
    print(report.heading("1. Create: the chunks stay where they are"))
    print(f"  {len(FILES)} netCDF files of the PyPI package iris-sample-data, in")
    print(f"  {DATA_DIRECTORY}")
    files = source_files()
    names = [str(file.path) for file in files]
    done = run(
        directory,
        *("create", "--group-per-file", "--allow-refused", *names, HIERARCHY),
        shown=["create", "--group-per-file", "--allow-refused", *FILES, HIERARCHY],
    )
    if done.status != 0:
        return None
    refused: dict[str, dict[str, str]] = {}
    for group, name, reason in _REFUSED.findall(done.stderr):
        refused.setdefault(group, {})[name] = reason
    add_native_array(directory / HIERARCHY)
    return [SourceFile(file.path, refused.get(file.group, {})) for file in files]


def add_native_array(location: Path) -> None:
    """Add a native array, computed from a manifest array, through the store."""
    store = ManifestStore(location, allow=[DATA_DIRECTORY.as_uri() + "/"])
    dataset = xr.open_zarr(store, group=DATASET, consolidated=False, chunks=None)
    mean = dataset["surface_temperature"].mean("time", keep_attrs=True)
    root = zarr.open_group(store, mode="r+")
    root.attrs.update(MARK)
    array = root.create_array(
        NATIVE_ARRAY,
        shape=mean.shape,
        dtype=mean.dtype,
        fill_value=float("nan"),
        dimension_names=[str(name) for name in mean.dims],
        attributes={"units": mean.attrs["units"], "cell_methods": "time: mean"},
    )
    array[...] = mean.values
    print(f"  {NATIVE_ARRAY}: a native array, computed with xarray, written through the store")


def look(directory: Path) -> list[str] | None:
    """Show what the hierarchy contains; return the prefixes that a reader must allow."""
    print(report.heading("2. Look before you trust: no source is read"))
    info = run(directory, "info", HIERARCHY)
    valid = run(directory, "validate", HIERARCHY)
    locations = run(directory, "locations", HIERARCHY)
    if info.status or valid.status or locations.status:
        return None
    return locations.stdout.splitlines()


def show(location: Path, prefixes: list[str], files: list[SourceFile]) -> bool:
    """Read the hierarchy back, compare it with the files, and print the results."""

    def open_hierarchy() -> zarr.Group:
        root = zarr.open_group(ManifestStore(location, allow=prefixes), mode="r")
        list(root.members(max_depth=None))  # so that every array is opened, too
        return root

    root, opening_seconds = timed(open_hierarchy)
    verdicts, comparing_seconds = timed(
        lambda: {file.group: compare_file(root, file) for file in files}
    )
    print(report.heading("3. Read with zarr and with xarray: is it what netCDF4 reads?"))
    complete = print_verdict(root, files, verdicts)
    print_sizes(location, opening_seconds, comparing_seconds)
    print_dataset(root)
    show_picture(root, location.parent / PICTURE)
    safe = print_safety(location)
    return complete and safe


def print_verdict(
    root: zarr.Group, files: list[SourceFile], verdicts: dict[str, dict[str, str]]
) -> bool:
    """Print the comparison; return whether everything was equal."""
    alike: list[bool] = []
    for file in files:
        outcomes = verdicts[file.group]
        alike.append(set(outcomes.values()) == {EQUAL} and decoded_alike(root, file))
        print("\n".join(report.comparison(file, outcomes, decoded=alike[-1])))
    everything = [outcome for outcomes in verdicts.values() for outcome in outcomes.values()]
    equal = everything.count(EQUAL)
    print(f"  {equal} of {len(everything)} variables equal, element for element, NaN included")
    print(f"  {sum(alike)} of {len(alike)} datasets equal when xarray decodes them (CF)")
    print(f"  {sum(len(file.refused) for file in files)} variables refused")
    return equal == len(everything) > 0 and all(alike)


def print_sizes(location: Path, opening_seconds: float, comparing_seconds: float) -> None:
    """Print bytes referenced against bytes written, and times."""
    locations = ManifestStore(location).locations()
    referenced = sum(each.nbytes for each in locations)
    references = sum(each.references for each in locations)
    objects = sum(each.objects for each in locations)
    count, written = report.bytes_written(location)
    ratio = f"{referenced / written:.0f}:1"
    print(report.heading("4. What it costs"))
    print(
        f"  referenced  {report.size(referenced):>9}  {references} references into {objects} files"
    )
    print(f"  written     {report.size(written):>9}  {count} plain files; {ratio}")
    print(f"  opened in   {opening_seconds * 1000:>6.0f} ms  every array's metadata read")
    print(f"  compared in {comparing_seconds:>7.1f} s  every element by zarr, xarray and netCDF4")


def print_dataset(root: zarr.Group) -> None:
    """Print a dataset as xarray sees it."""
    dataset = xr.open_zarr(root.store, group=DATASET, consolidated=False, chunks=None)
    names = ["surface_temperature", "mean_temperature"]
    print(report.heading(f"5. xarray.open_zarr(store, group={DATASET!r})"))
    print("\n".join("  " + line for line in report.short_repr(dataset[names])))


def show_picture(root: zarr.Group, path: Path) -> None:
    """Draw the sea-surface temperatures."""
    print(report.heading("6. The same bytes as a map: sea-surface temperature"))
    ocean, tropics = (
        xr.open_zarr(root.store, group=group, consolidated=False, chunks=None)
        for group in (OCEAN, DATASET)
    )
    print_map(ocean)
    save_picture(ocean, tropics["surface_temperature"].isel(time=-1), path)
    print(f"  As a picture: {os.path.relpath(path)}")


def print_safety(location: Path) -> bool:
    """Show that nothing outside is read unless allowed; return whether that is true."""
    path = f"{DATASET}/surface_temperature"
    print(report.heading("7. Nothing outside the hierarchy is read until you allow it"))
    print(f"  zarr.open_group(ManifestStore({HIERARCHY!r}))[{path!r}][0]")
    try:
        array = zarr.open_group(ManifestStore(location), mode="r")[path]
        assert isinstance(array, zarr.Array)
        array[0]
    except ManifestError as error:
        print(report.wrapped(f"{type(error).__name__}: {error}"))
        return bool(error.code == "location_not_allowed")
    print("  NOT SAFE: it was read")
    return False


def print_next_steps(location: Path, prefixes: list[str]) -> None:
    """Print what to try next."""
    here = os.path.relpath(location)
    programs = os.path.relpath(Path(sys.executable).parent)
    print(report.heading("Try next"))
    print(f"  $ cat {here}/{DATASET}/surface_temperature/manifest.json")
    print(f"  $ {programs}/zarr-manifest export kerchunk {here} references.json")
    print("  $ make map  # the same files as maps in your web browser")
    print(f"  $ {programs}/python")
    print("  >>> import zarr_manifest, xarray")
    print(f"  >>> store = zarr_manifest.ManifestStore({here!r},")
    print(f"  ...     allow={prefixes!r})")
    print(f"  >>> xarray.open_zarr(store, group={DATASET!r}, consolidated=False)")


def timed[T](work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a function, and the seconds that it took."""
    start = perf_counter()
    return work(), perf_counter() - start


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))
