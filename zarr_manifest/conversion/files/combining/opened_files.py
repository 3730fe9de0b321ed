"""Files that are ready to be combined: their groups as datasets, virtual or loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.storage import StorePath

from zarr_manifest.conversion.files.trees import FileTree
from zarr_manifest.conversion.nodes import RefusedNode
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import as_array
from zarr_manifest.conversion.virtualizarr_internals import is_virtual
from zarr_manifest.format import join

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class CombineRules:
    """How files are combined.

    Parameters
    ----------
    concat_dim : str or None
        Dimension along which they are concatenated; a new one if no file has it. If None, the
        loaded coordinates decide.
    override : frozenset of str
        Variables that are not compared between the files.
    fill_missing : bool
        Whether the chunks of a variable that a file lacks are absent.
    """

    concat_dim: str | None
    override: frozenset[str] = frozenset()
    fill_missing: bool = False

    @property
    def by_coords(self) -> bool:
        """Whether coordinates decide where files are placed."""
        return self.concat_dim is None


@dataclass(frozen=True, slots=True)
class FileDataset:
    """One group of a file, as xarray's datasets are, but of a fraction of their size.

    Not changed once it is made: files share what is equal.

    Parameters
    ----------
    variables : mapping of str to Variable
        Virtual and loaded ones.
    coords : frozenset of str
        The names of those that are coordinates.
    attrs : mapping
        Of the group.
    indexes : mapping of str to Index
        Of pandas, for loaded coordinates of the dimension that they are named after.
    """

    variables: Mapping[str, Any]
    coords: frozenset[str]
    attrs: Mapping[str, Any]
    indexes: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        variables: Mapping[str, Any],
        coords: Iterable[str],
        attrs: Mapping[str, Any],
        known: FileDataset | None = None,
    ) -> FileDataset:
        """Return a dataset with its indexes, but for those that another one has already."""
        own = [name for name, variable in variables.items() if variable.dims == (name,)]
        indexes = {
            name: known.indexes[name]
            if known is not None and variables[name] is known.variables.get(name)
            else _index(variables[name])
            for name in own
            if not is_virtual(variables[name])
        }
        return cls(variables, frozenset([*own, *coords]) & variables.keys(), attrs, indexes)

    @property
    def dims(self) -> Mapping[str, int]:
        """The length of every dimension."""
        return {
            dim: length
            for variable in self.variables.values()
            for dim, length in zip(variable.dims, variable.shape, strict=True)
        }

    def assigned(self, variables: Mapping[str, Any]) -> FileDataset:
        """Return a dataset with variables added or replaced."""
        if not variables:
            return self
        return FileDataset.of({**self.variables, **variables}, self.coords, self.attrs, self)

    def without(self, names: Collection[str]) -> FileDataset:
        """Return a dataset without some variables."""
        if self.variables.keys().isdisjoint(names):
            return self
        kept = {name: v for name, v in self.variables.items() if name not in names}
        return FileDataset.of(kept, self.coords, self.attrs, self)


def _indexed(dataset: FileDataset, like: FileDataset | None) -> FileDataset:
    """Return a dataset with its indexes, and with what is equal in another one."""
    known: Mapping[str, Any] = {} if like is None else like.variables
    variables = {name: _shared(each, known.get(name)) for name, each in dataset.variables.items()}
    return FileDataset.of(variables, dataset.coords, dataset.attrs, like)


def _index(variable: Any) -> Any:
    """Return the index of a coordinate of its own dimension."""
    if variable.dtype.kind in "iuf" and variable.dtype.itemsize >= 4:
        # As below, in a tenth of the time.
        return library("pandas").Index(variable.values, name=variable.dims[0])
    return variable.to_index()


def _shared(variable: Any, other: Any) -> Any:
    """Return a variable, or an equal one; virtual ones share their metadata."""
    if other is None or is_virtual(variable) != is_virtual(other):
        return variable
    if is_virtual(variable):
        ours, theirs = variable.data, other.data
        if ours.metadata is not theirs.metadata and ours.metadata == theirs.metadata:
            return variable.copy(deep=False, data=type(ours)(theirs.metadata, ours.manifest))
        return variable
    is_equal = (
        variable.dtype == other.dtype
        and variable.encoding == other.encoding
        and variable.dims == other.dims
        and variable.shape == other.shape
        and bool((variable.values == other.values).all())
        and repr(variable.attrs) == repr(other.attrs)
    )
    return other if is_equal else variable


@dataclass(slots=True)
class OpenedFile:
    """A file, ready to be combined with others.

    Parameters
    ----------
    url : str
        Its URL.
    datasets : dict of str to FileDataset
        By path of the group.
    refused, notes, meanings, conditions
        As of `FileTree`.
    """

    url: str
    datasets: dict[str, FileDataset]
    refused: Sequence[RefusedNode]
    notes: Mapping[str, Sequence[str]]
    meanings: Mapping[str, Mapping[str, Any]]
    conditions: Mapping[str, Mapping[str, str | int]]

    def indexed(self, like: OpenedFile | None) -> OpenedFile:
        """Return the file with its indexes, sharing what is equal in another."""
        known = {} if like is None else like.datasets
        datasets = {path: _indexed(each, known.get(path)) for path, each in self.datasets.items()}
        return dataclasses.replace(self, datasets=datasets, conditions={})


def open_file(
    url: str,
    tree: FileTree,
    sources: Any,
    loadable: Collection[str] | None,
    concat_dim: str | None,
    loaded: Mapping[str, xr.Variable] | None = None,
) -> OpenedFile:
    """Return a file, its groups as datasets; see `OpenedFile.indexed`.

    Parameters
    ----------
    url : str
        Its URL.
    tree : FileTree
        The parsed file.
    sources : FileSources
        Reads the variables to load.
    loadable : collection of str or None
        Names of variables to load; by default, one-dimensional coordinates named after
        their dimension, and the single value of a file along a new dimension.
    concat_dim : str or None
        Dimension along which files are concatenated.
    loaded : mapping of str to Variable, optional
        By path, variables that have been loaded, and need not be read.
    """
    make: Any = library("xarray").Variable
    datasets: dict[str, FileDataset] = {}
    for group in tree.groups:
        variables: dict[str, Any] = {}
        unread: dict[str, Any] = {}
        for name, array in group.arrays.items():
            at, dims = join(group.path, name), tuple(array.metadata.dimension_names or ())
            is_new = name == concat_dim and not array.shape
            if at in tree.chunk_grids:  # VirtualiZarr has only regular ones
                reason = "its chunks differ in length, and such arrays are not combined"
                tree.refuse(at, f"{reason} with those of other files")
            elif name not in loadable if loadable is not None else dims != (name,) and not is_new:
                variables[name] = make(dims, array, array.metadata.attributes)
            elif loaded is not None and at in loaded:
                variables[name] = loaded[at]
            else:
                unread[name] = array
        variables |= load_variables(unread, sources)
        variables = {name: variables[name] for name in group.arrays if name in variables}
        attributes = dict(group.attributes)
        stated = [attributes.pop("coordinates", "")]
        stated += [variable.attrs.get("coordinates", "") for variable in variables.values()]
        listed = (as_array(each) or str(each).split() for each in stated)
        coordinates = {str(name) for names in listed for name in names}
        if concat_dim is not None and concat_dim in variables:
            coordinates.add(concat_dim)
        datasets[group.path] = FileDataset(variables, frozenset(coordinates), attributes, {})
    return OpenedFile(url, datasets, tree.refused, tree.notes, tree.meanings, tree.conditions)


def is_coordinate(name: str, array: Any) -> bool:
    """Whether an array has the values of the dimension that it is named after."""
    return tuple(array.metadata.dimension_names or ()) == (name,)


def load_variables(arrays: Mapping[str, Any], sources: Any) -> dict[str, xr.Variable]:
    """Return arrays as variables with their values, as stored.

    Parameters
    ----------
    arrays : mapping of str to ManifestArray
        By name.
    sources : FileSources
        Reads them.
    """
    # As stored: their meaning has to be compared with that in other files.
    decode: Any = library("xarray.backends.zarr").FillValueCoder.decode
    found: dict[str, xr.Variable] = {}
    for name, array in arrays.items():
        values, attributes = stored_values(array, sources), dict(array.metadata.attributes)
        if "_FillValue" in attributes:
            attributes["_FillValue"] = decode(attributes["_FillValue"], values.dtype)
        found[name] = stored_variable(array.metadata.dimension_names or (), values, attributes)
    return found


def stored_values(array: Any, sources: Any) -> Any:
    """Return the values of a ``ManifestArray``, all of whose chunks are read."""
    manifests: Any = library("virtualizarr.manifests")
    group = manifests.ManifestGroup(arrays={"values": array}, attributes={})
    at = StorePath(manifests.ManifestStore(group, registry=sources), "values")
    # Opening it would encode, list and decode metadata that are known.
    read: Any = zarr.Array(zarr.AsyncArray(array.metadata, at))[...]
    return np.asarray(read)


def stored_variable(dims: Sequence[Any], values: Any, attributes: Mapping[Any, Any]) -> xr.Variable:
    """Return a variable with values as stored in a file.

    How they were encoded there says nothing about how to store them, unless they are texts.
    """
    encoding = {"dtype": values.dtype} if values.dtype.kind == "T" else {}
    variable: xr.Variable = library("xarray").Variable(dims, values, attributes, encoding)
    return variable
