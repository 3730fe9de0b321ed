"""FITS files through VirtualiZarr: every HDU with data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from zarr_manifest.conversion.files.trees import FileTree, parse_one_by_one
from zarr_manifest.conversion.nodes import ArrayNode, or_refused
from zarr_manifest.conversion.optional_libraries import library
from zarr_manifest.conversion.target import unwritten_array
from zarr_manifest.conversion.values import HAS_ALL_BYTE_ORDERS, brief, json_attributes
from zarr_manifest.conversion.virtual import array_node, checked_metadata
from zarr_manifest.conversion.virtualizarr_internals import group_of
from zarr_manifest.errors import NotConvertibleError
from zarr_manifest.manifest import Manifest

# The header keyword for the value of blank pixels.
_BLANK = "BLANK"

# Rows of a table are read together up to this size, unless that would take too many references.
_CHUNK_BYTES = 4 * 2**20
_MOST_CHUNKS = 10_000


def read_fits(url: str, registry: Any, *, inline_limit: int) -> FileTree:
    """Parse a FITS file; an HDU without data yields only attributes."""
    fits: Any = library("astropy.io.fits", "reading FITS")
    parsers: Any = library("virtualizarr.parsers")
    tree = FileTree()
    tables: list[ArrayNode] = []
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
            if reason is None and isinstance(unit, fits.BinTableHDU):
                try:
                    tables.append(_table(name, url, unit))
                except NotConvertibleError as error:
                    tree.refuse(name, error.message)
            elif reason is None:
                wanted.append(name)
                if unit.header["BITPIX"] > 0 and unit.header.get(_BLANK) is not None:
                    blank[name] = int(unit.header[_BLANK])
            else:
                tree.refuse(name, reason)

    def parse(some: Sequence[str]) -> Mapping[str, Any]:
        parser = parsers.FITSParser(skip_variables=set(names) - set(some))
        return dict(group_of(parser(url, registry)).arrays)

    arrays, refused = parse_one_by_one(wanted, parse) if wanted else ({}, {})
    primary = group_of(parsers.FITSParser(skip_variables=set(names))(url, registry))
    tree.add_group("", dict(primary.metadata.attributes))
    for name, array in arrays.items():
        attributes = dict(array.metadata.attributes)
        if name in blank and array.dtype.kind in "iu":
            attributes["_FillValue"] = blank[name]
            tree.note(name, f"its blank pixels are {blank[name]}, now the attribute '_FillValue'")
        tree.add(or_refused(name, partial(array_node, array=array, attributes=attributes)))
    for table in tables:
        tree.add(table)
    for name, reason in refused.items():
        tree.refuse(name, f"VirtualiZarr cannot express it: {reason}")
    return tree


def _table(name: str, url: str, unit: Any) -> ArrayNode:
    """Return a binary table as an array of its rows: each is an element of a compound type.

    Raises
    ------
    NotConvertibleError
        Zarr has no type for one of its columns.
    """
    for column in unit.columns:
        problem = _reason_against_column(column)
        if problem is not None:
            raise NotConvertibleError(
                f"the column {brief(column.name)} of the binary table {problem}",
                remedy="Read the table with astropy, and write its columns as native arrays.",
            )
    # Logical values are the letters T and F.
    types = ((c.name, "S1" if c.format.format == "L" else c.dtype) for c in unit.columns)
    dtype: Any = np.dtype(list(types)).newbyteorder(">")
    count, width = int(unit.header["NAXIS2"]), int(unit.header["NAXIS1"])
    if dtype.itemsize != width:
        raise NotConvertibleError("the rows of the binary table are longer than its columns")
    if not HAS_ALL_BYTE_ORDERS:
        raise NotConvertibleError(
            "it is a binary table, whose big-endian rows zarr before 3.3 does not read",
            remedy="Upgrade zarr.",
        )
    # The last chunk cannot be shorter.
    most = max(1, _CHUNK_BYTES // width)
    rows = next((n for n in range(min(count, most), 0, -1) if count % n == 0), 1)
    rows = count if count // rows > _MOST_CHUNKS else rows
    header = {name: unit.header[name] for name in unit.header if name.startswith("T")}
    metadata = unwritten_array(
        (count,),
        dtype,
        dimension_names=[f"{unit.name or 'table'}_row"],
        attributes=json_attributes(header)[0],
        fill_value=np.zeros((), dtype)[()],
        chunks=(rows,),
    )
    metadata["codecs"] = [{"name": "bytes", "configuration": {"endian": "big"}}]
    start = int(unit.fileinfo()["datLoc"])
    starts = start + np.arange(count // rows) * rows * width
    manifest = Manifest.from_columns(starts.shape, paths=url, offsets=starts, lengths=rows * width)
    return ArrayNode(name, checked_metadata(metadata), manifest)


def _reason_against_column(column: Any) -> str | None:
    if column.format.format in ("P", "Q"):
        return "has sequences of different lengths, stored outside its rows"
    if column.bscale not in (None, "", 1) or column.bzero not in (None, "", 0):
        return "is scaled (TSCAL, TZERO)"
    if column.dtype.shape or column.format.format == "X":
        return "has several values in a row, for which Zarr has no data type"
    return None


def _reason_against(fits: Any, unit: Any) -> str | None:
    if isinstance(unit, fits.CompImageHDU):
        return "it is a compressed image: its tiles are variable-length arrays in a table's heap"
    if isinstance(unit, fits.GroupsHDU):
        return "it holds random groups, which are not an array"
    if isinstance(unit, fits.BinTableHDU):
        return None
    header = unit.header
    scaled = header.get("BSCALE", 1) != 1 or header.get("BZERO", 0) != 0
    if unit.is_image and header["BITPIX"] == 64 and scaled:
        return "its scaled 64-bit integers do not fit into the floats that scaling yields in Zarr"
    scale = header.get("BSCALE", 1), header.get("BZERO", 0)
    unsigned = scale == (1, 2 ** (header["BITPIX"] - 1))
    if scaled and _BLANK in header and header["BITPIX"] > 0 and not unsigned:
        return "its blank pixels would be scaled like the others, and no longer recognised"
    return None
