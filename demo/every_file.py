"""Compare every real file of iris-sample-data with what the format's own library reads.

Usage: python -m demo.every_file [OUTPUT_DIR]

Makes OUTPUT_DIR/every-file.zarr (default ./demo-output) with the command zarr-manifest, and
OUTPUT_DIR/every-variable.txt with a line for each variable. The exit status is nonzero if anything
differs. Files in other formats have to be refused.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import xarray as xr
import zarr
from zarr.errors import UnstableSpecificationWarning

from demo.commands import run
from demo.report import wrapped
from demo.source_files import DATA_DIRECTORY, SourceFile, every_source_file
from zarr_manifest import ManifestStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HIERARCHY = "every-file.zarr"
LISTING = "every-variable.txt"
EQUAL = "equal"

_GRIB = ".grib2"


def main(arguments: list[str]) -> int:
    """Compare all files; return the exit status."""
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if len(arguments) == 1 else 2
    directory = Path(arguments[0] if arguments else "demo-output").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    # netCDF's `char` is a data type without a specification.
    warnings.simplefilter("ignore", UnstableSpecificationWarning)
    return 0 if every_file(directory) else 1


def every_file(directory: Path) -> bool:
    """Make one hierarchy of all files, and print the results; return whether all is well."""
    files = every_source_file()
    options = ("--group-per-file", "--allow-refused", "--overwrite")
    done = run(
        directory,
        *("create", *options, "--json", *(str(file.path) for file in files), HIERARCHY),
        shown=["create", *options, f"{DATA_DIRECTORY.name}/**", HIERARCHY],
        quiet=True,
    )
    if done.status != 0:
        print(done.stderr)
        return False
    refused = {node["path"]: node["reason"] for node in json.loads(done.stdout)["refused"]}
    store = ManifestStore(directory / HIERARCHY, allow=[DATA_DIRECTORY.as_uri() + "/"])
    root = zarr.open_group(store, mode="r")
    read = {file.name: _compare(root, file, refused) for file in files if file.group not in refused}
    _print_read(read)
    reasons = {
        file.name: _without_location(refused[file.group]) for file in files if file.group in refused
    }
    _print_refused(reasons)
    lines = [f"{name}: refused: {why}" for name, why in reasons.items()]
    lines += [f"{name} {line}" for name, variables in read.items() for line in variables]
    (directory / LISTING).write_text("\n".join([*lines, ""]), encoding="utf-8")
    variables = [line for lines in read.values() for line in lines]
    different = sum("DIFFERS" in line for line in variables)
    print(
        f"  {len(files)} files: {len(reasons)} refused, {len(read)} read; "
        f"{len(variables)} variables, {different} different; a line for each: {LISTING}"
    )
    return different == 0 < len(variables)


def _print_read(read: Mapping[str, Sequence[str]]) -> None:
    """Print a line for each file: the number of its variables by outcome."""
    for name, variables in read.items():
        outcomes = Counter(map(_outcome, variables))
        summary = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        print(f"  {name:<42} {len(variables):>2} variables: {summary}")
        for line in variables:
            if _outcome(line) in ("DIFFERENT", "refused"):
                print(f"    {line}")


def _outcome(line: str) -> str:
    if ": refused: " in line:
        return "refused"
    return "DIFFERENT" if "DIFFERS" in line else line.rpartition(", ")[2]


def _print_refused(reasons: Mapping[str, str]) -> None:
    """Print a paragraph for each reason, with the number of files that it applies to."""
    for reason, count in Counter(reasons.values()).most_common():
        names = [name for name, why in reasons.items() if why == reason]
        shown = names[0] if count == 1 else f"{count} files ({names[0]}, …)"
        print(wrapped(f"{shown}: refused: {reason}"))


def _compare(root: zarr.Group, file: SourceFile, refused: Mapping[str, str]) -> list[str]:
    """Return a line for each variable of a file: how it was read, or why it was refused."""
    prefix = f"{file.group}/"
    reasons = {n.removeprefix(prefix): why for n, why in refused.items() if n.startswith(prefix)}
    lines = [f"{name}: refused: {_without_location(why)}" for name, why in reasons.items()]
    known = SourceFile(file.path, reasons)
    if file.path.suffix == _GRIB:
        outcomes = _grib(root, known)
    else:
        outcomes = compare_file(root, known)
        if not _decoded_alike(root, known):
            lines.append("as xarray decodes it: DIFFERS")
    for name, outcome in outcomes.items():
        array = root[f"{file.group}/{name}"]
        assert isinstance(array, zarr.Array)
        verdict = "equal to netCDF4's" if outcome == EQUAL else outcome
        lines.append(f"{name}: {array.dtype} {array.shape}, {verdict}")
    return lines


def _grib(root: zarr.Group, file: SourceFile) -> dict[str, str]:
    """Compare the field of a GRIB file with what gribberish reads."""
    gribberish: Any = importlib.import_module("gribberish")
    expected = np.asarray(gribberish.parse_grib_message(file.path.read_bytes(), 0).data()).ravel()
    group = root[file.group]
    assert isinstance(group, zarr.Group)
    outcomes: dict[str, str] = {}
    for name, array in sorted(group.members(max_depth=None)):
        if not isinstance(array, zarr.Array):
            continue
        values = np.asarray(array[...])
        outcomes[name] = "not compared"
        if values.size == expected.size and name.endswith("tmp"):
            problem = difference(values.ravel(), expected)
            outcomes[name] = f"DIFFERS: {problem}" if problem else "equal to gribberish's"
    return outcomes


def _without_location(reason: str) -> str:
    """Return a reason without the location of the file, which the line already starts with."""
    before, _, after = reason.partition(" (location ")
    return f"{before}{after.partition(')')[2]}"


def compare_file(root: zarr.Group, file: SourceFile) -> dict[str, str]:
    """Compare every variable of a file, element for element.

    Parameters
    ----------
    root : zarr.Group
        The hierarchy, opened with zarr.
    file : SourceFile
        The source of one of its groups.

    Returns
    -------
    dict
        Variable name -> ``"equal"``, or how the readers differ. Contains every variable
        that netCDF4 finds in the file, except for refused ones.
    """
    dataset = xr.open_zarr(
        root.store, group=file.group, consolidated=False, decode_cf=False, chunks=None
    )
    names = file.variable_names() - file.refused.keys()
    return {name: _compare_variable(root, dataset, file, name) for name in sorted(names)}


def _decoded_alike(root: zarr.Group, file: SourceFile) -> bool:
    """Return whether xarray, decoding, gets the same dataset from the hierarchy and the file."""
    with xr.open_dataset(file.path, engine="netcdf4") as expected:
        names = list(expected.variables)
        dataset = xr.open_zarr(root.store, group=file.group, consolidated=False, chunks=None)
        return bool(dataset[names].equals(expected[names]))


def read_raw(path: Path, name: str) -> np.ndarray[Any, Any]:
    """Read a variable with netCDF4 as stored: no mask, no scale, no conversion of strings."""
    with netCDF4.Dataset(path) as dataset:
        variable = dataset[name]
        variable.set_auto_maskandscale(False)
        variable.set_auto_chartostring(False)
        return np.asarray(variable[...])


def difference(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str | None:
    """Return how two arrays differ, or None if they are equal; NaN equals NaN.

    Examples
    --------
    >>> difference(np.array([1.0, np.nan]), np.array([1.0, np.nan])) is None
    True
    >>> difference(np.array([1, 2]), np.array([1, 3]))
    '1 of 2 elements differ'
    """
    if actual.shape != expected.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if expected.dtype.kind in "OTU":
        unequal = np.array(actual.astype(object) != expected.astype(object))
    elif actual.dtype.newbyteorder("=") != expected.dtype.newbyteorder("="):
        return f"data type {actual.dtype} instead of {expected.dtype}"
    elif expected.dtype.kind in "fc":
        unequal = (actual != expected) & ~(np.isnan(actual) & np.isnan(expected))
    else:
        unequal = np.array(actual != expected)
    count = int(np.count_nonzero(unequal))
    return f"{count} of {expected.size} elements differ" if count else None


def _compare_variable(root: zarr.Group, dataset: xr.Dataset, file: SourceFile, name: str) -> str:
    try:
        expected = read_raw(file.path, name)
        array = root[f"{file.group}/{name}"]
        assert isinstance(array, zarr.Array)
        readings = {
            "zarr": np.asarray(array[...]),
            "xarray": np.asarray(dataset[name].values),
        }
    except Exception as error:
        return f"DIFFERS: {type(error).__name__}: {error}"
    for reader, values in readings.items():
        if (problem := difference(values, expected)) is not None:
            return f"DIFFERS: {reader} reads {problem}"
    return EQUAL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
