"""Many files of one kind as one: the same groups, their variables concatenated.

xarray does the work, on VirtualiZarr's arrays. What it would get wrong in
silence, or fail over as a whole, is found beforehand, variable by variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from zarr_manifest._locations import redact
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileGroup, FileTree
from zarr_manifest.conversion.json_values import shown
from zarr_manifest.conversion.refusals import NotConvertibleError
from zarr_manifest.conversion.unstable_types import unstable_types_accepted
from zarr_manifest.conversion.virtual.library import library

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Combination", "OpenedFile", "combine_files", "open_groups"]

type Combine = Literal["nested", "by_coords"]

# Attributes that decide what the stored numbers mean: one array has one of each.
_MEANING = [
    "_FillValue",
    "missing_value",
    "scale_factor",
    "add_offset",
    "units",
    "calendar",
    "_Unsigned",
    "flag_values",
    "flag_masks",
    "flag_meanings",
    "valid_min",
    "valid_max",
    "valid_range",
]


@dataclass
class OpenedFile:
    """A file, ready to be combined with others.

    Parameters
    ----------
    url : str
        Where it is.
    tree : FileTree
        What was parsed; its arrays are in the datasets.
    datasets : dict of str to Dataset
        By path of the group: virtual variables, and loaded ones.
    """

    url: str
    tree: FileTree
    datasets: dict[str, xr.Dataset]


@dataclass
class Combination:
    """What many files are together.

    Parameters
    ----------
    datasets : dict of str to Dataset
        By path of the group.
    tree : FileTree
        What was refused, and the notes.
    """

    datasets: dict[str, xr.Dataset] = field(default_factory=dict[str, Any])
    tree: FileTree = field(default_factory=FileTree)


def open_groups(
    tree: FileTree, sources: Any, loadable: Iterable[str] | None
) -> dict[str, xr.Dataset]:
    """Return the groups of a file as datasets.

    Parameters
    ----------
    tree : FileTree
        A parsed file.
    sources : FileSources
        Reads what is loaded.
    loadable : iterable of str or None
        Names of variables to load; by default coordinates of one dimension that
        have its name.
    """
    return {group.path: _dataset(group, sources, loadable) for group in tree.groups}


def _dataset(group: FileGroup, sources: Any, loadable: Iterable[str] | None) -> xr.Dataset:
    manifests: Any = library("virtualizarr.manifests")
    wanted = set(loadable or ())
    loaded = {
        name: array
        for name, array in group.arrays.items()
        if name in wanted
        or (loadable is None and tuple(array.metadata.dimension_names or ()) == (name,))
    }
    virtual = {name: array for name, array in group.arrays.items() if name not in loaded}
    found = manifests.ManifestGroup(arrays=virtual, attributes=dict(group.attributes))
    dataset: xr.Dataset = found.to_virtual_dataset()
    if not loaded:
        return dataset
    store = manifests.ManifestStore(manifests.ManifestGroup(arrays=loaded), registry=sources)
    xarray: Any = library("xarray")
    options: dict[str, Any] = {"consolidated": False, "zarr_format": 3, "chunks": None}
    try:
        values = xarray.open_zarr(store, **options).load()
    except (ValueError, OverflowError):
        # Times in units that xarray does not know.
        values = xarray.open_zarr(store, **options, decode_times=False).load()
    variables = {**values.variables, **dataset.variables}
    coordinates = {*values.coords, *dataset.coords, *wanted & set(values.variables)}
    indexes = {name: values.indexes[name] for name in values.indexes}
    return _assembled(variables, coordinates, indexes, dataset.attrs)


def _assembled(
    variables: Mapping[Any, Any], coordinates: Iterable[Any], indexes: Mapping[Any, Any], attrs: Any
) -> xr.Dataset:
    """Make a dataset without indexes of virtual variables, which cannot have any."""
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
        In the order in which they are concatenated.
    concat_dim : str or None
        The dimension along which; a new one if no file has it. None for
        ``"by_coords"``, where the loaded coordinates tell.
    combine : {"nested", "by_coords"}
        As in xarray.

    Raises
    ------
    NotConvertibleError
        The coordinates of the files do not fit together.
    """
    combination = Combination()
    tree = combination.tree
    refused = {node.path: node for file in files for node in file.tree.refused}
    tree.refused.extend(refused.values())
    for path, notes in ((p, n) for file in files for p, n in file.tree.notes.items()):
        known = tree.notes.setdefault(path, [])
        known.extend(note for note in notes if note not in known)
    is_new = concat_dim is not None and not any(
        concat_dim in dataset.dims for file in files for dataset in file.datasets.values()
    )
    paths = list(dict.fromkeys(path for file in files for path in file.datasets))
    for path in paths:
        group = _Group(path, files, concat_dim, combine, is_new, tree)
        combination.datasets[path] = group.combined(set(refused))
    return combination


@dataclass
class _Group:
    path: str
    files: Sequence[OpenedFile]
    concat_dim: str | None
    combine: Combine
    is_new: bool
    tree: FileTree

    def at(self, name: Any) -> str:
        return f"{self.path}/{name}" if self.path else str(name)

    def combined(self, refused: set[str]) -> xr.Dataset:
        xarray: Any = library("xarray")
        nothing: xr.Dataset = xarray.Dataset()
        datasets = [file.datasets.get(self.path, nothing) for file in self.files]
        varying = self._varying(datasets)
        names = list(dict.fromkeys(name for dataset in datasets for name in dataset.variables))
        dropped: set[Any] = set()
        for name in names:
            if self.at(name) in refused:
                dropped.add(name)
                continue
            reason = self._difference(name, datasets, varying)
            if reason is not None:
                self.tree.refuse(self.at(name), reason)
                dropped.add(name)
        kept = [dataset.drop_vars(list(dropped), errors="ignore") for dataset in datasets]
        if not varying and not self.is_new:
            self._note_first(kept[0], varying)
            return kept[0]
        found = self._isolated(kept)
        self._note_first(found, varying)
        return found

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

    def _difference(
        self, name: Any, datasets: Sequence[xr.Dataset], varying: set[Any]
    ) -> str | None:
        """Return why a variable cannot be one array, or None."""
        without = [
            file.url
            for file, dataset in zip(self.files, datasets, strict=True)
            if name not in dataset.variables
        ]
        if without:
            return f"it is not in {redact(without[0])}, as in {len(without)} of the files"
        first = datasets[0].variables[name]
        if not self.is_new and not varying & set(first.dims):
            return None
        for file, dataset in zip(self.files[1:], datasets[1:], strict=True):
            problem = _difference(first, dataset.variables[name])
            if problem is not None:
                return f"{problem} in {redact(file.url)} are not those in the first file"
        return None

    def _isolated(self, datasets: Sequence[xr.Dataset]) -> xr.Dataset:
        """Combine all, or, if that fails, all but the variables over which it does."""
        try:
            return self._combine(datasets)
        except FOREIGN_ERRORS:
            virtual = [name for name, item in datasets[0].variables.items() if _is_virtual(item)]
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
            # Virtual variables cannot be compared: what is not concatenated is the first one's.
            "compat": "override",
            "data_vars": "all" if self.is_new else "minimal",
            "coords": "minimal",
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

    def _note_first(self, dataset: xr.Dataset, varying: set[Any]) -> None:
        for name, variable in dataset.variables.items():
            if _is_virtual(variable) and not self.is_new and not varying & set(variable.dims):
                self.tree.note(
                    self.at(name), "it is that of the first file, and was not compared with others"
                )


def _is_virtual(variable: Any) -> bool:
    return isinstance(variable._data, library("virtualizarr.manifests").ManifestArray)


def _difference(first: Any, other: Any) -> str | None:
    """Return what keeps two variables from being parts of one array, or None."""
    if _is_virtual(first) != _is_virtual(other):
        return "its values, which were loaded for one file only,"
    if first.dims != other.dims:
        return f"its dimensions {shown(other.dims)}"
    if not _is_virtual(first):
        # xarray decodes loaded variables, and encodes them alike.
        return None
    ours, theirs = first._data.metadata.to_dict(), other._data.metadata.to_dict()
    for member, what in (("data_type", "its data type"), ("codecs", "its codecs")):
        if ours[member] != theirs[member]:
            return f"{what} {shown(theirs[member])}"
    if ours["chunk_grid"] != theirs["chunk_grid"]:
        return f"its chunks of {shown(other._data.metadata.chunk_grid.chunk_shape)}"
    if shown(ours["fill_value"]) != shown(theirs["fill_value"]):
        return f"its fill value {shown(theirs['fill_value'])}"
    for name in _MEANING:
        if shown(first.attrs.get(name)) != shown(other.attrs.get(name)):
            return f"its {name} {shown(other.attrs.get(name))}"
    return None
