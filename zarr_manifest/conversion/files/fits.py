"""FITS files through VirtualiZarr: every HDU with data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zarr_manifest.conversion.attribute_values import json_attributes
from zarr_manifest.conversion.files.trees import FileGroup, FileTree, parse_one_by_one
from zarr_manifest.conversion.virtual.library import library

__all__ = ["read_fits"]


def read_fits(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a FITS file; an HDU without data only has attributes."""
    fits: Any = library("astropy.io.fits", "reading FITS")
    readers: Any = library("obspec_utils.readers")
    parsers: Any = library("virtualizarr.parsers")
    tree = FileTree()
    names: list[str] = []
    with fits.open(
        readers.BlockStoreReader(*registry.resolve(url)), do_not_scale_image_data=True
    ) as file:
        wanted: list[str] = []
        for number, unit in enumerate(file):
            # As VirtualiZarr names them.
            name = unit.name or str(number)
            name = f"{name}_{number}" if name in names else name
            names.append(name)
            if not unit.header.get("NAXIS", 0):
                continue
            reason = _reason_against(fits, unit)
            if reason is None:
                wanted.append(name)
            else:
                tree.refuse(name, reason)

    def parse(some: Sequence[str]) -> Mapping[str, Any]:
        parser = parsers.FITSParser(skip_variables=set(names) - set(some))
        return dict(parser(url, registry)._group.arrays)

    arrays, refused = parse_one_by_one(wanted, parse) if wanted else ({}, {})
    primary = parsers.FITSParser(skip_variables=set(names[1:]) | set(wanted))(url, registry)
    attributes, _ = json_attributes(dict(primary._group.metadata.attributes))
    tree.groups.append(FileGroup("", attributes, arrays))
    for name, reason in refused.items():
        tree.refuse(name, f"VirtualiZarr cannot express it: {reason}")
    return tree


def _reason_against(fits: Any, unit: Any) -> str | None:
    if isinstance(unit, fits.CompImageHDU):
        return "it is a compressed image: its tiles are sequences in the heap of a table"
    if isinstance(unit, fits.BinTableHDU):
        return "it is a binary table, whose big-endian columns VirtualiZarr cannot express"
    if isinstance(unit, fits.GroupsHDU):
        return "it holds random groups, which are no array"
    header = unit.header
    scaled = header.get("BSCALE", 1) != 1 or header.get("BZERO", 0) != 0
    if unit.is_image and header["BITPIX"] == 64 and scaled:
        return "its scaled 64-bit integers do not fit into the floats that Zarr scales to"
    return None
