"""Files that are ready to be combined: their groups as datasets, virtual or loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import zarr
from zarr.storage import StorePath

from zarr_manifest.conversion.files.trees import FileGroup, FileTree
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.format import join

if TYPE_CHECKING:
    import xarray as xr

type Combine = Literal["nested", "by_coords"]


@dataclass(frozen=True)
class CombineRules:
    """How files are combined.

    Parameters
    ----------
    concat_dim : str or None
        Dimension along which they are concatenated; a new one if no file has it. None
        for ``"by_coords"``, where the loaded coordinates decide.
    combine : {"nested", "by_coords"}
        As in xarray.
    override : frozenset of str
        Variables that are not compared between the files.
    fill_missing : bool
        Whether the chunks of a variable that a file lacks are absent.
    """

    concat_dim: str | None
    combine: Combine
    override: frozenset[str] = frozenset()
    fill_missing: bool = False


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


def open_groups(
    tree: FileTree,
    sources: Any,
    loadable: Iterable[str] | None,
    concat_dim: str | None,
    loaded: Mapping[str, xr.Variable] | None = None,
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
    loaded : mapping of str to Variable, optional
        By path, variables that have been loaded, and need not be read.
    """
    known = loaded or {}
    return {
        group.path: _dataset(group, sources, loadable, concat_dim, known) for group in tree.groups
    }


def is_coordinate(name: str, array: Any) -> bool:
    """Whether an array has the values of the dimension that it is named after."""
    return tuple(array.metadata.dimension_names or ()) == (name,)


def _dataset(
    group: FileGroup,
    sources: Any,
    loadable: Iterable[str] | None,
    concat_dim: str | None,
    known: Mapping[str, xr.Variable],
) -> xr.Dataset:
    manifests: Any = library("virtualizarr.manifests")
    wanted = set(loadable or ())
    loaded = {
        name: array
        for name, array in group.arrays.items()
        if name in wanted
        or (
            loadable is None
            and (is_coordinate(name, array) or (name == concat_dim and not array.shape))
        )
    }
    virtual = {name: array for name, array in group.arrays.items() if name not in loaded}
    found = manifests.ManifestGroup(arrays=virtual, attributes=dict(group.attributes))
    dataset: xr.Dataset = found.to_virtual_dataset()
    if not loaded:
        return dataset
    read = {name: known[at] for name in loaded if (at := join(group.path, name)) in known}
    unread = {name: array for name, array in loaded.items() if name not in read}
    if unread:
        read |= load_variables(unread, sources)
    xarray: Any = library("xarray")
    values = xarray.Dataset({name: read[name] for name in loaded})
    variables = {**values.variables, **dataset.variables}
    coordinates = {*values.coords, *dataset.coords, *{concat_dim} & set(values.variables)}
    indexes = {name: values.indexes[name] for name in values.indexes}
    return assembled(variables, coordinates, indexes, dataset.attrs)


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


def assembled(
    variables: Mapping[Any, Any], coordinates: Iterable[Any], indexes: Mapping[Any, Any], attrs: Any
) -> xr.Dataset:
    """Return a dataset without indexes for virtual variables, which cannot have any.

    Parameters
    ----------
    variables : mapping
        By name.
    coordinates : iterable of str
        The names of those that are coordinates.
    indexes : mapping
        Of pandas, by name of a coordinate.
    attrs : mapping
        Of the dataset.
    """
    xarray: Any = library("xarray")
    indexed: Any = xarray.Coordinates(
        {name: variables[name] for name in coordinates},
        indexes={name: xarray.indexes.PandasIndex(index, name) for name, index in indexes.items()},
    )
    data = {name: item for name, item in variables.items() if name not in set(coordinates)}
    dataset: xr.Dataset = xarray.Dataset(data, coords=indexed, attrs=attrs)
    return dataset
