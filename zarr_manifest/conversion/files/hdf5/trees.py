"""HDF5 and netCDF-4 files through VirtualiZarr: every group, and each dataset on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr
from zarr.core.buffer import cpu
from zarr.core.metadata.v3 import ArrayV3Metadata
from zarr.storage import MemoryStore

from zarr_manifest.conversion.files.hdf5.datasets import Treatment, treatment_of
from zarr_manifest.conversion.files.hdf5.dimensions import (
    PhonyNames,
    dimension_identifiers,
    dimension_names,
    dimension_paths,
    is_only_a_dimension,
)
from zarr_manifest.conversion.files.hdf5.unlimited import UnlimitedDimensions
from zarr_manifest.conversion.files.trees import (
    FOREIGN_ERRORS,
    FileGroup,
    FileTree,
    parse_one_by_one,
    with_metadata,
)
from zarr_manifest.conversion.target import array_in_memory, unwritten_array
from zarr_manifest.conversion.values import brief, json_attributes
from zarr_manifest.conversion.virtual import library
from zarr_manifest.errors import NotConvertibleError

__all__ = ["read_hdf5"]

# Not all of its functions have known types.
_untyped_zarr: Any = zarr

# An attribute that netCDF-4 writes into the root of its files.
_PROPERTIES = "_NCProperties"

# Attributes for the bookkeeping of HDF5's dimension scales and of netCDF-4.
_BOOKKEEPING = frozenset(
    [
        "REFERENCE_LIST",
        "CLASS",
        "DIMENSION_LIST",
        "NAME",
        "_Netcdf4Dimid",
        "_Netcdf4Coordinates",
        "_nc3_strict",
        _PROPERTIES,
    ]
)

# Prefix of a netCDF-4 variable that has the name of a dimension but is not its coordinate.
_NOT_COORDINATE = "_nc4_non_coord_"


def read_hdf5(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse an HDF5 file.

    Parameters
    ----------
    url : str
        The URL in references.
    registry : object
        Resolves `url` to an obstore store and a key.
    inline_limit : int
        Largest size, in bytes, of a dataset that is stored inline because references
        cannot express it.

    Returns
    -------
    FileTree
        With every dataset of the file, converted or refused.
    """
    h5: Any = library("h5py")
    readers: Any = library("obspec_utils.readers")
    store, key = registry.resolve(url)
    reader = readers.BlockStoreReader(store, key)
    with h5.File(reader, mode="r") as file:
        walk = _Walk(url, registry, reader, inline_limit, FileTree())
        walk.group(file["/"], "", {}, ())
        if walk.is_netcdf or _PROPERTIES in file.attrs:
            walk.unlimited.fill_up()
    return walk.tree


@dataclass
class _Walk:
    url: str
    registry: Any
    reader: Any
    inline_limit: int
    tree: FileTree
    phony: PhonyNames = field(default_factory=PhonyNames)
    unlimited: UnlimitedDimensions = field(default_factory=UnlimitedDimensions)
    is_netcdf: bool = False

    def group(
        self, group: Any, path: str, identifiers: Mapping[int, str], above: tuple[int, ...]
    ) -> None:
        """Parse a group and all below it; `above` are the addresses of the groups around it."""
        h5: Any = library("h5py")
        identifiers = {**identifiers, **dimension_identifiers(group)}
        self.is_netcdf |= bool(identifiers)
        found = FileGroup(path, _attributes(group))
        self.tree.groups.append(found)
        datasets: dict[str, Any] = {}
        groups: dict[str, Any] = {}
        for name in group:
            item = self._member(group, name, _join(path, name))
            if isinstance(item, h5.Dataset):
                self.unlimited.see(item, dimension_paths(item, identifiers) if item.shape else ())
            if isinstance(item, h5.Dataset) and not is_only_a_dimension(item):
                datasets[name] = item
            elif isinstance(item, h5.Group):
                groups[name] = item
        self._datasets(found, group, datasets, identifiers)
        here = (*above, _address(group))
        for name, below in groups.items():
            if _address(below) in here:
                self.tree.refuse(_join(path, name), "it is a link to a group that contains it")
            else:
                self.group(below, _join(path, name), identifiers, here)

    def _member(self, group: Any, name: str, path: str) -> Any:
        h5: Any = library("h5py")
        link = group.get(name, getlink=True)
        if isinstance(link, h5.ExternalLink):
            self.tree.refuse(
                path,
                f"it is a link to {brief(link.path)} in another file, {brief(link.filename)}: "
                "convert that file separately",
            )
            return None
        try:
            return group[name]
        except KeyError:
            target = brief(getattr(link, "path", name))
            self.tree.refuse(path, f"it is a link to {target}, which does not exist")
            return None

    def _datasets(
        self, found: FileGroup, group: Any, datasets: Mapping[str, Any], identifiers: Any
    ) -> None:
        treatments: dict[str, Treatment] = {}
        for name, dataset in datasets.items():
            path = _join(found.path, _variable_name(name, group))
            try:
                treatments[name] = treatment_of(dataset, inline_limit=self.inline_limit)
            except NotConvertibleError as error:
                self.tree.refuse(path, error.message)
        wanted = [name for name in treatments if treatments[name] is not Treatment.UNWRITTEN]
        arrays, refused = self._parse(group, wanted)
        for name, treatment in treatments.items():
            path = _join(found.path, _variable_name(name, group))
            dataset = datasets[name]
            if name in refused:
                self.tree.refuse(path, f"VirtualiZarr cannot express it: {refused[name]}")
                continue
            paths = dimension_paths(dataset, identifiers)
            names = dimension_names(dataset.shape, paths, self.phony)
            try:
                array = _array(dataset, treatment, arrays.get(name), names)
            except FOREIGN_ERRORS as error:
                self.tree.refuse(path, f"zarr cannot express it: {error}")
                continue
            found.arrays[_variable_name(name, group)] = array
            self.unlimited.add(found.arrays, _variable_name(name, group), dataset, paths)
            self._notes(path, dataset, treatment, array)

    def _parse(self, group: Any, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
        parsers: Any = library("virtualizarr.parsers")

        def parse(wanted: Sequence[str]) -> Mapping[str, Any]:
            parser = parsers.HDFParser(
                group=group.name,
                drop_variables=set(group) - set(wanted),
                reader_factory=self._same_reader,
            )
            arrays: Mapping[str, Any] = parser(self.url, self.registry)._group.arrays
            return arrays

        return parse_one_by_one(names, parse) if names else ({}, {})

    def _same_reader(self, store: Any, key: str) -> Any:
        return self.reader

    def _notes(self, path: str, dataset: Any, treatment: Treatment, array: Any) -> None:
        _, lost = json_attributes(_raw_attributes(dataset), array.dtype)
        for sentence in lost:
            self.tree.note(path, sentence)
        if treatment is Treatment.INLINE:
            self.tree.note(path, "its values are stored inline, as references cannot express them")


def _array(dataset: Any, treatment: Treatment, parsed: Any, names: tuple[str, ...]) -> Any:
    manifests: Any = library("virtualizarr.manifests")
    if parsed is None:
        # VirtualiZarr leaves out some variables that were never written.
        if dataset.size and dataset.id.get_storage_size():
            raise ValueError("VirtualiZarr left it out")
        return _without_chunks(dataset, names)
    attributes, _ = json_attributes(_raw_attributes(dataset), parsed.dtype)
    array = with_metadata(parsed, dimension_names=names, attributes=attributes)
    if treatment is Treatment.INLINE and not array.manifest._inlined:
        return _with_values(array, dataset[()])
    if dataset.chunks is not None and not dataset.id.get_num_chunks():
        return _with_chunks(array, {})
    assert isinstance(array, manifests.ManifestArray)
    return array


def _without_chunks(dataset: Any, names: tuple[str, ...]) -> Any:
    h5: Any = library("h5py")
    manifests: Any = library("virtualizarr.manifests")
    dtype: Any = np.dtype(dataset.dtype.str) if dataset.dtype.kind in "iuf" else dataset.dtype
    fill_value = dataset.fillvalue
    if h5.check_string_dtype(dataset.dtype) and dtype.kind == "O":
        dtype = np.dtypes.StringDType()
        fill_value = fill_value.decode() if isinstance(fill_value, bytes) else ""
    attributes, _ = json_attributes(_raw_attributes(dataset), dtype)
    metadata = unwritten_array(
        dataset.shape,
        dtype,
        dimension_names=names,
        attributes=attributes,
        fill_value=fill_value,
        chunks=dataset.chunks,
    )
    shape = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    counts = tuple(-(-n // c) for n, c in zip(dataset.shape, shape, strict=True))
    manifest = manifests.ChunkManifest({}, shape=counts)
    return manifests.ManifestArray(ArrayV3Metadata.from_dict(metadata), manifest)


def _with_values(array: Any, values: Any) -> Any:
    """Return a ``ManifestArray`` with all chunks inline, encoded according to its metadata."""
    contents: dict[str, Any] = {
        "zarr.json": array.metadata.to_buffer_dict(cpu.buffer_prototype)["zarr.json"]
    }
    target: Any = _untyped_zarr.open_array(MemoryStore(contents), mode="r+")
    target[...] = values
    _, chunks = array_in_memory(contents, "")
    return _with_chunks(array, chunks)


def _with_chunks(array: Any, chunks: Mapping[tuple[int, ...], bytes]) -> Any:
    manifests: Any = library("virtualizarr.manifests")
    grid = array.metadata.chunk_grid.chunk_shape
    counts = tuple(-(-n // c) for n, c in zip(array.shape, grid, strict=True))
    entries = {
        ".".join(map(str, index)) or "c": {
            "path": "",
            "offset": 0,
            "length": len(data),
            "data": data,
        }
        for index, data in chunks.items()
    }
    manifest = manifests.ChunkManifest(entries, shape=counts)
    return manifests.ManifestArray(metadata=array.metadata, chunkmanifest=manifest)


def _attributes(item: Any) -> dict[str, Any]:
    return json_attributes(_raw_attributes(item))[0]


def _raw_attributes(item: Any) -> dict[str, Any]:
    h5: Any = library("h5py")
    found: dict[str, Any] = {}
    for name in item.attrs:
        if name in _BOOKKEEPING:
            continue
        value: Any = item.attrs[name]
        if isinstance(value, h5.Empty):
            value = ""
        elif np.ndim(value) and np.size(value) == 1:
            # netCDF does not distinguish one value from a list of one.
            value = np.reshape(value, ())[()]
        found[name] = value
    return found


def _variable_name(name: str, group: Any) -> str:
    plain = name.removeprefix(_NOT_COORDINATE)
    if plain != name and plain in group and not is_only_a_dimension(group[plain]):
        return name
    return plain


def _address(item: Any) -> int:
    h5: Any = library("h5py")
    return int(h5.h5o.get_info(item.id).addr)


def _join(group: str, name: str) -> str:
    return f"{group}/{name}" if group else name
