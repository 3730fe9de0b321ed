"""Names and lengths of the dimensions of HDF5 datasets, by the rules of netCDF-4."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zarr_manifest.conversion.files.trees import FileTree
from zarr_manifest.conversion.joining import placed
from zarr_manifest.conversion.nodes import ArrayNode, grid_of, whole
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.values import text_of
from zarr_manifest.manifest import Manifest

_IDENTIFIER = "_Netcdf4Dimid"
_IDENTIFIERS = "_Netcdf4Coordinates"
_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


class PhonyNames:
    """Names for the nameless dimensions of a file: one for each length.

    They are shared by the whole file, because xarray requires nested groups to agree.

    Examples
    --------
    >>> phony = PhonyNames()
    >>> [phony.name(3, 0), phony.name(5, 0), phony.name(3, 0), phony.name(3, 1)]
    ['phony_dim_0', 'phony_dim_1', 'phony_dim_0', 'phony_dim_2']
    """

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str] = {}

    def name(self, length: int, occurrence: int) -> str:
        """Return the name for the n-th nameless dimension of this length of a dataset."""
        return self._names.setdefault((length, occurrence), f"phony_dim_{len(self._names)}")


class ScalePaths:
    """Paths of the dimension scales of a file, by address.

    A dataset refers to its scales by address. HDF5 finds their names by searching the file.

    Parameters
    ----------
    file : h5py.File
        Open.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._known: dict[int, str] = {}
        self._searched = False

    def see(self, scale: Any, path: str) -> None:
        """Record the path of a scale."""
        self._known.setdefault(address(scale.id), path)

    def path(self, scale: Any) -> str | None:
        """Return the path of a scale, or None if it has none."""
        found = self._known.get(address(scale))
        if found is None and not self._searched:
            # It is in a group that comes later.
            self._searched = True
            h5 = library("h5py")
            h5.h5o.visit(self._file.id, self._add, info=True)
            found = self._known.get(address(scale))
        return found

    def _add(self, name: bytes, info: Any) -> None:
        self._known.setdefault(int(info.addr), text_of(name))


def address(identifier: Any) -> int:
    """Return the address of an object in its file, which is the same for all names of it."""
    return int(library("h5py").h5o.get_info(identifier).addr)


def is_only_a_dimension(dataset: Any) -> bool:
    """Whether a dataset only represents a netCDF-4 dimension without a variable."""
    name = dataset.attrs.get("NAME", b"")
    return bytes(name if isinstance(name, bytes) else str(name).encode()).startswith(_NO_VARIABLE)


def is_scale(dataset: Any) -> bool:
    """Whether a dataset is a dimension scale."""
    return bool(library("h5py").h5ds.is_scale(dataset.id))


def dimension_identifier(dataset: Any) -> int | None:
    """Return the identifier of the netCDF-4 dimension that a dataset represents, or None."""
    # Variables that are not scales may state the identifier of their first dimension.
    if not is_scale(dataset) or _IDENTIFIER not in dataset.attrs:
        return None
    return int(dataset.attrs[_IDENTIFIER])


def dimension_paths(
    dataset: Any, path: str, identifiers: Mapping[int, str], scales: ScalePaths
) -> tuple[str | None, ...]:
    """Return the path of the scale of every dimension of a dataset, or None.

    Parameters
    ----------
    dataset : h5py.Dataset
        Of an open file.
    path : str
        Its path.
    identifiers : mapping of int to str
        Paths of the dimensions of its group and of the groups above.
    scales : ScalePaths
        Of its file.
    """
    h5 = library("h5py")
    # A multidimensional coordinate variable cannot have scales, because it is one itself.
    stated = dataset.attrs.get(_IDENTIFIERS)
    count = len(dataset.shape)
    if stated is not None and len(stated) == count and all(int(i) in identifiers for i in stated):
        return tuple(identifiers[int(i)] for i in stated)
    if is_scale(dataset):
        return (path, *[None] * (count - 1)) if count else ()
    paths: list[str | None] = []
    for number in range(count):
        attached: list[Any] = []
        if h5.h5ds.get_num_scales(dataset.id, number):
            h5.h5ds.iterate(dataset.id, number, attached.append, 0)
        paths.append(scales.path(attached[0]) if attached else None)
    return tuple(paths)


def dimension_names(
    shape: Sequence[int], paths: Sequence[str | None], phony: PhonyNames
) -> tuple[str, ...]:
    """Return a name for every dimension of a dataset.

    Parameters
    ----------
    shape : sequence of int
        Of the dataset.
    paths : sequence of (str or None)
        Of the scales of its dimensions.
    phony : PhonyNames
        Of its file.
    """
    names: list[str] = []
    nameless: dict[int, int] = {}
    for length, path in zip(shape, paths, strict=True):
        if path is not None:
            names.append(path.rpartition("/")[2])
        else:
            occurrence = nameless.get(length, 0)
            nameless[length] = occurrence + 1
            names.append(phony.name(length, occurrence))
    return tuple(names)


# Unlimited dimensions --------------------------------------------------------------------


@dataclass
class UnlimitedDimensions:
    """Collects the lengths of the dimensions of a file, and extends its variables to them.

    HDF5 stores a length for every dataset. netCDF extends the shorter ones to the longest with
    fill values; so does xarray, which refuses variables of different lengths.
    """

    _lengths: dict[str, int] = field(default_factory=dict[str, int])
    _arrays: list[tuple[str, tuple[str | None, ...]]] = field(default_factory=list[Any])

    def see(self, dataset: Any, paths: Sequence[str | None]) -> None:
        """Record the lengths of a dataset along the dimensions of these paths."""
        for path, length in zip(paths, dataset.shape or (), strict=False):
            if path is not None:
                self._lengths[path] = max(self._lengths.get(path, 0), length)

    def add(self, path: str, dataset: Any, paths: Sequence[str | None]) -> None:
        """Add an array, some of whose dimensions may be longer than it is."""
        unlimited = tuple(
            path if longest is None else None
            for path, longest in zip(paths, dataset.maxshape, strict=True)
        )
        if any(unlimited):
            self._arrays.append((path, unlimited))

    def fill_up(self, tree: FileTree) -> None:
        """Replace the arrays by ones as long as their dimensions."""
        for path, unlimited in self._arrays:
            node = tree.made.get(path)
            if isinstance(node, ArrayNode):
                stated: list[int] = node.metadata["shape"]
                pairs = zip(unlimited, stated, strict=True)
                shape = [n if longest is None else self._lengths[longest] for longest, n in pairs]
                if shape != stated:
                    tree.made[path] = _with_shape(node, shape)


def _with_shape(node: ArrayNode, shape: list[int]) -> ArrayNode:
    metadata = {**node.metadata, "shape": shape}
    longer = placed(whole(node), grid_of(metadata).counts, 0)
    return dataclasses.replace(node, metadata=metadata, manifest=Manifest(longer))
