"""Many similar files as one: the same groups, their variables concatenated.

xarray does the work, on VirtualiZarr's arrays. Variables that it would combine
incorrectly without an error, or that would make it fail as a whole, are found beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from zarr_manifest.conversion.files.combining.meaning import (
    is_of_time,
    is_virtual,
    made_alike,
    meanings,
    other_meaning,
)
from zarr_manifest.conversion.files.combining.splitting import Splitting, split_arrays
from zarr_manifest.conversion.files.combining.storage import storage_difference, with_codecs_of
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileGroup, FileTree
from zarr_manifest.conversion.nodes import RefusedNode
from zarr_manifest.conversion.values import brief, unstable_types_accepted
from zarr_manifest.conversion.virtual import library
from zarr_manifest.errors import Advice, NotConvertibleError, Setting
from zarr_manifest.locations import redact

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Combination", "OpenedFile", "combine_files", "open_groups"]

type Combine = Literal["nested", "by_coords"]


@dataclass
class OpenedFile:
    """A file, ready to be combined with others.

    Parameters
    ----------
    url : str
        Its URL.
    tree : FileTree
        The parsed file; its arrays are in the datasets.
    datasets : dict of str to Dataset
        Virtual and loaded variables, by path of the group.
    """

    url: str
    tree: FileTree
    datasets: dict[str, xr.Dataset]


@dataclass
class Combination:
    """Many files, combined.

    Parameters
    ----------
    datasets : dict of str to Dataset
        By path of the group.
    tree : FileTree
        Refusals and notes.
    """

    datasets: dict[str, xr.Dataset] = field(default_factory=dict[str, Any])
    tree: FileTree = field(default_factory=FileTree)


def open_groups(
    tree: FileTree, sources: Any, loadable: Iterable[str] | None, concat_dim: str | None
) -> dict[str, xr.Dataset]:
    """Return the groups of a file as datasets.

    Parameters
    ----------
    tree : FileTree
        A parsed file.
    sources : FileSources
        Reads the variables to load.
    loadable : iterable of str or None
        Names of variables to load; by default, one-dimensional coordinates named after
        their dimension, and the single value of a file along a new dimension.
    concat_dim : str or None
        Dimension along which files are concatenated.
    """
    return {group.path: _dataset(group, sources, loadable, concat_dim) for group in tree.groups}


def _dataset(
    group: FileGroup, sources: Any, loadable: Iterable[str] | None, concat_dim: str | None
) -> xr.Dataset:
    manifests: Any = library("virtualizarr.manifests")
    wanted = set(loadable or ())

    def is_coordinate(name: str, array: Any) -> bool:
        dims = tuple(array.metadata.dimension_names or ())
        return dims == (name,) or (name == concat_dim and not array.shape)

    loaded = {
        name: array
        for name, array in group.arrays.items()
        if name in wanted or (loadable is None and is_coordinate(name, array))
    }
    virtual = {name: array for name, array in group.arrays.items() if name not in loaded}
    found = manifests.ManifestGroup(arrays=virtual, attributes=dict(group.attributes))
    dataset: xr.Dataset = found.to_virtual_dataset()
    if not loaded:
        return dataset
    store = manifests.ManifestStore(manifests.ManifestGroup(arrays=loaded), registry=sources)
    xarray: Any = library("xarray")
    options: dict[str, Any] = {"consolidated": False, "zarr_format": 3, "chunks": None}
    # As stored: their meaning has to be compared with that in other files.
    values = xarray.open_zarr(store, **options, decode_cf=False).load()
    variables = {**values.variables, **dataset.variables}
    coordinates = {*values.coords, *dataset.coords, *{concat_dim} & set(values.variables)}
    indexes = {name: values.indexes[name] for name in values.indexes}
    return _assembled(variables, coordinates, indexes, dataset.attrs)


def _assembled(
    variables: Mapping[Any, Any], coordinates: Iterable[Any], indexes: Mapping[Any, Any], attrs: Any
) -> xr.Dataset:
    """Make a dataset without indexes for virtual variables, which cannot have any."""
    xarray: Any = library("xarray")
    indexed: Any = xarray.Coordinates(
        {name: variables[name] for name in coordinates},
        indexes={name: xarray.indexes.PandasIndex(index, name) for name, index in indexes.items()},
    )
    data = {name: item for name, item in variables.items() if name not in set(coordinates)}
    dataset: xr.Dataset = xarray.Dataset(data, coords=indexed, attrs=attrs)
    return dataset


@unstable_types_accepted
def combine_files(
    files: Sequence[OpenedFile], *, concat_dim: str | None, combine: Combine
) -> Combination:
    """Combine files, group by group.

    Parameters
    ----------
    files : sequence of OpenedFile
        In the order of concatenation.
    concat_dim : str or None
        Dimension along which they are concatenated; a new one if no file has it. None
        for ``"by_coords"``, where the loaded coordinates decide.
    combine : {"nested", "by_coords"}
        As in xarray.

    Raises
    ------
    NotConvertibleError
        The coordinates of the files do not fit together.
    """
    combination = Combination()
    tree = combination.tree
    refused: dict[str, RefusedNode] = {}
    for file in files:
        for node in file.tree.refused:
            reason = Advice(node.reason, f" (in {redact(file.url)})")
            refused.setdefault(node.path, RefusedNode(node.path, node.code, reason))
    tree.refused.extend(refused.values())
    for path, notes in ((p, n) for file in files for p, n in file.tree.notes.items()):
        known = tree.notes.setdefault(path, [])
        known.extend(note for note in notes if note not in known)
    is_new = concat_dim is not None and not any(
        concat_dim in dataset.dims for file in files for dataset in file.datasets.values()
    )
    paths = list(dict.fromkeys(path for file in files for path in file.datasets))
    groups: list[_Group] = []
    for path in paths:
        above = [group for group in groups if not group.path or path.startswith(f"{group.path}/")]
        group = _Group(path, files, concat_dim, combine, is_new, tree, above)
        combination.datasets[path] = group.combined(set(refused))
        groups.append(group)
    if combine == "by_coords" and len(files) > 1 and not any(group.varying for group in groups):
        raise NotConvertibleError(
            "the order of the files is unknown: no coordinate differs between them",
            remedy=Advice(
                "Name the dimension along which to concatenate them: ",
                Setting("concat_dim", python="concat_dim"),
                ".",
            ),
        )
    return combination


@dataclass
class _Group:
    path: str
    files: Sequence[OpenedFile]
    concat_dim: str | None
    combine: Combine
    is_new: bool
    tree: FileTree
    above: Sequence[_Group]
    varying: set[Any] = field(default_factory=set[Any])
    coordinates: dict[Any, list[Any]] = field(default_factory=dict[Any, Any])

    def at(self, name: Any) -> str:
        return f"{self.path}/{name}" if self.path else str(name)

    def combined(self, refused: set[str]) -> xr.Dataset:
        xarray: Any = library("xarray")
        nothing: xr.Dataset = xarray.Dataset()
        datasets = [file.datasets.get(self.path, nothing) for file in self.files]
        meant = [
            meanings(dataset, self._stored_meanings(file, dataset))
            for file, dataset in zip(self.files, datasets, strict=True)
        ]
        names = list(dict.fromkeys(name for dataset in datasets for name in dataset.variables))
        wanted = [name for name in names if self.at(name) not in refused]
        problems: dict[Any, str | None] = {}
        for name in wanted:
            if (problem := self._difference_in_kind(name, datasets)) is None:
                datasets, problem = self._alike(name, datasets, meant)
            problems[name] = problem
        inherited = self._inherited(datasets)
        untyped: Any = zip(datasets, *inherited.values(), strict=True)
        datasets = [
            dataset.assign_coords(dict(zip(inherited, coordinates, strict=True)))
            for dataset, *coordinates in untyped
        ]
        self.varying = self._varying(datasets)
        for name in wanted:
            if (problem := problems[name]) is None:
                datasets, problem = self._in_one_grid(name, datasets, meant)
            if problem is not None:
                self._refuse(name, problem)
                datasets = [dataset.drop_vars([name], errors="ignore") for dataset in datasets]
        dropped = [name for name in names if self.at(name) in refused]
        datasets = [dataset.drop_vars(dropped, errors="ignore") for dataset in datasets]
        varies = self.is_new or self.varying & set(datasets[0].dims)
        found = self._isolated(datasets) if varies else datasets[0]
        self._note_first(found)
        return found.drop_vars(list(inherited))

    def _stored_meanings(self, file: OpenedFile, dataset: xr.Dataset) -> dict[str, Any]:
        stored = file.tree.meanings
        names = [str(name) for name in dataset.variables]
        return {name: stored[self.at(name)] for name in names if self.at(name) in stored}

    def _inherited(self, datasets: Sequence[xr.Dataset]) -> dict[Any, list[Any]]:
        """Return, by file, coordinates of parent groups that determine how to combine this one."""
        if self.combine == "nested":
            return {}
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

    def _refuse(self, name: Any, problem: str) -> None:
        among = any(group.varying for group in (self, *self.above))
        orders = name in self.varying or (not among and name in self.coordinates)
        if self.combine == "by_coords" and orders:
            raise NotConvertibleError(f"the files cannot be combined by {name!r}: {problem}")
        self.tree.refuse(self.at(name), problem)

    def _varying(self, datasets: Sequence[xr.Dataset]) -> set[Any]:
        """Return the dimensions along which the files are concatenated."""
        if self.concat_dim is not None:
            has = any(self.concat_dim in dataset.dims for dataset in datasets)
            return {self.concat_dim} if has else set()
        indexes: list[dict[Any, Any]] = [dict(dataset.indexes) for dataset in datasets]
        return {
            dim
            for dim, index in indexes[0].items()
            if any(dim not in other or not index.equals(other[dim]) for other in indexes[1:])
        }

    def _unlike(self, difference: str, number: int) -> str:
        return f"unlike the first file, {redact(self.files[number].url)} has {difference}"

    def _difference_in_kind(self, name: Any, datasets: Sequence[xr.Dataset]) -> str | None:
        """Return why variables cannot be compared at all, or None."""
        without = [
            file.url
            for file, dataset in zip(self.files, datasets, strict=True)
            if name not in dataset.variables
        ]
        if without:
            return f"{len(without)} of the files do not have it, such as {redact(without[0])}"
        first = datasets[0].variables[name]
        for number, dataset in enumerate(datasets):
            other = dataset.variables[name]
            if is_virtual(first) != is_virtual(other):
                return self._unlike("references in place of values, or the reverse", number)
            if first.dims != other.dims:
                return self._unlike(f"dimensions {brief(other.dims)}", number)
        return None

    def _alike(
        self, name: Any, datasets: Sequence[xr.Dataset], meant: Sequence[Any]
    ) -> tuple[list[xr.Dataset], str | None]:
        """Give a variable the same codecs in all files, or, if it is loaded, the same meaning."""
        variables: list[Any] = [dataset.variables[name] for dataset in datasets]
        if is_virtual(variables[0]):
            alike = [_with_codecs_of(variables[0], variable) for variable in variables]
        else:
            alike, problems = made_alike(name, variables, [each[name] for each in meant])
            for number, problem in enumerate(problems):
                if problem is not None:
                    return list(datasets), self._unlike(problem, number)
        changed = [
            dataset if new is old else _assigned(dataset, name, new)
            for dataset, old, new in zip(datasets, variables, alike, strict=True)
        ]
        return changed, None

    def _in_one_grid(
        self, name: Any, datasets: Sequence[xr.Dataset], meant: Sequence[Any]
    ) -> tuple[list[xr.Dataset], str | None]:
        """Split chunks of different lengths; return why they cannot be one array, or None."""
        splitting = self._splitting(name, datasets)
        if splitting is None or splitting.note is None:
            problem = self._difference_in_numbers(name, datasets, meant)
            if splitting is not None and splitting.problem is not None:
                crossing = "its chunks extend past the ends of the files"
                problem = f"{problem or crossing}; {splitting.problem}"
            return list(datasets), problem
        variables: list[Any] = [dataset.variables[name] for dataset in datasets]
        split = [
            _assigned(dataset, name, variable.copy(deep=False, data=array))
            for dataset, variable, array in zip(datasets, variables, splitting.arrays, strict=True)
        ]
        problem = self._difference_in_numbers(name, split, meant)
        if problem is None:
            self.tree.note(self.at(name), splitting.note)
        return split, problem

    def _splitting(self, name: Any, datasets: Sequence[xr.Dataset]) -> Splitting | None:
        variables: list[Any] = [dataset.variables[name] for dataset in datasets]
        along = [dim for dim in variables[0].dims if dim in self.varying]
        if len(along) != 1 or not is_virtual(variables[0]):
            return None
        arrays = [variable._data for variable in variables]
        axis = variables[0].dims.index(along[0])
        return split_arrays(arrays, axis, self._is_last(along[0], datasets))

    def _is_last(self, dim: Any, datasets: Sequence[xr.Dataset]) -> list[bool]:
        """Return which files xarray will put last along a dimension."""
        if self.combine == "nested":
            return [number == len(datasets) - 1 for number in range(len(datasets))]
        untyped: Sequence[Any] = datasets
        if any(not len(dataset.indexes.get(dim, ())) for dataset in untyped):
            return [False] * len(datasets)
        indexes: list[Any] = [dataset.indexes[dim] for dataset in datasets]
        ends = [index[0] for index in indexes]
        try:
            last = (max if all(i.is_monotonic_increasing for i in indexes) else min)(ends)
        except TypeError:  # no order, which xarray will report
            return [False] * len(datasets)
        return [bool(end == last) for end in ends]

    def _difference_in_numbers(
        self, name: Any, datasets: Sequence[xr.Dataset], meant: Sequence[Any]
    ) -> str | None:
        """Return why a variable cannot be one array, or None."""
        first: Any = datasets[0].variables[name]
        is_first_only = not self.is_new and not self.varying & set(first.dims)
        for number, dataset in enumerate(datasets):
            other: Any = dataset.variables[name]
            problem: str | None = None
            if not is_virtual(first):
                # xarray itself requires equal dimension coordinates.
                if is_first_only and name not in dataset.indexes and not first.equals(other):
                    problem = "other values"
            elif (
                not is_first_only
                and (problem := storage_difference(first._data, other._data)) is None
            ):
                problem = other_meaning(meant[0][name], meant[number][name])
                if problem is not None and is_of_time(meant[0][name], meant[number][name]):
                    names = [each for each, v in dataset.variables.items() if not is_virtual(v)]
                    loading = Setting("loadable_variables", [*map(str, names), str(name)])
                    told = self._unlike(problem, number)
                    return Advice(told, ", which can be converted if it is loaded: ", loading)
            if problem is not None:
                return self._unlike(problem, number)
        return None

    def _isolated(self, datasets: Sequence[xr.Dataset]) -> xr.Dataset:
        """Combine all variables, or, if that fails, all but those that make it fail."""
        try:
            return self._combine(datasets)
        except FOREIGN_ERRORS:
            virtual = [name for name, item in datasets[0].variables.items() if is_virtual(item)]
        loaded = [dataset.drop_vars(virtual, errors="ignore") for dataset in datasets]
        try:
            self._combine(loaded)
        except FOREIGN_ERRORS as error:
            raise NotConvertibleError(
                f"the files cannot be combined: {error}", array=self.path or None
            ) from error
        for name in virtual:
            others = [other for other in virtual if other != name]
            try:
                self._combine([dataset.drop_vars(others, errors="ignore") for dataset in datasets])
            except FOREIGN_ERRORS as error:
                self.tree.refuse(self.at(name), f"it cannot be combined: {error}")
                datasets = [dataset.drop_vars([name]) for dataset in datasets]
        return self._combine(datasets)

    def _combine(self, datasets: Sequence[xr.Dataset]) -> xr.Dataset:
        xarray: Any = library("xarray")
        options: dict[str, Any] = {
            # Virtual variables cannot be compared: unless concatenated, the first file's is taken.
            "compat": "override",
            "data_vars": "all" if self.is_new else "minimal",
            "coords": self._new_coordinates(datasets[0]) if self.is_new else "minimal",
            "join": "exact",
            "combine_attrs": "override",
        }
        if self.combine == "nested":
            nested: xr.Dataset = xarray.combine_nested(
                list(datasets), concat_dim=self.concat_dim, **options
            )
            return nested
        by_coords: xr.Dataset = xarray.combine_by_coords(list(datasets), **options)
        return by_coords

    def _new_coordinates(self, dataset: xr.Dataset) -> list[Any]:
        """Return the coordinates that get the new dimension, but not those of another one."""
        return [
            name for name in dataset.coords if name not in dataset.dims and name != self.concat_dim
        ]

    def _note_first(self, dataset: xr.Dataset) -> None:
        for name, variable in dataset.variables.items():
            if is_virtual(variable) and not self.is_new and not self.varying & set(variable.dims):
                self.tree.note(
                    self.at(name), "it was taken from the first file, and not compared with others"
                )


def _assigned(dataset: xr.Dataset, name: Any, variable: Any) -> xr.Dataset:
    """Return a dataset with a variable replaced; a coordinate stays one."""
    untyped: Any = dataset
    assign = untyped.assign_coords if name in dataset.coords else untyped.assign
    assigned: xr.Dataset = assign({name: variable})
    return assigned


def _with_codecs_of(first: Any, other: Any) -> Any:
    array = with_codecs_of(first._data, other._data)
    return other if array is other._data else other.copy(deep=False, data=array)
