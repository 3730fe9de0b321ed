"""What xarray treats as missing: the fill value in Zarr v2, an attribute in Zarr v3.

In Zarr v2, xarray opens only arrays with named dimensions; others are left alone.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from zarr_manifest.conversion.values import as_array, brief, json_attributes

if TYPE_CHECKING:
    from zarr_manifest.conversion.nodes import Decisions

_MISSING = "_FillValue"

# Kinds of data types for which xarray can read a missing value from Zarr v3.
_MASKED = "biufc"


def fill_value_as_attribute(
    attributes: dict[str, Any], fill_value: object, dtype: np.dtype[Any], decisions: Decisions
) -> None:
    """Record in Zarr v3 attributes what xarray masks when it reads Zarr v2.

    Parameters
    ----------
    attributes : dict
        Those of Zarr v2; changed in place.
    fill_value : object
        The ``fill_value`` of ``.zarray`` as Zarr v3 JSON, or None for null, in which case
        the attributes decide.
    dtype : numpy.dtype
        Data type of the array.
    decisions : Decisions
        Collects the notes.
    """
    stated = attributes.pop(_MISSING, None)
    missing = _number(fill_value, dtype)
    if missing is None:
        missing = stated
    if missing is not None:
        found, notes = json_attributes({_MISSING: missing}, dtype)
        attributes.update(found)
        for note in notes:
            decisions.note(note)


def fill_value_for_masking(
    attributes: dict[str, Any],
    fill_value: Any,
    dtype: np.dtype[Any],
    decisions: Decisions,
    *,
    is_complete: bool,
) -> Any:
    """Return the Zarr v2 fill value with which xarray masks what is missing, and nothing else.

    Parameters
    ----------
    attributes : dict
        Those of Zarr v3; the one that becomes the fill value is removed, in place.
    fill_value : object
        The value of missing chunks, as Zarr v2 JSON.
    dtype : numpy.dtype
        Data type of the array.
    decisions : Decisions
        Collects the notes.
    is_complete : bool
        Whether no chunk is missing, so that the fill value is free.
    """
    stated = attributes.get(_MISSING)
    if dtype.kind not in _MASKED or (stated is None and _MISSING in attributes):
        return fill_value
    if stated is None and is_complete:
        return None
    number = _number(fill_value, dtype)
    encoded, _ = json_attributes({} if number is None else {_MISSING: number}, dtype)
    if stated is not None and encoded.get(_MISSING) == stated:
        del attributes[_MISSING]
        return fill_value
    missing = _decoded(stated, dtype)
    if missing is not None and is_complete:
        del attributes[_MISSING]
        return missing
    if encoded and fill_value != "NaN":
        decisions.note(
            f"missing chunks need the fill value {brief(fill_value)}, which xarray masks as "
            "missing in Zarr v2"
            + ("" if stated is None else f", instead of the value of the attribute {_MISSING!r}")
        )
    return fill_value


def _decoded(stated: Any, dtype: np.dtype[Any]) -> Any:
    """Return a missing value, as xarray states it, as Zarr v2 JSON; None if it is not one."""
    if dtype.kind in "biu" and isinstance(stated, int):
        return stated
    if dtype.kind != "f" or not isinstance(stated, str):
        return None
    try:
        (number,) = struct.unpack("<d", base64.b64decode(stated, validate=True))
    except (binascii.Error, struct.error):
        return None
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return names.get(str(number), number)


def _number(fill_value: object, dtype: np.dtype[Any]) -> object:
    """Return a number; None if xarray cannot read it from Zarr v3."""
    if fill_value is None or dtype.kind not in _MASKED:
        return None
    if dtype.kind == "c":
        return complex(*(float(str(part)) for part in as_array(fill_value) or []))
    return float(str(fill_value)) if dtype.kind == "f" else fill_value
