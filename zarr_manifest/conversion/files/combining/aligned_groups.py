"""One group in all files: its variables described alike, so that they can be compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zarr_manifest.conversion.files.combining.meaning import made_alike, meanings
from zarr_manifest.conversion.files.combining.opened_files import OpenedFile
from zarr_manifest.conversion.files.combining.storage import with_codecs_of
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import brief
from zarr_manifest.conversion.virtual import join_path
from zarr_manifest.conversion.virtualizarr_internals import is_virtual
from zarr_manifest.locations import redact

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["AlignedGroup", "align_group", "assigned"]


@dataclass(frozen=True)
class AlignedGroup:
    """One group in several files.

    Parameters
    ----------
    path : str
        Its path.
    urls : sequence of str
        Of the files.
    datasets : sequence of Dataset
        By file; empty if the file has no such group. Loaded variables of one name have numbers
        of the same meaning, and virtual ones the same codecs, unless there is a problem.
    meant : sequence of dict
        By file and name, what the numbers in the file mean; if it has none, in the others.
    problems : mapping
        By name, why variables cannot be compared between the files that have them.
    """

    path: str
    urls: Sequence[str]
    datasets: Sequence[xr.Dataset]
    meant: Sequence[Mapping[Any, Mapping[str, Any]]]
    problems: Mapping[Any, str]

    def at(self, name: Any) -> str:
        """Return the path of a variable."""
        return join_path(self.path, str(name))

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
    xarray: Any = library("xarray")
    nothing: xr.Dataset = xarray.Dataset()
    stated = [file.datasets.get(path, nothing) for file in files]
    meant = [
        meanings(
            dataset,
            {
                str(n): file.tree.meanings.get(join_path(path, str(n)), {})
                for n in dataset.variables
            },
        )
        for file, dataset in zip(files, stated, strict=True)
    ]
    datasets = [
        dataset.drop_vars([n for n in dataset.variables if join_path(path, str(n)) in refused])
        for dataset in stated
    ]
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


def _aligned(group: AlignedGroup, datasets: list[xr.Dataset], name: Any) -> str | None:
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
            datasets[number] = assigned(datasets[number], name, new)
    return None


def assigned(dataset: xr.Dataset, name: Any, variable: Any) -> xr.Dataset:
    """Return a dataset with a variable added or replaced; a coordinate stays one."""
    untyped: Any = dataset
    assign = untyped.assign_coords if name in dataset.coords else untyped.assign
    changed: xr.Dataset = assign({name: variable})
    return changed
