"""One group in all files: its variables described alike, so that they can be compared.

Also where the files have different variables, such as one for each quantity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zarr_manifest.conversion.files.combining.opened_files import (
    CombineRules,
    FileDataset,
    OpenedFile,
)
from zarr_manifest.conversion.files.combining.splitting import with_codecs_of
from zarr_manifest.conversion.meaning import made_alike, meanings_of
from zarr_manifest.conversion.values import brief
from zarr_manifest.conversion.virtualizarr_internals import is_virtual
from zarr_manifest.format import join
from zarr_manifest.locations import redact


@dataclass(frozen=True)
class AlignedGroup:
    """One group in several files.

    Parameters
    ----------
    path : str
        Its path.
    urls : sequence of str
        Of the files.
    datasets : sequence of FileDataset
        By file; empty if the file has no such group. Loaded variables of one name have numbers
        of the same meaning, and virtual ones the same codecs, unless there is a problem.
    meant : sequence of dict
        By file and name, what the numbers in the file mean; if it has none, in the others.
    problems : mapping
        By name, why variables cannot be compared between the files that have them.
    """

    path: str
    urls: Sequence[str]
    datasets: Sequence[FileDataset]
    meant: Sequence[Mapping[Any, Mapping[str, Any]]]
    problems: Mapping[Any, str]

    def at(self, name: Any) -> str:
        """Return the path of a variable."""
        return join(self.path, str(name))

    def names(self) -> list[Any]:
        """Return the names of all variables, in the order of the files."""
        return list(dict.fromkeys(name for each in self.datasets for name in each.variables))

    def unlike(self, difference: str, number: int, first: int = 0) -> str:
        """Return the sentence that one file differs from the first, or from another one."""
        other = "the first file" if first == 0 else redact(self.urls[first])
        return f"unlike {other}, {redact(self.urls[number])} has {difference}"

    def of_files(self, numbers: Sequence[int]) -> AlignedGroup:
        """Return the group in some of the files."""
        return AlignedGroup(
            self.path,
            [self.urls[number] for number in numbers],
            [self.datasets[number] for number in numbers],
            [self.meant[number] for number in numbers],
            self.problems,
        )


def align_group(path: str, files: Sequence[OpenedFile], refused: Collection[str]) -> AlignedGroup:
    """Return a group of many files, without the variables that are refused in one of them."""
    nothing = FileDataset({}, frozenset(), {}, {})
    stated = [file.datasets.get(path, nothing) for file in files]
    meant: list[dict[str, dict[str, Any]]] = []
    last = ""
    for file, dataset in zip(files, stated, strict=True):
        attributes = {name: variable.attrs for name, variable in dataset.variables.items()}
        stored = {name: file.meanings.get(join(path, name), {}) for name in attributes}
        # Files with the same attributes share what they mean.
        about = repr((attributes, stored))
        meant.append(meant[-1] if about == last else meanings_of(attributes, stored))
        last = about
    names = [name for dataset in stated for name in dataset.variables]
    left_out = {name for name in names if join(path, name) in refused}
    datasets = [dataset.without(left_out) for dataset in stated]
    urls = [file.url for file in files]
    problems: dict[Any, str] = {}
    group = AlignedGroup(path, urls, datasets, meant, problems)
    for name in group.names():
        # Files that lack it may be completed with what others have.
        stated_first = next(each[name] for each in meant if name in each)
        for each in meant:
            each.setdefault(name, stated_first)
        if (problem := _aligned(group, datasets, name)) is not None:
            problems[name] = problem
    return group


def _aligned(group: AlignedGroup, datasets: list[FileDataset], name: Any) -> str | None:
    """Align the variables of a name in `datasets`, or return why that is impossible."""
    having = [number for number, dataset in enumerate(datasets) if name in dataset.variables]
    variables: list[Any] = [datasets[number].variables[name] for number in having]
    first = variables[0]
    for number, other in zip(having, variables, strict=True):
        if is_virtual(first) != is_virtual(other):
            difference = "references in place of values, or the reverse"
            return group.unlike(difference, number, having[0])
        if first.dims != other.dims:
            return group.unlike(f"dimensions {brief(other.dims)}", number, having[0])
    if is_virtual(first):
        arrays = [with_codecs_of(first.data, variable.data) for variable in variables]
        alike = [
            variable if array is variable.data else variable.copy(deep=False, data=array)
            for variable, array in zip(variables, arrays, strict=True)
        ]
    else:
        alike, problems = made_alike(name, variables, [group.meant[n][name] for n in having])
        for number, problem in zip(having, problems, strict=True):
            if problem is not None:
                return group.unlike(problem, number, having[0])
    for number, old, new in zip(having, variables, alike, strict=True):
        if new is not old:
            datasets[number] = datasets[number].assigned({name: new})
    return None


# Files with different variables on the same coordinates ----------------------------------


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
                is_inherited = any(join(path, str(dim)) in shared for path in ("", *above))
                # Without coordinates, it is unknown whether files follow one another.
                if first.length != extent.length or (dim == rules.concat_dim and not is_inherited):
                    return False
    return True


@dataclass(frozen=True)
class _Extent:
    """The length of a dimension of combined files, and its coordinates, if it has any."""

    length: int
    coordinates: Collection[Any] | None


def _extents(datasets: Sequence[FileDataset], rules: CombineRules) -> dict[Any, _Extent]:
    found: dict[Any, _Extent] = {}
    for dim in dict.fromkeys(dim for dataset in datasets for dim in dataset.dims):
        having = [dataset for dataset in datasets if dim in dataset.dims]
        if rules.combine == "nested" and dim != rules.concat_dim:
            having = having[:1]
        length = sum(dataset.dims[dim] for dataset in having)
        coordinates: Collection[Any] | None = None
        if all(dim in dataset.indexes for dataset in having):
            indexes: list[Any] = [dataset.indexes[dim] for dataset in having]
            coordinates = [value for index in indexes for value in index.tolist()]
            if rules.combine == "by_coords":
                coordinates = frozenset(coordinates)
                length = len(coordinates)
        elif rules.combine == "by_coords":
            length = having[0].dims[dim]
        found[dim] = _Extent(length, coordinates)
    return found


def merge_datasets(datasets: Sequence[FileDataset], refused: Collection[Any]) -> FileDataset:
    """Return one dataset with the variables of several, each from the first that has it.

    Parameters
    ----------
    datasets : sequence of FileDataset
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
    coordinates = frozenset[str]().union(*(each.coords for each in datasets))
    return FileDataset.of(variables, coordinates, datasets[0].attrs)
