"""Files that are ready to be combined: their groups as datasets, virtual or loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from zarr_manifest.conversion.files.trees import FileGroup, FileTree
from zarr_manifest.conversion.optional_libraries import library

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
    return assembled(variables, coordinates, indexes, dataset.attrs)


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
