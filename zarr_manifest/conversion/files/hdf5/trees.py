"""HDF5 and netCDF-4 files: every group, each dataset and each attribute on its own.

h5py cannot express all of them, and HDF5 cannot read what is damaged.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zarr_manifest.conversion.files.hdf5.arrays import node_of_dataset
from zarr_manifest.conversion.files.hdf5.datasets import treatment_of
from zarr_manifest.conversion.files.hdf5.dimensions import (
    PhonyNames,
    ScalePaths,
    UnlimitedDimensions,
    address,
    dimension_identifier,
    dimension_names,
    dimension_paths,
    is_only_a_dimension,
    is_scale,
)
from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree, explained
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import brief, text_of
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.format import join

# Prefix of a netCDF-4 variable that has the name of a dimension but is not its coordinate.
_NOT_COORDINATE = "_nc4_non_coord_"


def read_hdf5(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse an HDF5 file.

    Parameters
    ----------
    url : str
        The URL in references.
    registry : object
        The :class:`FileSources` that read `url`.
    inline_limit : int
        Largest size, in bytes, of a dataset that is stored inline because references
        cannot express it.

    Returns
    -------
    FileTree
        With every dataset of the file, converted or refused.
    """
    h5: Any = library("h5py")
    # A missing library is no reason to refuse each dataset.
    library("virtualizarr.manifests")
    reader = WatchedReader(registry.reader(url))
    with h5.File(reader, mode="r") as file:
        walk = _Walk(url, reader, inline_limit, FileTree(), ScalePaths(file))
        walk.group(file["/"], "", {}, ())
        if walk.is_netcdf or PROPERTIES in file.attrs:
            walk.unlimited.fill_up(walk.tree)
    return walk.tree


@dataclass
class _Walk:
    url: str
    reader: WatchedReader
    inline_limit: int
    tree: FileTree
    scales: ScalePaths
    phony: PhonyNames = field(default_factory=PhonyNames)
    unlimited: UnlimitedDimensions = field(default_factory=UnlimitedDimensions)
    alike: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    is_netcdf: bool = False

    @contextmanager
    def refusing(self, path: str) -> Generator[None]:
        """Refuse a node that cannot be read or expressed; a failure to read is the file's."""
        try:
            yield
        except NotConvertibleError as error:
            self.tree.refuse(path, error.message)
        except HDF5_ERRORS as error:
            self.reader.require_no_failure()
            self.tree.refuse(path, f"it cannot be read: {explained(error)}")

    def group(
        self, group: Any, path: str, identifiers: Mapping[int, str], above: tuple[int, ...]
    ) -> None:
        """Parse a group and all below it; `above` are the addresses of the groups around it."""
        h5: Any = library("h5py")
        here = (*above, address(group.id))
        names = list(group)
        self._group(group, path)
        members = self._members(group, names, path)
        datasets = {p: item for p, item in members.items() if isinstance(item, h5.Dataset)}
        identifiers = {**identifiers, **self._identifiers(datasets)}
        self.is_netcdf |= bool(identifiers)
        for inside, dataset in datasets.items():
            with self.refusing(inside):
                name = _variable_name(inside, datasets)
                with self.refusing(join(path, name)):
                    self._dataset(join(path, name), dataset, inside, identifiers)
        for inside, below in members.items():
            if isinstance(below, h5.Group):
                with self.refusing(inside):
                    if address(below.id) in here:
                        raise NotConvertibleError("it is a link to a group that contains it")
                    self.group(below, inside, identifiers, here)

    def _group(self, group: Any, path: str) -> None:
        """Add a group, with those of its attributes that can be read."""
        stated: Mapping[Any, Any] = {}
        try:
            stated, notes = read_attributes(group)
        except HDF5_ERRORS as error:
            self.reader.require_no_failure()
            notes = [f"its attributes were left out: {explained(error)}"]
        self.tree.add_group(path, stated)
        self.tree.note(path, *notes)

    def _members(self, group: Any, names: Sequence[str | bytes], path: str) -> dict[str, Any]:
        """Return the members that can be opened, by path."""
        h5: Any = library("h5py")
        found: dict[str, Any] = {}
        for name in names:
            inside = join(path, text_of(name))
            with self.refusing(inside):
                if inside in found:
                    raise NotConvertibleError("another member of its group has the same name")
                item = _opened(group, name)
                found[inside] = item
                if isinstance(item, h5.Dataset) and is_scale(item):
                    self.scales.see(item, inside)
                if isinstance(name, bytes):
                    self.tree.note(inside, "its name is not UTF-8, and was read as Latin-1")
        return found

    def _identifiers(self, datasets: Mapping[str, Any]) -> dict[int, str]:
        """Return the paths of the dimensions that a netCDF-4 group defines, by identifier."""
        found: dict[int, str] = {}
        for path, item in datasets.items():
            # What cannot be read is refused when the dataset is.
            with suppress(*HDF5_ERRORS):
                identifier = dimension_identifier(item)
                if identifier is not None:
                    found.setdefault(identifier, path)
        return found

    def _dataset(
        self, path: str, dataset: Any, inside: str, identifiers: Mapping[int, str]
    ) -> None:
        paths = dimension_paths(dataset, inside, identifiers, self.scales) if dataset.shape else ()
        self.unlimited.see(dataset, paths)
        if is_only_a_dimension(dataset):
            return
        treatment = treatment_of(dataset, inline_limit=self.inline_limit)
        attributes, notes = read_attributes(dataset)
        try:
            node = node_of_dataset(
                path,
                self.url,
                dataset,
                treatment,
                dimension_names=dimension_names(dataset.shape, paths, self.phony),
                attributes=attributes,
                notes=notes,
                alike=self.alike,
            )
        except FOREIGN_ERRORS as error:
            self.reader.require_no_failure()
            raise NotConvertibleError(
                f"VirtualiZarr cannot express it: {explained(error)}"
            ) from error
        if not self.tree.add(node):
            return
        self.tree.keep_precision(path, attributes)
        if enumeration := _enumeration(dataset.dtype):
            self.tree.meanings.setdefault(path, {})["enumeration"] = enumeration
        self.unlimited.add(path, dataset, paths)


def _opened(group: Any, name: str | bytes) -> Any:
    """Return a member of a group.

    Raises
    ------
    NotConvertibleError
        It is in another file, or nowhere.
    """
    h5: Any = library("h5py")
    links = group.id.links
    raw = name if isinstance(name, bytes) else name.encode()
    kind = links.get_info(raw).type
    if kind == h5.h5l.TYPE_EXTERNAL:
        filename, path = map(text_of, links.get_val(raw))
        raise NotConvertibleError(
            f"it is a link to {brief(path)} in another file, {brief(filename)}: "
            "convert that file separately"
        )
    try:
        return group[name]
    except KeyError as error:
        if kind != h5.h5l.TYPE_SOFT:
            raise
        target = brief(text_of(links.get_val(raw)))
        raise NotConvertibleError(f"it is a link to {target}, which does not exist") from error


def _variable_name(path: str, datasets: Mapping[str, Any]) -> str:
    """Return the name of a variable, which netCDF-4 hides if a dimension has it."""
    group, _, name = path.rpartition("/")
    shown = name.removeprefix(_NOT_COORDINATE)
    other = datasets.get(join(group, shown)) if shown != name else None
    return name if other is not None and not is_only_a_dimension(other) else shown


def _enumeration(dtype: Any) -> dict[str, dict[str, int]]:
    """Return the numbers of enumerations by name, by field of a compound type or ``""``."""
    members = library("h5py").check_enum_dtype(dtype)
    found = {"": {name: int(number) for name, number in members.items()}} if members else {}
    for field_name in dtype.names or ():
        below = _enumeration(dtype[field_name])
        found |= {f"{field_name}/{inside}": numbers for inside, numbers in below.items()}
    return found


# Attributes ------------------------------------------------------------------------------


# An attribute that netCDF-4 writes into the root of its files.
PROPERTIES = "_NCProperties"

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
        PROPERTIES,
    ]
)


def read_attributes(item: Any) -> tuple[Mapping[str | bytes, Any], list[str]]:
    """Return the attributes of a group or dataset, and notes about those left out.

    Names and values that are not UTF-8 are bytes.
    """
    h5: Any = library("h5py")
    found: dict[str | bytes, Any] = {}
    notes: list[str] = []
    for name in item.attrs:
        if name in _BOOKKEEPING:
            continue
        try:
            value = item.attrs[name]
        except HDF5_ERRORS as error:
            notes.append(f"the attribute {brief(text_of(name))} was left out: {explained(error)}")
            continue
        if isinstance(value, h5.Empty):
            value = ""
        elif np.ndim(value) and np.size(value) == 1:
            # netCDF does not distinguish one value from a list of one.
            value = np.reshape(value, ())[()]
        found[name] = _with_bytes(value)
    return found, notes


def _with_bytes(value: Any) -> Any:
    """Undo that h5py decodes bytes that are not UTF-8 to lone surrogates."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode(errors="surrogateescape")
    values: Any = value
    if isinstance(value, np.ndarray) and values.dtype.kind == "O" and values.size:
        return np.vectorize(_with_bytes, otypes=[object])(values)
    return values


# The file that HDF5 reads ----------------------------------------------------------------


# What h5py raises for objects that it cannot express, and HDF5 for damaged ones.
HDF5_ERRORS = (*FOREIGN_ERRORS, OSError, MemoryError)


class WatchedReader:
    """The file that HDF5 reads. Remembers a failure to read, which HDF5 may hide or rephrase.

    Parameters
    ----------
    reader : object
        Reads it in blocks.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._failure: Exception | None = None

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Set the position, and return it."""
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        """Return the position."""
        return int(self._reader.tell())

    def read(self, size: int = -1, /) -> bytes:
        """Return `size` bytes.

        Raises
        ------
        OSError
            There are fewer. h5py would take what is in memory for the others.
        """
        try:
            found = bytes(self._reader.read(size))
            if len(found) < size:
                raise OSError(f"{size} bytes were requested, but only {len(found)} were received")
        except Exception as error:
            self._failure = error
            raise
        return found

    def require_no_failure(self) -> None:
        """Raise the failure to read, if there was one: then nothing in the file is to blame."""
        if self._failure is not None:
            raise self._failure
