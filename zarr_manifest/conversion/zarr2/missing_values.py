"""What xarray takes for missing elements: of Zarr v2 the fill value, of Zarr v3 an attribute.

Of Zarr v2 it opens only arrays that name their dimensions: nothing is said of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zarr_manifest.conversion.attribute_values import json_attributes
from zarr_manifest.conversion.json_values import as_array, shown

if TYPE_CHECKING:
    from zarr_manifest.conversion.decisions import Decisions

__all__ = ["fill_value_as_attribute", "fill_value_without_attribute"]

_MISSING = "_FillValue"


def fill_value_as_attribute(
    attributes: dict[str, Any], fill_value: object, dtype: np.dtype[Any], decisions: Decisions
) -> None:
    """State in the attributes of Zarr v3 what is missing to those who read Zarr v2.

    Parameters
    ----------
    attributes : dict
        Those of Zarr v2; changed in place.
    fill_value : object
        The ``fill_value`` of ``.zarray`` as JSON of Zarr v3, or None for null: what the
        attributes say holds then.
    dtype : numpy.dtype
        Data type of the array.
    decisions : Decisions
        Takes the notes.
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


def fill_value_without_attribute(
    attributes: dict[str, Any], fill_value: object, dtype: np.dtype[Any], decisions: Decisions
) -> None:
    """Leave out of the attributes of Zarr v2 what its fill value says already."""
    if _MISSING not in attributes:
        return
    missing = _number(fill_value, dtype)
    encoded, _ = json_attributes({} if missing is None else {_MISSING: missing}, dtype)
    if encoded.get(_MISSING) == attributes[_MISSING]:
        del attributes[_MISSING]
        return
    decisions.note(
        f"the attribute {_MISSING!r} differs from the fill value {shown(fill_value)}, which xarray "
        "takes for missing elements in Zarr v2"
    )


def _number(fill_value: object, dtype: np.dtype[Any]) -> object:
    """Return a number; None where xarray can read none from Zarr v3."""
    if fill_value is None or dtype.kind not in "biufc":
        return None
    if dtype.kind == "c":
        return complex(*(float(str(part)) for part in as_array(fill_value) or []))
    return float(str(fill_value)) if dtype.kind == "f" else fill_value
