"""The references of a flat set, by the array that they belong to.

Where a batch of references belongs to a single array, as usual, their keys are not looked at
one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from zarr_manifest.conversion.kerchunk.json.columns import KeyText, References
from zarr_manifest.conversion.zarr2 import find_owner
from zarr_manifest.format import ancestors

__all__ = ["Members", "distribute"]

# Number of references of several arrays that are assigned at a time.
_AT_ONCE = 2**18


@dataclass(slots=True)
class Members:
    """The references below one array.

    Parameters
    ----------
    path : str
        Path of the array.
    runs : list of References
        The references, in the order of the document.
    """

    path: str
    runs: list[References] = field(default_factory=list[References])

    @property
    def prefix(self) -> str:
        """What the keys begin with."""
        return f"{self.path}/" if self.path else ""

    @property
    def references(self) -> References:
        """All references as a single run."""
        if len(self.runs) != 1:
            self.runs = [References.joined(self.runs)]
        return self.runs[0]

    def names(self) -> list[str]:
        """Return all keys, relative to the array."""
        start = len(self.prefix)
        return [key[start:] for key in self.references.keys.listed()]

    def without_repeated_keys(self) -> Members:
        """Return the members that count: of those with the same key, the last one."""
        keys = self.references.keys.listed()
        last = dict(zip(keys, range(len(keys)), strict=True))
        if len(last) == len(keys):
            return self
        rows = np.fromiter(last.values(), np.int64, len(last))
        return Members(self.path, [self.references.rows(rows, keys)])


def distribute(
    batches: Iterable[References], paths: Iterable[str]
) -> tuple[dict[str, Members], list[str]]:
    """Assign every reference to its array.

    Parameters
    ----------
    batches : iterable of References
        All references; none of them empty.
    paths : iterable of str
        Paths of the arrays.

    Returns
    -------
    members : dict of str to Members
        The references of each array.
    strays : list of str
        Keys that belong to no array.
    """
    found = _Distribution({path: Members(path) for path in paths})
    mixed: list[References] = []
    waiting = 0
    for batch in batches:
        owner = found.sole_owner(batch.keys)
        if owner is None:
            mixed.append(batch)
            waiting += len(batch.urls)
        # In the order of the document.
        if owner is not None or waiting >= _AT_ONCE:
            found.add_mixed(mixed)
            mixed, waiting = [], 0
        if owner is not None:
            owner.runs.append(batch)
    found.add_mixed(mixed)
    return found.arrays, list(dict.fromkeys(found.strays))


@dataclass(slots=True)
class _Distribution:
    arrays: dict[str, Members]
    strays: list[str] = field(default_factory=list[str])
    # Many keys, few directories: each directory is looked up once.
    _owners: dict[str, int] = field(default_factory=dict[str, int])
    _numbered: list[Members] = field(init=False)
    _with_arrays_below: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._numbered = list(self.arrays.values())
        self._with_arrays_below = frozenset(
            above for path in self.arrays for above in ancestors(path)
        )

    def sole_owner(self, keys: KeyText) -> Members | None:
        """Return the array to which all keys certainly belong."""
        owner = find_owner(keys.first().rpartition("/")[0], self.arrays)
        if owner is None or owner[1].path in self._with_arrays_below:
            return None
        return owner[1] if keys.all_below(owner[1].prefix) else None

    def add_mixed(self, batches: Sequence[References]) -> None:
        """Add references that belong to several arrays, or to none."""
        if not batches:
            return
        references = References.joined(batches)
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
