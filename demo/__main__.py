"""Show real netCDF files as one Zarr hierarchy, without copying them.

Usage: python -m demo [OUTPUT_DIR]

Writes OUTPUT_DIR/data.zarr (default ./demo-output), reads it back with zarr and
xarray, and compares every element with what netCDF4 reads. The exit status is
not zero if anything differs. Needs no network.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import xarray as xr
import zarr

from demo import report
from demo.compare import EQUAL, compare_file, decoded_alike
from demo.source_files import (
    DATA_DIRECTORY,
    DATA_URL,
    FILE_OF_GROUP,
    VirtualFile,
    find_chunks,
    unstable_types_accepted,
)
from demo.write_hierarchy import start_hierarchy, write_file
from zarr_manifest import ManifestError, ManifestStore

if TYPE_CHECKING:
    from collections.abc import Callable

NATIVE_ARRAY = "ostia/mean_temperature"


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if len(arguments) == 1 else 2
    directory = Path(arguments[0] if arguments else "demo-output").resolve()
    print("zarr-manifest: scientific files as one Zarr hierarchy, and not one chunk copied")
    with unstable_types_accepted():
        files = build(directory / "data.zarr")
        return show(directory / "data.zarr", files)


def build(location: Path) -> list[VirtualFile]:
    """Write the hierarchy: references to the files, and one native array beside them."""
    print(report.heading("1. Write"))
    print(f"  netCDF files   {len(FILE_OF_GROUP)} of the PyPI package iris-sample-data, in")
    print(f"                 {DATA_DIRECTORY}")
    start_hierarchy(location)
    files, seconds = timed(lambda: [find_chunks(group) for group in FILE_OF_GROUP])
    for file in files:
        write_file(location, file)
    print(f"  chunks         found by VirtualiZarr in {seconds:.1f} s; references written as JSON")
    print(f"  hierarchy      {location}")
    write_native_array(location)
    return files


def write_native_array(location: Path) -> None:
    """Add an ordinary Zarr array, computed from a manifest-backed one, through the store."""
    store = ManifestStore(location, allow=[DATA_URL])
    dataset = xr.open_zarr(store, group="ostia", consolidated=False, chunks=None)
    mean = dataset["surface_temperature"].mean("time", keep_attrs=True)
    array = zarr.open_group(store, mode="r+").create_array(
        NATIVE_ARRAY,
        shape=mean.shape,
        dtype=mean.dtype,
        fill_value=float("nan"),
        dimension_names=[str(name) for name in mean.dims],
        attributes={"units": mean.attrs["units"], "cell_methods": "time: mean"},
    )
    array[...] = mean.values
    print(f"  native array   {NATIVE_ARRAY}, computed with xarray and written through the store")


def show(location: Path, files: list[VirtualFile]) -> int:
    """Read the hierarchy back, compare it with the files, and print what there is to see."""

    def open_hierarchy() -> zarr.Group:
        root = zarr.open_group(ManifestStore(location, allow=[DATA_URL]), mode="r")
        list(root.members(max_depth=None))  # so that every array is opened, too
        return root

    root, opening_seconds = timed(open_hierarchy)
    verdicts, comparing_seconds = timed(
        lambda: {file.group: compare_file(root, file) for file in files}
    )
    print(report.heading("2. Read with zarr and with xarray: is it what netCDF4 reads?"))
    print("\n".join(report.tree(root, files, verdicts)))
    complete = print_verdict(root, files, verdicts)
    print_sizes(location, opening_seconds, comparing_seconds)
    print_dataset(root)
    safe = print_safety(location)
    print_next_steps(location)
    return 0 if complete and safe else 1


def print_verdict(
    root: zarr.Group, files: list[VirtualFile], verdicts: dict[str, dict[str, str]]
) -> bool:
    """Summarise the comparison; return whether everything was equal."""
    outcomes = [outcome for group in verdicts.values() for outcome in group.values()]
    equal = outcomes.count(EQUAL)
    print(f"  {equal} of {len(outcomes)} variables equal, element for element, NaN included")
    alike = [
        set(verdicts[file.group].values()) == {EQUAL} and decoded_alike(root, file)
        for file in files
    ]
    print(f"  {sum(alike)} of {len(alike)} datasets equal when xarray decodes them (CF)")
    refused = {f"{file.group}/{name}": why for file in files for name, why in file.refused.items()}
    print(f"  {len(refused)} variables left out" + (":" if refused else ""))
    for name, reason in refused.items():
        print(report.wrapped(f"{name}: {reason}", "    "))
    return equal == len(outcomes) > 0 and all(alike)


def print_sizes(location: Path, opening_seconds: float, comparing_seconds: float) -> None:
    """Print bytes referenced against bytes written, and times."""
    locations = ManifestStore(location).locations()
    referenced = sum(each.nbytes for each in locations)
    references = sum(each.references for each in locations)
    objects = sum(each.objects for each in locations)
    count, written = report.bytes_written(location)
    ratio = f"{referenced / written:.0f}:1"
    print(report.heading("3. What it costs"))
    print(
        f"  referenced  {report.size(referenced):>9}  {references} references into {objects} files"
    )
    print(f"  written     {report.size(written):>9}  {count} plain files; {ratio}")
    print(f"  opened in   {opening_seconds * 1000:>6.0f} ms  every array's metadata read")
    print(f"  compared in {comparing_seconds:>7.1f} s  every element by zarr, xarray and netCDF4")


def print_dataset(root: zarr.Group) -> None:
    """Print a dataset as xarray sees it, and some temperatures of it."""
    dataset = xr.open_zarr(root.store, group="ostia", consolidated=False, chunks=None)
    names = ["surface_temperature", "mean_temperature"]
    month = str(dataset["time"].values[-1])[:7]
    print(report.heading("4. xarray.open_zarr(store, group='ostia')"))
    print("\n".join("  " + line for line in report.short_repr(dataset[names])))
    print(f"  surface_temperature along the equator, {month}, in degrees Celsius")
    print("\n".join(report.temperatures(dataset)))


def print_safety(location: Path) -> bool:
    """Show that nothing outside is read unless allowed; return whether that is so."""
    print(report.heading("5. Nothing outside the hierarchy is read until you allow it"))
    print("  zarr.open_group(ManifestStore('data.zarr'))['ostia/surface_temperature'][0]")
    try:
        array = zarr.open_group(ManifestStore(location), mode="r")["ostia/surface_temperature"]
        assert isinstance(array, zarr.Array)
        array[0]
    except ManifestError as error:
        print(report.wrapped(f"{type(error).__name__}: {error}"))
        return bool(error.code == "location_not_allowed")
    print("  NOT SAFE: it was read")
    return False


def print_next_steps(location: Path) -> None:
    """Say what to try next."""
    print(report.heading("Try next"))
    print(f"  cat {location}/ostia/surface_temperature/manifest.json")
    print("  >>> import zarr_manifest, xarray")
    print(f"  >>> store = zarr_manifest.ManifestStore({str(location)!r},")
    print(f"  ...     allow=[{DATA_URL!r}])")
    print("  >>> xarray.open_zarr(store, group='nemo', consolidated=False).tos.mean().values")


def timed[T](work: Callable[[], T]) -> tuple[T, float]:
    """Return what a function returns, and the seconds that it took."""
    start = perf_counter()
    return work(), perf_counter() - start


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(main(sys.argv[1:]))
