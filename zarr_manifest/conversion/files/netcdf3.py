"""netCDF classic files (CDF-1, CDF-2, CDF-5) through VirtualiZarr."""

from __future__ import annotations

from typing import Any

from zarr_manifest.conversion.files.trees import FOREIGN_ERRORS, FileTree
from zarr_manifest.conversion.virtual import library
from zarr_manifest.errors import NotConvertibleError

__all__ = ["read_netcdf3"]


def read_netcdf3(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a netCDF classic file: every variable in its header.

    Raises
    ------
    NotConvertibleError
        The header cannot be read.
    """
    parsers: Any = library("virtualizarr.parsers")
    try:
        store = parsers.NetCDF3Parser()(url, registry)
    except FOREIGN_ERRORS as error:
        raise NotConvertibleError(f"this is not a netCDF classic file: {error}") from error
    tree = FileTree()
    tree.add_manifest_group(store._group)
    return tree
