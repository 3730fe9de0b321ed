"""Repair of attributes with numbers that JSON lacks. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from zarr_manifest.conversion.values import as_object, json_attributes

__all__ = ["repair_attributes"]


def repair_attributes(
    metadata: Mapping[str, Any], dtype: np.dtype[Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes of a node, and what was wrong; valid JSON values stay as they are.

    Examples
    --------
    >>> repair_attributes({"attributes": {"top": float("inf"), "title": "T"}})
    ({'title': 'T', 'top': 'Infinity'}, ["in the attribute 'top', an infinity became a string, \
as JSON has none"])
    """
    attributes = dict(as_object(metadata.get("attributes")) or {})
    broken = {name: value for name, value in attributes.items() if not _is_json(value)}
    repaired, notes = json_attributes(broken, dtype)
    kept = {name: value for name, value in attributes.items() if name not in broken}
    if "_FillValue" in repaired and dtype is not None:
        notes.append(
            "the attribute '_FillValue' has a value that JSON lacks; it was encoded for xarray"
        )
    return kept | repaired, notes


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True
