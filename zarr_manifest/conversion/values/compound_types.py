"""Compound data types as Zarr has them: fields in the order of their bytes, without gaps. Pure.

numpy copies from one compound type to another by position, whatever the names of the fields, and
zarr writes values as they are in memory if the types only have the same size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.recfunctions import require_fields

__all__ = ["packed_type", "packed_values"]


def packed_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a data type with its fields in the order of their offsets, and without gaps.

    Examples
    --------
    >>> packed_type(np.dtype({"names": ["b", "a"], "formats": ["<i4", "<i2"], "offsets": [4, 0]}))
    dtype([('a', '<i2'), ('b', '<i4')])
    """
    fields: Any = dtype.fields
    if fields is None:
        return dtype
    names = sorted(fields, key=lambda name: fields[name][1])
    return np.dtype([(name, packed_type(dtype[name])) for name in names])


def packed_values(values: Any) -> Any:
    """Return values, or a single value, of the packed type: the same in every field.

    Examples
    --------
    >>> swapped = np.dtype({"names": ["b", "a"], "formats": ["<i4", "<i4"], "offsets": [4, 0]})
    >>> packed_values(np.array([(1, 2)], swapped))
    array([(2, 1)], dtype=[('a', '<i4'), ('b', '<i4')])
    """
    dtype = getattr(values, "dtype", None)
    if dtype is None or packed_type(dtype) == dtype:
        return values
    found: Any = np.asarray(values)
    return require_fields(found, packed_type(dtype))[()]
