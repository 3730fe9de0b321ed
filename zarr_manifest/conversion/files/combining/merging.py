"""Files with different variables on the same coordinates, such as one for each quantity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zarr_manifest.conversion.files.combining.aligned_groups import AlignedGroup
from zarr_manifest.conversion.files.combining.opened_files import CombineRules, assembled
from zarr_manifest.conversion.virtual import join_path

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["families_of", "merge_datasets", "share_coordinates"]


def families_of(groups: Sequence[AlignedGroup], count: int) -> list[list[int]]:
    """Return the numbers of the files that have the same variables.

    Parameters
    ----------
    groups : sequence of AlignedGroup
        All groups of the files.
    count : int
        Number of files.

    Returns
    -------
    list of list of int
        A single family if one of several had no variable of its own: its files lack variables
        that others have.
    """
    found: dict[frozenset[str], list[int]] = {}
    for number in range(count):
        names = {
            group.at(name)
            for group in groups
            for name in group.datasets[number].variables
            if name not in group.datasets[number].indexes
        }
        found.setdefault(frozenset(names), []).append(number)
    holders = Counter(name for each in found for name in each)
    if all(any(holders[name] == 1 for name in each) for each in found):
        return list(found.values())
    return [list(range(count))]


def share_coordinates(
    groups: Sequence[AlignedGroup], families: Sequence[Sequence[int]], rules: CombineRules
) -> bool:
    """Whether all families cover the same places along the dimensions that they share."""
    shared: set[str] = set()
    for group in groups:
        above = [group.path[:end] for end in range(len(group.path)) if group.path[end] == "/"]
        known: dict[Any, _Extent] = {}
        for family in families:
            for dim, extent in _extents(group.of_files(family).datasets, rules).items():
                first = known.setdefault(dim, extent)
                if first is extent:
                    continue
                if first.coordinates is not None and extent.coordinates is not None:
                    if first.coordinates != extent.coordinates:
                        return False
                    shared.add(group.at(dim))
                    continue
                is_inherited = any(join_path(path, str(dim)) in shared for path in ("", *above))
                # Without coordinates, it is unknown whether files follow one another.
                if first.length != extent.length or (dim == rules.concat_dim and not is_inherited):
                    return False
    return True


@dataclass(frozen=True)
class _Extent:
    """The length of a dimension of combined files, and its coordinates, if it has any."""

    length: int
    coordinates: Collection[Any] | None


def _extents(datasets: Sequence[xr.Dataset], rules: CombineRules) -> dict[Any, _Extent]:
    found: dict[Any, _Extent] = {}
    for dim in dict.fromkeys(dim for dataset in datasets for dim in dataset.dims):
        having = [dataset for dataset in datasets if dim in dataset.dims]
        if rules.combine == "nested" and dim != rules.concat_dim:
            having = having[:1]
        length = sum(dataset.sizes[dim] for dataset in having)
        coordinates: Collection[Any] | None = None
        if all(dim in dataset.indexes for dataset in having):
            indexes: list[Any] = [dataset.indexes[dim] for dataset in having]
            coordinates = [value for index in indexes for value in index.tolist()]
            if rules.combine == "by_coords":
                coordinates = frozenset(coordinates)
                length = len(coordinates)
        elif rules.combine == "by_coords":
            length = having[0].sizes[dim]
        found[dim] = _Extent(length, coordinates)
    return found


def merge_datasets(datasets: Sequence[xr.Dataset], refused: Collection[Any]) -> xr.Dataset:
    """Return one dataset with the variables of several, each from the first that has it.

    Parameters
    ----------
    datasets : sequence of Dataset
        On the same coordinates.
    refused : collection of str
        Names of variables that are left out.
    """
    variables = {
        name: variable
        for each in reversed(datasets)
        for name, variable in each.variables.items()
        if name not in refused
    }
    indexes: dict[Any, Any] = {}
    for each in reversed(datasets):
        indexes |= dict(each.indexes)
    return assembled(
        variables,
        [name for name in variables if any(name in each.coords for each in datasets)],
        {name: index for name, index in indexes.items() if name in variables},
        datasets[0].attrs,
    )
