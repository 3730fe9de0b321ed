"""The value for "no data" that GDAL keeps as text, in the type of the image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["NoData"]

# As Microsoft's compilers print them.
_SPELLINGS = {
    "1.#INF": "inf",
    "-1.#INF": "-inf",
    "1.#QNAN": "nan",
    "-1.#QNAN": "nan",
    "1.#IND": "nan",
    "-1.#IND": "nan",
}


@dataclass(frozen=True, slots=True)
class NoData:
    """What ``GDAL_NODATA`` says.

    Attributes
    ----------
    stated : str or None
        The text, if it is a value of the type.
    other : str or None
        The text, if it is not.
    fill_value : int or float
        What GDAL reads where a file has no data: the nearest value, or 0.

    Examples
    --------
    >>> NoData.of("255.0", np.dtype("u1")).stated
    '255'
    >>> NoData.of("-9999", np.dtype("u1"))
    NoData(stated=None, other='-9999', fill_value=0)
    """

    stated: str | None
    other: str | None
    fill_value: int | float

    @classmethod
    def of(cls, text: str | None, dtype: np.dtype[Any]) -> NoData:
        """Return what a text means for a data type."""
        stripped = (text or "").strip("\0 \t\r\n")
        if not stripped:
            return cls(None, None, 0)
        spelled = _SPELLINGS.get(stripped, stripped)
        try:
            value = _integer(spelled)
        except ValueError:
            return cls(None, stripped, 0)
        if dtype.kind not in "iu":
            return cls(spelled, None, float(value))
        limits = np.iinfo(dtype)
        nearest = 0 if math.isnan(value) else min(max(value, int(limits.min)), int(limits.max))
        # Halves are rounded away from 0.
        nearest = int(nearest + math.copysign(0.5, nearest)) if nearest % 1 else int(nearest)
        if nearest == value:
            return cls(str(nearest), None, nearest)
        return cls(None, stripped, nearest)


def _integer(text: str) -> int | float:
    """Return a number; an integer if it is one, which may have more digits than a float."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return int(number) if number.is_integer() else number
