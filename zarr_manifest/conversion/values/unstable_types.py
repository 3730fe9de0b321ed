"""zarr's warning about data types that have no specification of their own yet.

Fixed-length strings, times and compound types are among them. Files have them; the
user, who did not choose them, is not warned of each.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps

import zarr
from zarr.errors import UnstableSpecificationWarning

__all__ = ["HAS_ALL_BYTE_ORDERS", "unstable_types_accepted"]

# Before 3.3, zarr takes compound types for little-endian, and so it loses the byte order of
# theirs; and it gives codecs of arrays the bytes of big-endian elements as they are stored.
HAS_ALL_BYTE_ORDERS = tuple(map(int, zarr.__version__.split(".")[:2])) >= (3, 3)


def unstable_types_accepted[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Run a function (not a generator) without the warning."""

    @wraps(function)
    def silenced(*args: P.args, **kwargs: P.kwargs) -> T:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableSpecificationWarning)
            return function(*args, **kwargs)

    return silenced
