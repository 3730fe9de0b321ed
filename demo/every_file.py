"""Every available file: compared with what the format's own library reads, or refused."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from demo.commands import run
from demo.compare import EQUAL, compare_file, difference
from demo.report import wrapped
from demo.source_files import DATA_DIRECTORY, SourceFile, every_source_file
from zarr_manifest import ManifestStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["every_file"]

_GRIB = ".grib2"


def every_file(
    directory: Path, hierarchy: str, attributes: dict[str, Any], *, listing: str
) -> bool:
    """Make one hierarchy of all files, and print the results; return whether all is well.

    Parameters
    ----------
    directory : Path
        The directory for the hierarchy.
    hierarchy : str
        Its name.
    attributes : dict
        Attributes of its root.
    listing : str
        Name of the file that lists every file and every variable.
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
    read = {file.name: _compare(root, file, refused) for file in files if file.group not in refused}
    _print_read(read)
    reasons = {
        file.name: _without_location(refused[file.group]) for file in files if file.group in refused
    }
    _print_refused(reasons)
    lines = [f"{name}: refused: {why}" for name, why in reasons.items()]
    lines += [f"{name} {line}" for name, variables in read.items() for line in variables]
    (directory / listing).write_text("\n".join([*lines, ""]), encoding="utf-8")
    variables = [line for lines in read.values() for line in lines]
    different = sum("DIFFERS" in line for line in variables)
    print(
        f"  {len(files)} files: {len(reasons)} refused, {len(read)} read; "
        f"{len(variables)} variables, {different} different; a line for each: {listing}"
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
    outcomes = _grib(root, known) if file.path.suffix == _GRIB else compare_file(root, known)
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
