"""zarr's warning about data types without a specification of their own yet.

Fixed-length strings, times and compound types are among them. Files contain them; users
did not choose them, and are not warned about each.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps

import zarr
from zarr.errors import UnstableSpecificationWarning

__all__ = ["HAS_ALL_BYTE_ORDERS", "unstable_types_accepted"]

# Before 3.3, zarr takes all compound types for little-endian, losing the byte order of big-endian
# ones, and passes big-endian elements to array codecs in the byte order in which they are stored.
HAS_ALL_BYTE_ORDERS = tuple(map(int, zarr.__version__.split(".")[:2])) >= (3, 3)


def unstable_types_accepted[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Run a function (not a generator) without the warning."""

    @wraps(function)
    def silenced(*args: P.args, **kwargs: P.kwargs) -> T:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableSpecificationWarning)
            return function(*args, **kwargs)

    return silenced
