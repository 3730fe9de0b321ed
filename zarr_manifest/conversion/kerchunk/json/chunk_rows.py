"""Which chunk each reference of an array is for: its keys, at once if they are as usual."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json.members import Members
from zarr_manifest.conversion.zarr2 import ArrayPlan, count_keys, unread_keys
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import collect, number_chunks
from zarr_manifest.manifest import Grid, Rows, interpret_keys

__all__ = ["chunk_rows", "usual_rows"]

# 15 digits are always below the largest integer.
_NUMBER = "(?:0|[1-9][0-9]{0,14})"


def usual_rows(plan: ArrayPlan, members: Members) -> Rows | None:
    """Return the chunk of each reference, unless there is anything to say about a key.

    As :func:`chunk_rows`, which looks at the keys one by one.
    """
    shape = plan.grid_shape
    texts = members.references.keys.without(members.prefix)
    if not shape or not texts or math.prod(shape) >= 2**62:
        return None
    indices: list[npt.NDArray[np.int64]] = []
    usual = _lines_of(len(shape), plan.key_separator)
    for text in texts:
        if not usual.fullmatch(text):
            return None
        # Separated by any white space.
        flat = np.fromstring(text.replace(plan.key_separator, "\n"), np.int64, sep="\n")
        indices.append(flat.reshape(-1, len(shape)))
    every = np.concatenate(indices)
    if (every >= np.array(shape, np.int64)).any():
        return None
    numbers = number_chunks(every, shape)
    order = np.arange(len(numbers))
    if not (numbers[1:] > numbers[:-1]).all():
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        if (numbers[1:] == numbers[:-1]).any():
            return None
    return Rows(shape, numbers, order)


@functools.cache
def _lines_of(ndim: int, separator: str) -> re.Pattern[str]:
    key = re.escape(separator).join([_NUMBER] * ndim)
    return re.compile(f"(?:{key}\n)*+{key}")


def chunk_rows(plan: ArrayPlan, names: list[str], prefix: str, notes: list[str]) -> Rows:
    """Return the chunk of each reference of an array.

    Parameters
    ----------
    plan : ArrayPlan
        The array.
    names : list of str
        The keys, relative to the array.
    prefix : str
        What the keys begin with.
    notes : list of str
        Gets sentences about references without a chunk, or with another separator.

    Raises
    ------
    NotConvertibleError
        No reference has a chunk.
    """
    if len(plan.grid_shape) > 1:
        names = _with_dots(plan, names, notes)
    elif not plan.grid_shape and "" in names and "0" not in names:
        # VirtualiZarr (seen in 2.8) writes no "0" after the slash.
        notes.append(f"the reference {prefix!r} was taken to be its chunk")
        names = [name or "0" for name in names]
    rows, problems = collect(
        interpret_keys(names, Grid(len(plan.grid_shape), plan.grid_shape), report_outside=True)
    )
    unread = unread_keys(problems)
    if unread:
        what = f"{count_keys(unread, 'reference')} not part of the array"
        if len(unread) == len(names) and 0 not in plan.grid_shape:
            # kerchunk (seen in 0.2.10) inlines small GRIB messages of two dimensions as '0'.
            raise NotConvertibleError(f"{what}, and there are no others: all would be fill values")
        notes.append(f"{what}, and left out")
    return rows


def _with_dots(plan: ArrayPlan, names: list[str], notes: list[str]) -> list[str]:
    """Return the keys with dots; of two spellings of a chunk, the array's own wins."""
    stated = plan.key_separator
    other = "/" if stated == "." else "."
    foreign = [other in name for name in names]
    if any(foreign):
        notes.append(
            f"{sum(foreign)} chunk keys are written with {other!r}, though the metadata says "
            f"{stated!r}; they were read as written"
        )
        own = {name for name, is_foreign in zip(names, foreign, strict=True) if not is_foreign}
        names = [
            # A key without a chunk of its own is reported, and left out.
            f"{name} beside {name.replace(other, stated)}"
            if is_foreign and name.replace(other, stated) in own
            else name
            for name, is_foreign in zip(names, foreign, strict=True)
        ]
    elif stated == ".":
        return names
    return [name if "." in name else name.replace("/", ".") for name in names]
