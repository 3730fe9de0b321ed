"""Compare what zarr and xarray read through manifests with what netCDF4 reads directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import xarray as xr
import zarr

from demo.source_files import SourceFile

if TYPE_CHECKING:
    from pathlib import Path

EQUAL = "equal"


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


def decoded_alike(root: zarr.Group, file: SourceFile) -> bool:
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
