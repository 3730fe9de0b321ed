"""The references of a flat set, by the array that they belong to.

Where a batch of references belongs to a single array, as usual, their keys are not looked at
one by one.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json.decoding import KeyedReferences, KeyText
from zarr_manifest.conversion.zarr2 import ArrayPlan, count_keys, find_owner
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import ancestors, collect, number_chunks
from zarr_manifest.manifest import Grid, MemberRows, interpret_keys

# Number of references of several arrays that are assigned at a time.
_BATCH_SIZE = 2**18


@dataclass(slots=True)
class ArrayMembers:
    """The references below one array.

    Parameters
    ----------
    path : str
        Path of the array.
    runs : list of KeyedReferences
        The references, in the order of the document.
    """

    path: str
    runs: list[KeyedReferences] = field(default_factory=list[KeyedReferences])

    @property
    def prefix(self) -> str:
        """What the keys begin with."""
        return f"{self.path}/" if self.path else ""

    @property
    def references(self) -> KeyedReferences:
        """All references as a single run."""
        if len(self.runs) != 1:
            self.runs = [KeyedReferences.joined(self.runs)]
        return self.runs[0]

    def names(self) -> list[str]:
        """Return all keys, relative to the array."""
        start = len(self.prefix)
        return [key[start:] for key in self.references.keys.listed()]

    def without_repeated_keys(self) -> ArrayMembers:
        """Return the members that count: of those with the same key, the last one."""
        keys = self.references.keys.listed()
        last = dict(zip(keys, range(len(keys)), strict=True))
        if len(last) == len(keys):
            return self
        rows = np.fromiter(last.values(), np.int64, len(last))
        return ArrayMembers(self.path, [self.references.rows(rows, keys)])


def distribute(
    batches: Iterable[KeyedReferences], paths: Iterable[str]
) -> tuple[dict[str, ArrayMembers], list[str]]:
    """Assign every reference to its array.

    Parameters
    ----------
    batches : iterable of KeyedReferences
        All references; none of them empty.
    paths : iterable of str
        Paths of the arrays.

    Returns
    -------
    members : dict of str to ArrayMembers
        The references of each array.
    strays : list of str
        Keys that belong to no array.
    """
    found = _Distribution({path: ArrayMembers(path) for path in paths})
    mixed: list[KeyedReferences] = []
    waiting = 0
    for batch in batches:
        owner = found.sole_owner(batch.keys)
        if owner is None:
            mixed.append(batch)
            waiting += len(batch.urls)
        # In the order of the document.
        if owner is not None or waiting >= _BATCH_SIZE:
            found.add_mixed(mixed)
            mixed, waiting = [], 0
        if owner is not None:
            owner.runs.append(batch)
    found.add_mixed(mixed)
    return found.arrays, list(dict.fromkeys(found.strays))


@dataclass(slots=True)
class _Distribution:
    arrays: dict[str, ArrayMembers]
    strays: list[str] = field(default_factory=list[str])
    # Many keys, few directories: each directory is looked up once.
    _owners: dict[str, int] = field(default_factory=dict[str, int])
    _numbered: list[ArrayMembers] = field(init=False)
    _with_arrays_below: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._numbered = list(self.arrays.values())
        self._with_arrays_below = frozenset(
            above for path in self.arrays for above in ancestors(path)
        )

    def sole_owner(self, keys: KeyText) -> ArrayMembers | None:
        """Return the array to which all keys certainly belong."""
        owner = find_owner(keys.first().rpartition("/")[0], self.arrays)
        if owner is None or owner[1].path in self._with_arrays_below:
            return None
        return owner[1] if keys.all_below(owner[1].prefix) else None

    def add_mixed(self, batches: Sequence[KeyedReferences]) -> None:
        """Add references that belong to several arrays, or to none."""
        if not batches:
            return
        references = KeyedReferences.joined(batches)
        keys = references.keys.listed()
        owners = self._owners_of(keys)
        strays = owners < 0
        if strays.any():
            self.strays += [keys[row] for row in np.flatnonzero(strays).tolist()]
        order = np.argsort(owners, kind="stable")[int(strays.sum()) :]
        starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
        for rows in np.split(order, starts[1:]) if len(starts) else ():
            self._numbered[int(owners[rows[0]])].runs.append(references.rows(rows, keys))

    def _owners_of(self, keys: list[str]) -> npt.NDArray[np.int32]:
        """Return the number of the array to which each key belongs; -1 for none."""
        directories = [key.rpartition("/")[0] for key in keys]
        unknown = set(directories) - self._owners.keys()
        if unknown:
            numbers = {path: number for number, path in enumerate(self.arrays)}
            for directory in unknown:
                found = find_owner(directory, numbers)
                self._owners[directory] = -1 if found is None else found[1]
        return np.fromiter(map(self._owners.__getitem__, directories), np.int32, len(keys))


# 15 digits are always below the largest integer.
_NUMBER = "(?:0|[1-9][0-9]{0,14})"


def usual_rows(plan: ArrayPlan, members: ArrayMembers) -> MemberRows | None:
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
    return MemberRows(shape, numbers, order)


@functools.cache
def _lines_of(ndim: int, separator: str) -> re.Pattern[str]:
    key = re.escape(separator).join([_NUMBER] * ndim)
    return re.compile(f"(?:{key}\n)*+{key}")


def chunk_rows(plan: ArrayPlan, names: list[str], prefix: str, notes: list[str]) -> MemberRows:
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
    unread = [str(problem.chunk) for problem in problems]
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
