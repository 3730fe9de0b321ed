"""FITS files through VirtualiZarr: every HDU with data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zarr_manifest.conversion.files.trees import (
    FileTree,
    parse_one_by_one,
    with_metadata,
)
from zarr_manifest.conversion.virtual import library

__all__ = ["read_fits"]

# The header keyword for the value of blank pixels.
_BLANK = "BLANK"


def read_fits(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a FITS file; an HDU without data yields only attributes."""
    fits: Any = library("astropy.io.fits", "reading FITS")
    parsers: Any = library("virtualizarr.parsers")
    tree = FileTree()
    names: list[str] = []
    with fits.open(registry.reader(url), do_not_scale_image_data=True) as file:
        wanted: list[str] = []
        blank: dict[str, int] = {}
        for number, unit in enumerate(file):
            # As VirtualiZarr names HDUs.
            name = unit.name or str(number)
            name = f"{name}_{number}" if name in names else name
            names.append(name)
            if not unit.header.get("NAXIS", 0):
                continue
            reason = _reason_against(fits, unit)
            if reason is None:
                wanted.append(name)
                if unit.header["BITPIX"] > 0 and unit.header.get(_BLANK) is not None:
                    blank[name] = int(unit.header[_BLANK])
            else:
                tree.refuse(name, reason)

    def parse(some: Sequence[str]) -> Mapping[str, Any]:
        parser = parsers.FITSParser(skip_variables=set(names) - set(some))
        return dict(parser(url, registry)._group.arrays)

    arrays, refused = parse_one_by_one(wanted, parse) if wanted else ({}, {})
    primary = parsers.FITSParser(skip_variables=set(names))(url, registry)
    tree.add_group("", dict(primary._group.metadata.attributes)).arrays = arrays
    for name in arrays:
        if name in blank and arrays[name].dtype.kind in "iu":
            arrays[name] = _with_fill_value(arrays[name], blank[name])
            tree.note(name, f"its blank pixels are {blank[name]}, now the attribute '_FillValue'")
    for name, reason in refused.items():
        tree.refuse(name, f"VirtualiZarr cannot express it: {reason}")
    return tree


def _with_fill_value(array: Any, value: int) -> Any:
    return with_metadata(array, attributes={**array.metadata.attributes, "_FillValue": value})


def _reason_against(fits: Any, unit: Any) -> str | None:
    if isinstance(unit, fits.CompImageHDU):
        return "it is a compressed image: its tiles are variable-length arrays in a table's heap"
    if isinstance(unit, fits.BinTableHDU):
        return "it is a binary table, whose big-endian columns VirtualiZarr cannot express"
    if isinstance(unit, fits.GroupsHDU):
        return "it holds random groups, which are not an array"
    header = unit.header
    scaled = header.get("BSCALE", 1) != 1 or header.get("BZERO", 0) != 0
    if unit.is_image and header["BITPIX"] == 64 and scaled:
        return "its scaled 64-bit integers do not fit into the floats that scaling yields in Zarr"
    scale = header.get("BSCALE", 1), header.get("BZERO", 0)
    unsigned = scale == (1, 2 ** (header["BITPIX"] - 1))
    if scaled and _BLANK in header and header["BITPIX"] > 0 and not unsigned:
        return "its blank pixels would be scaled like the others, and no longer recognised"
    return None
