"""The scientific files of the demonstration, and their chunks as VirtualiZarr finds them."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import h5py
import iris_sample_data
import netCDF4
import virtualizarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore
from virtualizarr.manifests import ManifestArray
from virtualizarr.parsers import HDFParser, NetCDF3Parser
from zarr.errors import UnstableSpecificationWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    import xarray as xr

#: Group of the hierarchy -> file of the package iris-sample-data that it shows.
FILE_OF_GROUP = {
    "ostia": "ostia_monthly.nc",
    "nemo": "NEMO/nemo_1m_20150101-20150201_grid-T.nc",
    "north_america": "A1B_north_america.nc",
    "space_weather": "space_weather.nc",
    "wind_record": "vlstr_type.nc",
}

DATA_DIRECTORY = Path(iris_sample_data.path).resolve()

#: URL under which everything that the demonstration refers to lies.
DATA_URL = DATA_DIRECTORY.as_uri() + "/"


@dataclass(frozen=True)
class VirtualVariable:
    """One variable of a file, as Zarr metadata and chunk references.

    Attributes
    ----------
    metadata : dict
        Zarr v3 array metadata, without ``attributes`` and ``dimension_names``.
    chunks : dict
        Canonical chunk key -> VirtualiZarr's entry: ``path`` (a URL), ``offset``,
        ``length``, and ``data`` if the parser inlined the chunk.
    """

    name: str
    metadata: dict[str, Any]
    dimension_names: tuple[str, ...]
    attributes: dict[str, Any]
    chunks: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class VirtualFile:
    """A file's variables; those that cannot be expressed are in `refused`, with the reason."""

    group: str
    path: Path
    attributes: dict[str, Any]
    variables: list[VirtualVariable]
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def format_name(self) -> str:
        """Name of the file format, such as ``"netCDF-3"``."""
        return "HDF5/netCDF-4" if h5py.is_hdf5(self.path) else "netCDF-3"


@contextmanager
def unstable_types_accepted() -> Iterator[None]:
    """Silence zarr's warning about data types without a specification (netCDF's ``char``)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableSpecificationWarning)
        yield


def find_chunks(group: str) -> VirtualFile:
    """Locate the chunks of every variable of one of the files, reading no data.

    Parameters
    ----------
    group : str
        A key of `FILE_OF_GROUP`.

    Returns
    -------
    VirtualFile
        Every variable that netCDF4 sees is either in ``variables`` or in ``refused``.
    """
    path = DATA_DIRECTORY / FILE_OF_GROUP[group]
    with unstable_types_accepted():
        dataset = virtualizarr.open_virtual_dataset(
            path.as_uri(),
            registry=ObjectStoreRegistry({"file://": LocalStore()}),
            parser=HDFParser() if h5py.is_hdf5(path) else NetCDF3Parser(),
            loadable_variables=[],
            decode_times=False,
        )
    virtual = VirtualFile(group, path, dict(dataset.attrs), [])
    for name, variable in dataset.variables.items():
        _add_variable(virtual, str(name), variable)
    found = {variable.name for variable in virtual.variables} | virtual.refused.keys()
    for name in sorted(variable_names(path) - found):
        virtual.refused[name] = "VirtualiZarr did not report it"
    return virtual


def variable_names(path: Path) -> set[str]:
    """Return the names of the variables that netCDF4 sees in a file."""
    with netCDF4.Dataset(path) as file:
        return set(file.variables)


def _add_variable(virtual: VirtualFile, name: str, variable: xr.Variable) -> None:
    array = variable.data
    if not isinstance(array, ManifestArray):
        virtual.refused[name] = f"VirtualiZarr loaded it as {type(array).__name__}"
        return
    chunks = {key or "0": dict(chunk) for key, chunk in array.manifest.dict().items()}
    strangers = {url for url in map(_file_of, chunks.values()) if url not in (virtual.path, None)}
    if strangers:
        virtual.refused[name] = f"its chunks lie in other files: {sorted(map(str, strangers))}"
        return
    metadata = array.metadata.to_dict()
    for member in ("attributes", "dimension_names", "storage_transformers"):
        metadata.pop(member, None)
    dimension_names = tuple(map(str, variable.dims))
    virtual.variables.append(
        VirtualVariable(name, metadata, dimension_names, dict(variable.attrs), chunks)
    )


def _file_of(chunk: dict[str, Any]) -> Path | None:
    """Return the file that a chunk lies in, or None for an inlined chunk."""
    return None if "data" in chunk else Path(unquote(urlsplit(chunk["path"]).path))
