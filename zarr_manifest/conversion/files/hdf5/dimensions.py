"""Names of the dimensions of HDF5 datasets, by the rules of netCDF-4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zarr_manifest.conversion.virtual import library

__all__ = [
    "PhonyNames",
    "dimension_identifiers",
    "dimension_names",
    "dimension_paths",
    "is_only_a_dimension",
]

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


def is_only_a_dimension(dataset: Any) -> bool:
    """Whether a dataset only represents a netCDF-4 dimension without a variable."""
    name = dataset.attrs.get("NAME", b"")
    return bytes(name if isinstance(name, bytes) else str(name).encode()).startswith(_NO_VARIABLE)


def dimension_identifiers(group: Any) -> dict[int, str]:
    """Return the paths of the dimensions that a netCDF-4 group defines, by identifier."""
    h5 = library("h5py")
    found: dict[int, str] = {}
    for name in group:
        if isinstance(group.get(name, getlink=True), h5.HardLink):
            item = group[name]
            # Variables that are not scales may state the identifier of their first dimension.
            if not isinstance(item, h5.Dataset) or not h5.h5ds.is_scale(item.id):
                continue
            if _IDENTIFIER in item.attrs:
                found.setdefault(int(item.attrs[_IDENTIFIER]), item.name)
    return found


def dimension_paths(dataset: Any, identifiers: Mapping[int, str]) -> tuple[str | None, ...]:
    """Return the path of the scale of every dimension of a dataset, or None.

    Parameters
    ----------
    dataset : h5py.Dataset
        Of an open file.
    identifiers : mapping of int to str
        Dimensions of its group and of the groups above.
    """
    h5 = library("h5py")
    # A multidimensional coordinate variable cannot have scales, because it is one itself.
    stated = dataset.attrs.get(_IDENTIFIERS)
    count = len(dataset.shape)
    if stated is not None and len(stated) == count and all(int(i) in identifiers for i in stated):
        return tuple(identifiers[int(i)] for i in stated)
    paths: list[str | None] = []
    is_scale = h5.h5ds.is_scale(dataset.id)
    for number in range(count):
        if is_scale:
            paths.append(dataset.name if number == 0 else None)
        else:
            scales = dataset.dims[number]
            paths.append((scales[0].name or None) if len(scales) else None)
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
