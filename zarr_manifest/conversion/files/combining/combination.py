"""Many similar files as one: the same groups, their variables concatenated or merged.

Variables are compared first, each with that of the first file, and then concatenated, each by
itself, as xarray and VirtualiZarr do it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zarr_manifest.conversion.files.combining.aligned_groups import (
    AlignedGroup,
    Comparison,
    Digests,
    align_group,
    families_of,
    merge_datasets,
    share_coordinates,
)
from zarr_manifest.conversion.files.combining.opened_files import (
    CombineRules,
    FileDataset,
    OpenedFile,
)
from zarr_manifest.conversion.files.combining.placement import (
    are_last,
    check_order,
    places,
    require_own_places,
    varying_dimensions,
    with_same_coordinates,
)
from zarr_manifest.conversion.files.combining.splitting import (
    Splitting,
    absent_variable,
    split_arrays,
    storage_difference,
)
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree, with_metadata
from zarr_manifest.conversion.fitting import is_of_time, other_meaning
from zarr_manifest.conversion.nodes import RefusedNode
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import brief, unstable_types_accepted
from zarr_manifest.conversion.virtualizarr_internals import is_virtual
from zarr_manifest.errors import Advice, NotConvertibleError, Setting, in_context
from zarr_manifest.locations import redact


@unstable_types_accepted
def combine_files(
    files: Sequence[OpenedFile], rules: CombineRules, digests: Digests
) -> tuple[dict[str, FileDataset], FileTree]:
    """Combine files, group by group.

    Parameters
    ----------
    files : sequence of OpenedFile
        In the order of concatenation.
    rules : CombineRules
        How they are combined.
    digests : callable
        As for `Comparison`.

    Returns
    -------
    datasets : dict of str to FileDataset
        By path of the group.
    tree : FileTree
        Refusals and notes.

    Raises
    ------
    NotConvertibleError
        The coordinates of the files do not fit together.
    """
    tree = FileTree()
    refused: dict[str, RefusedNode] = {}
    for file in files:
        for node in file.refused:
            reason = Advice(node.reason, f" (in {redact(file.url)})")
            refused.setdefault(node.path, RefusedNode(node.path, node.code, reason))
    tree.refused.extend(refused.values())
    for path, notes in ((p, n) for file in files for p, n in file.notes.items()):
        known = tree.notes.setdefault(path, [])
        known.extend(note for note in notes if note not in known)
    paths = list(dict.fromkeys(path for file in files for path in file.datasets))
    groups = [align_group(path, files, refused.keys()) for path in paths]
    dims = {dim for file in files for each in file.datasets.values() for dim in each.dims}
    work = _Work(rules, Comparison(rules.override, digests, tree), tree, sorted(dims))
    families = families_of(groups, len(files))
    if len(families) > 1 and (work.is_new or not share_coordinates(groups, families, rules)):
        families = [list(range(len(files)))]
    parts = [_combine_family(groups, family, work) for family in families]
    firsts = [family[0] for family in families]
    return {
        group.path: _merge_families(group.of_files(firsts), [p[group.path] for p in parts], work)
        for group in groups
    }, tree


@dataclass(frozen=True)
class _Work:
    rules: CombineRules
    comparison: Comparison
    tree: FileTree
    dims: Sequence[str]

    @property
    def is_new(self) -> bool:
        """Whether the dimension of concatenation is a new one."""
        return self.rules.concat_dim is not None and self.rules.concat_dim not in self.dims

    def about_new_dimension(self) -> str:
        """Return what to tell users who did not expect that the dimension is a new one."""
        return (
            f"no file has the dimension {self.rules.concat_dim!r}, so that it is a new one; "
            f"existing dimensions: {', '.join(map(repr, self.dims))}"
        )


def _combine_family(
    groups: Sequence[AlignedGroup], numbers: Sequence[int], work: _Work
) -> dict[str, FileDataset]:
    """Combine files that have the same variables; return their groups by path."""
    found: dict[str, FileDataset] = {}
    parts: list[_CombinedGroup] = []
    for group in groups:
        above = [p for p in parts if not p.group.path or group.path.startswith(f"{p.group.path}/")]
        part = _CombinedGroup(group.of_files(numbers), work, above)
        found[group.path] = part.combined()
        parts.append(part)
    by_coords = work.rules.by_coords
    if by_coords and len(numbers) > 1 and not any(part.varying for part in parts):
        raise NotConvertibleError(
            "the order of the files is unknown: no coordinate differs between them",
            remedy=Advice(
                "Name the dimension along which to concatenate them: ",
                Setting("concat_dim", python="concat_dim"),
                ".",
            ),
        )
    return found


def _merge_families(
    first: AlignedGroup, datasets: Sequence[FileDataset], work: _Work
) -> FileDataset:
    """Merge a group of several families; `first` is the group in the first file of each."""
    if len(datasets) == 1:
        return datasets[0]
    group = dataclasses.replace(first, datasets=datasets)
    problems = work.comparison.problems(group, group.names())
    for name, problem in problems.items():
        if any(name in dataset.indexes for dataset in datasets):
            raise NotConvertibleError(f"the files cannot be merged by {str(name)!r}: {problem}")
        work.tree.refuse(group.at(name), problem)
    return merge_datasets(datasets, problems.keys())


@dataclass
class _CombinedGroup:
    group: AlignedGroup
    work: _Work
    above: Sequence[_CombinedGroup]
    varying: set[Any] = field(default_factory=set[Any])
    coordinates: dict[Any, list[Any]] = field(default_factory=dict[Any, Any])

    def combined(self) -> FileDataset:
        group, rules = self.group, self.work.rules
        inherited = self._inherited()
        datasets = [
            dataset.assigned({name: every[number] for name, every in inherited.items()})
            for number, dataset in enumerate(group.datasets)
        ]
        self.varying = varying_dimensions(datasets, rules)
        for name in group.names():
            if (problem := group.problems.get(name)) is None:
                datasets, problem = self._completed(name, datasets)
            if problem is None and self._is_concatenated(name, datasets[0]):
                datasets, problem = self._in_one_grid(name, datasets)
            if problem is not None:
                datasets = self._refused(name, problem, datasets)
        if rules.by_coords:
            require_own_places(datasets, self.varying, group.urls)
        about = self.work.about_new_dimension() if self.work.is_new else None
        datasets = with_same_coordinates(group, datasets, self.varying, rules, about)
        for name, problem in self._differing(datasets).items():
            datasets = self._refused(name, problem, datasets)
        varies = self.work.is_new or self.varying & set(datasets[0].dims)
        found = self._concatenated(datasets) if varies else datasets[0]
        for dim in sorted(map(str, self.varying)) if varies else ():
            note = check_order(dim, found, datasets, group.urls, rules)
            if note is not None:
                self.work.tree.note(group.at(dim), note)
        return found.without(inherited)

    def _inherited(self) -> dict[Any, list[Any]]:
        """Return, by file, coordinates of parent groups that determine how to combine this one."""
        if not self.work.rules.by_coords:
            return {}
        datasets = self.group.datasets
        first = datasets[0]
        self.coordinates = {
            name: [dataset.variables[name] for dataset in datasets]
            for name in map(str, first.indexes)
            if all(name in dataset.indexes for dataset in datasets)
        }
        return {
            dim: group.coordinates[dim]
            for group in self.above
            for dim in first.dims
            if dim in group.coordinates and dim not in first.variables
        }

    def _refused(
        self, name: Any, problem: str, datasets: Sequence[FileDataset]
    ) -> list[FileDataset]:
        """Refuse a variable, and return the datasets without it."""
        among = any(group.varying for group in (self, *self.above))
        orders = name in self.varying or (not among and name in self.coordinates)
        if self.work.rules.by_coords and orders:
            raise NotConvertibleError(f"the files cannot be combined by {name!r}: {problem}")
        self.work.tree.refuse(self.group.at(name), problem)
        return [dataset.without([name]) for dataset in datasets]

    def _is_concatenated(self, name: Any, dataset: FileDataset) -> bool:
        """Whether a variable gets the values of all files."""
        if self.work.is_new:
            return name not in self.work.rules.override and name not in dataset.indexes
        return bool(self.varying & set(dataset.variables[name].dims))

    def _completed(
        self, name: Any, datasets: list[FileDataset]
    ) -> tuple[list[FileDataset], str | None]:
        """Add a variable to files that lack it; return why that is impossible, or None."""
        having = [number for number, each in enumerate(datasets) if name in each.variables]
        lacking = [number for number, each in enumerate(datasets) if name not in each.variables]
        if not lacking:
            return datasets, None
        url = redact(self.group.urls[lacking[0]])
        text = f"{len(lacking)} of the files do not have it, such as {url}"
        first: Any = datasets[having[0]].variables[name]
        if name in datasets[having[0]].indexes:
            return datasets, text
        if not self.work.rules.fill_missing:
            setting = Setting("fill_missing", True)
            return datasets, Advice(text, "; to leave it out there: ", setting)
        completed = list(datasets)
        if not self._is_concatenated(name, datasets[having[0]]):
            for number in lacking:
                completed[number] = completed[number].assigned({name: first})
            self.work.tree.note(self.group.at(name), f"{text}: it was taken from the others")
            return completed, None
        for number in lacking:
            sizes = datasets[number].dims
            if unknown := self.varying.intersection(first.dims) - sizes.keys():
                at = redact(self.group.urls[number])
                return (
                    datasets,
                    f"{text}; how long it is there is unknown: {at} has no {sorted(unknown)[0]!r}",
                )
            shape = [sizes.get(d, n) for d, n in zip(first.dims, first.shape, strict=True)]
            try:
                absent = absent_variable(first, shape)
            except NotConvertibleError as error:
                return datasets, f"{text}; {error.message}"
            completed[number] = completed[number].assigned({name: absent})
        fill_value = first.data.metadata.fill_value if is_virtual(first) else "missing"
        self.work.tree.note(
            self.group.at(name),
            f"{text}: its chunks there are absent, and read as {fill_value}",
        )
        return completed, None

    def _differing(self, datasets: Sequence[FileDataset]) -> dict[Any, str]:
        """Return, by name, why variables are not one for all files, though not concatenated."""
        group = dataclasses.replace(self.group, datasets=datasets)
        names: list[Any] = []
        for name in group.names():
            if not self._is_concatenated(name, datasets[0]):
                if name not in datasets[0].indexes:
                    names.append(name)
            elif name in self.work.rules.override and name not in self.varying:
                along = ", ".join(map(repr, sorted(map(str, self.varying))))
                raise NotConvertibleError(
                    f"it is concatenated along {along}, and not taken from the first file",
                    array=group.at(name),
                    remedy=Advice("Omit ", Setting("override", [str(name)]), "."),
                )
        return self.work.comparison.problems(group, names)

    def _in_one_grid(
        self, name: Any, datasets: list[FileDataset]
    ) -> tuple[list[FileDataset], str | None]:
        """Split chunks of different lengths; return why they cannot be one array, or None."""
        variables: list[Any] = [dataset.variables[name] for dataset in datasets]
        for number, variable in enumerate(variables):
            if self.work.is_new and variable.shape != variables[0].shape:
                text = self.group.unlike(f"the shape {brief(variable.shape)}", number)
                return datasets, f"{text}; {self.work.about_new_dimension()}"
        if not is_virtual(variables[0]):
            return datasets, None
        splitting = self._splitting(variables, datasets)
        if splitting is None or splitting.note is None:
            problem = self._difference(name, datasets)
            if splitting is not None and splitting.problem is not None:
                crossing = "its chunks extend past the ends of the files"
                problem = f"{problem or crossing}; {splitting.problem}"
            return datasets, problem
        split = [
            dataset.assigned({name: variable.copy(deep=False, data=array)})
            for dataset, variable, array in zip(datasets, variables, splitting.arrays, strict=True)
        ]
        problem = self._difference(name, split)
        if problem is None:
            self.work.tree.note(self.group.at(name), splitting.note)
        return split, problem

    def _splitting(
        self, variables: Sequence[Any], datasets: Sequence[FileDataset]
    ) -> Splitting | None:
        along = [dim for dim in variables[0].dims if dim in self.varying]
        if len(along) != 1:
            return None
        arrays = [variable.data for variable in variables]
        axis = variables[0].dims.index(along[0])
        return split_arrays(arrays, axis, are_last(along[0], datasets, self.work.rules))

    def _difference(self, name: Any, datasets: Sequence[FileDataset]) -> str | None:
        """Return why a virtual variable cannot be concatenated to one array, or None."""
        untyped: Sequence[Any] = datasets
        first = untyped[0].variables[name]
        meant = [each[name] for each in self.group.meant]
        for number, (dataset, theirs) in enumerate(zip(untyped, meant, strict=True)):
            problem = storage_difference(first.data, dataset.variables[name].data)
            if problem is None:
                problem = other_meaning(meant[0], theirs)
                if problem is not None and is_of_time(meant[0], theirs):
                    names = [each for each, v in dataset.variables.items() if not is_virtual(v)]
                    loading = Setting("loadable_variables", [*map(str, names), str(name)])
                    text = self.group.unlike(problem, number)
                    return Advice(text, ", which can be converted if it is loaded: ", loading)
            if problem is not None:
                return self.group.unlike(problem, number)
        return None

    def _concatenated(self, datasets: Sequence[FileDataset]) -> FileDataset:
        """Concatenate each variable; refuse virtual ones for which VirtualiZarr cannot."""
        rules, place = self.work.rules, self.group.path or None
        with in_context(array=place):
            order, counts = places(datasets, self.varying, rules)
        first = datasets[order[0]]
        found: dict[str, Any] = {}
        for name in first.variables:
            variables = [datasets[number].variables[name] for number in order]
            is_own = self.work.is_new and name == rules.concat_dim
            if not is_own and not self._is_concatenated(name, first):
                found[name] = variables[0]
                continue
            try:
                found[name] = concatenated(variables, counts, is_new=self.work.is_new)
            except FOREIGN_ERRORS as error:
                if not is_virtual(variables[0]):
                    raise NotConvertibleError(
                        f"the files cannot be combined: {error}", array=place
                    ) from error
                self.work.tree.refuse(self.group.at(name), f"it cannot be combined: {error}")
        return FileDataset.of(found, first.coords, first.attrs)


def concatenated(
    variables: Sequence[Any], counts: Sequence[tuple[Any, int]], *, is_new: bool
) -> Any:
    """Return one variable of many.

    Parameters
    ----------
    variables : sequence of Variable
        In C order of their places.
    counts : sequence of (str, int)
        Dimensions, and how many variables follow one another along each.
    is_new : bool
        Whether the dimension is a new one.

    Raises
    ------
    ValueError
        Values differ where they are not concatenated, or shapes where they are.
    """
    concat: Any = library("xarray").Variable.concat
    found: list[Any] = list(variables)
    if is_virtual(found[0]):
        # The first array's names of dimensions and attributes are those of the file.
        array = with_metadata(found[0].data, dimension_names=None, attributes={})
        found[0] = found[0].copy(deep=False, data=array)
    for dim, count in reversed(counts):
        runs: list[list[Any]] = [
            found[start : start + count] for start in range(0, len(found), count)
        ]
        if is_new or dim in found[0].dims:
            found = [concat(run, dim) for run in runs]
            continue
        for first, *others in runs:
            if not is_virtual(first) and not all(map(first.equals, others)):
                raise ValueError(f"files that only differ in {dim!r} have other values")
        found = [run[0] for run in runs]
    return found[0]
