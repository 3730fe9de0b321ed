"""zarr's warning about data types that have no specification of their own yet.

Fixed-length strings, times and compound types are among them. Files have them; the
user, who did not choose them, is not warned of each.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps

from zarr.errors import UnstableSpecificationWarning

__all__ = ["unstable_types_accepted"]


def unstable_types_accepted[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Run a function (not a generator) without the warning."""

    @wraps(function)
    def silenced(*args: P.args, **kwargs: P.kwargs) -> T:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableSpecificationWarning)
            return function(*args, **kwargs)

    return silenced
