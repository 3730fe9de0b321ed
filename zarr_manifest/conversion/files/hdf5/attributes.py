"""Attributes of HDF5 objects: each on its own, as one may be of a type that h5py cannot express."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zarr_manifest.conversion.files.hdf5.reader import HDF5_ERRORS
from zarr_manifest.conversion.files.trees import explained
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import brief, text_of

__all__ = ["PROPERTIES", "read_attributes"]

# An attribute that netCDF-4 writes into the root of its files.
PROPERTIES = "_NCProperties"

# Attributes for the bookkeeping of HDF5's dimension scales and of netCDF-4.
_BOOKKEEPING = frozenset(
    [
        "REFERENCE_LIST",
        "CLASS",
        "DIMENSION_LIST",
        "NAME",
        "_Netcdf4Dimid",
        "_Netcdf4Coordinates",
        "_nc3_strict",
        PROPERTIES,
    ]
)


def read_attributes(item: Any) -> tuple[Mapping[str | bytes, Any], list[str]]:
    """Return the attributes of a group or dataset, and notes about those left out.

    Names and values that are not UTF-8 are bytes.
    """
    h5: Any = library("h5py")
    found: dict[str | bytes, Any] = {}
    notes: list[str] = []
    for name in item.attrs:
        if name in _BOOKKEEPING:
            continue
        try:
            value = item.attrs[name]
        except HDF5_ERRORS as error:
            notes.append(f"the attribute {brief(text_of(name))} was left out: {explained(error)}")
            continue
        if isinstance(value, h5.Empty):
            value = ""
        elif np.ndim(value) and np.size(value) == 1:
            # netCDF does not distinguish one value from a list of one.
            value = np.reshape(value, ())[()]
        found[name] = _with_bytes(value)
    return found, notes


def _with_bytes(value: Any) -> Any:
    """Undo that h5py decodes bytes that are not UTF-8 to lone surrogates."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode(errors="surrogateescape")
    values: Any = value
    if isinstance(value, np.ndarray) and values.dtype.kind == "O" and values.size:
        return np.vectorize(_with_bytes, otypes=[object])(values)
    return values
