"""Every real file that there is: a line for each, and for each of its variables.

Read, and compared with what the format's own library reads, or refused with the reason.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from demo.commands import run
from demo.compare import EQUAL, compare_file, difference
from demo.source_files import DATA_DIRECTORY, SourceFile, every_source_file
from zarr_manifest import ManifestStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["every_file"]

_GRIB = ".grib2"


def every_file(directory: Path, hierarchy: str, attributes: dict[str, Any]) -> bool:
    """Make one hierarchy of all files, and print what became of each; return if all is well.

    Parameters
    ----------
    directory : Path
        Where the hierarchy is made.
    hierarchy : str
        Its name.
    attributes : dict
        Those of its root.
    """
    files = every_source_file()
    if importlib.util.find_spec("gribberish") is None:
        for file in files:
            if file.path.suffix == _GRIB:
                print(f"  {file.name}: left out: it needs pip install gribberish")
        files = [file for file in files if file.path.suffix != _GRIB]
    options = ("--group-per-file", "--allow-refused")
    done = run(
        directory,
        *("create", *options, "--json", *(str(file.path) for file in files), hierarchy),
        shown=["create", *options, f"{DATA_DIRECTORY.name}/**", hierarchy],
        quiet=True,
    )
    if done.status != 0:
        print(done.stderr)
        return False
    refused = {node["path"]: node["reason"] for node in json.loads(done.stdout)["refused"]}
    store = ManifestStore(directory / hierarchy, allow=[DATA_DIRECTORY.as_uri() + "/"])
    zarr.open_group(store, mode="r+").attrs.update(attributes)
    root = zarr.open_group(store, mode="r")
    given: set[str] = set()
    read = [line for file in files for line in _lines(root, file, refused, given)]
    different = sum("DIFFERS" in line for line in read)
    print(
        f"  {len(files)} files: {sum(file.group in refused for file in files)} of other formats "
        f"refused, {sum('/' in path for path in refused)} variables refused, "
        f"{len(read) - different} variables read, {different} different"
    )
    return different == 0 < len(read)


def _lines(
    root: zarr.Group, file: SourceFile, refused: Mapping[str, str], given: set[str]
) -> Iterator[str]:
    """Print a line for a file that is refused, or for each variable; yield those of the read.

    A reason that was `given` for another file is not repeated.
    """
    if file.group in refused:
        reason = _without_location(refused[file.group])
        shown = ", for the same reason" if reason in given else f": {reason}"
        print(f"  {file.name}: refused{shown}")
        given.add(reason)
        return
    prefix = f"{file.group}/"
    reasons = {n.removeprefix(prefix): why for n, why in refused.items() if n.startswith(prefix)}
    for name, why in reasons.items():
        print(f"  {file.name} {name}: refused: {_without_location(why)}")
    known = SourceFile(file.path, reasons)
    outcomes = _grib(root, known) if file.path.suffix == _GRIB else compare_file(root, known)
    for name, outcome in outcomes.items():
        array = root[f"{file.group}/{name}"]
        assert isinstance(array, zarr.Array)
        said = "equal to netCDF4's" if outcome == EQUAL else outcome
        line = f"  {file.name} {name}: read {array.dtype} {array.shape}, {said}"
        print(line)
        yield line


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
    """Return a reason without the location of the file, which stands at the beginning."""
    before, _, after = reason.partition(" (location ")
    return f"{before}{after.partition(')')[2]}"
