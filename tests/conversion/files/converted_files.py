"""Files, converted and read back, beside what their own readers read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import zarr

from zarr_manifest import ManifestStore
from zarr_manifest.conversion import ConversionReport, read_files, write_hierarchy

# Zarr does not specify fixed-length strings, compound types and numcodecs' codecs.
IGNORED_WARNINGS = (
    "ignore:The data type:zarr.errors.UnstableSpecificationWarning",
    "ignore:Numcodecs codecs are not in the Zarr version 3",
    "ignore:Imagecodecs codecs are not in the Zarr version 3",
)


# Dimensions, values and attributes.
type Variable = tuple[tuple[str, ...], Any, dict[str, Any]]

# Writes the next file of a test, of variables by name.
type Write = Callable[..., Path]


@dataclass
class Converted:
    """A hierarchy, and the report of its writing."""

    root: Path
    group: zarr.Group
    report: ConversionReport

    @property
    def refused(self) -> dict[str, str]:
        return {node.path: node.reason for node in self.report.refused}

    @cached_property
    def arrays(self) -> dict[str, zarr.Array[Any]]:
        members = self.group.members(max_depth=None)
        return {path: item for path, item in members if isinstance(item, zarr.Array)}

    def store(self) -> ManifestStore:
        return ManifestStore(self.root, allow=["/"], read_only=True)


def write(nodes: Any, root: Path) -> Converted:
    """Write nodes, and open what was written."""
    report = write_hierarchy(root, nodes)
    group = zarr.open_group(ManifestStore(root, allow=["file:///"], read_only=True), mode="r")
    return Converted(root, group, report)


def convert(files: Any, root: Path, **options: Any) -> Converted:
    """Convert files, and open the hierarchy."""
    return write(read_files(files, **options), root)


def write_netcdf(path: Path, **variables: Variable) -> Path:
    """Write a file of these variables; their first lengths are those of the dimensions."""
    with netCDF4.Dataset(path, "w") as target:
        for name, (dims, given, attributes) in variables.items():
            values = np.asarray(given)
            for dim, length in zip(dims, values.shape, strict=True):
                if dim not in target.dimensions:
                    target.createDimension(dim, length)
            stated = dict(attributes)
            fill_value = stated.pop("_FillValue", None)
            variable = target.createVariable(name, values.dtype, dims, fill_value=fill_value)
            variable.set_auto_maskandscale(False)
            variable[...] = values
            variable.setncatts(stated)
    return path


def hdf5_values(dataset: h5py.Dataset) -> Any:
    """What h5py reads, as numpy has it."""
    if h5py.check_string_dtype(dataset.dtype) and dataset.dtype.kind == "O":
        return np.asarray(dataset.asstr()[()], np.dtypes.StringDType())
    return np.asarray(dataset[()])


def netcdf_values(variable: netCDF4.Variable) -> Any:
    """What netCDF4 reads, without masks and scales."""
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    values = np.asarray(variable[...])
    return values.astype(np.dtypes.StringDType()) if values.dtype.kind in "OU" else values


def netcdf_variables(file: Any, path: str = "") -> dict[str, netCDF4.Variable]:
    """All variables of a file by path, as netCDF4 lists them."""
    found = {f"{path}{name}": variable for name, variable in file.variables.items()}
    for name, group in file.groups.items():
        found |= netcdf_variables(group, f"{path}{name}/")
    return found


def same(found: Any, expected: Any) -> bool:
    """Whether two arrays are equal element for element; NaN equals NaN."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        return False
    if expected.dtype.names:
        return all(same(found[name], expected[name]) for name in expected.dtype.names)
    return bool(np.array_equal(found, expected, equal_nan=expected.dtype.kind in "fcmM"))
