"""Zarr v3 data types, to show and compare single values. Pure."""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["decode", "item_size", "print_form"]

_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "ff",
    "complex128": "dd",
}


def item_size(data_type: object) -> int | None:
    """Return the size of one element in bytes; None for an unknown data type."""
    format = _FORMATS.get(data_type) if isinstance(data_type, str) else None
    return None if format is None else struct.calcsize("<" + format)


def decode(data_type: str, item: bytes) -> str:
    """Show one element; NaNs with their bits, which are compared too."""
    if data_type == "bool" and item not in (b"\0", b"\1"):
        return f"0x{item.hex()}"
    parts = struct.unpack("<" + _FORMATS[data_type], item)
    shown = ", ".join(str(part) for part in parts)
    if any(part != part for part in parts):
        return f"{shown} (0x{item[::-1].hex()})"
    return shown if len(parts) == 1 else f"({shown})"


def print_form(data_type: object, data: bytes) -> Sequence[bool | int | float] | None:
    """Return the values as a tool would print them; None if there is no single form."""
    format = _FORMATS.get(data_type) if isinstance(data_type, str) else None
    if format is None or len(format) != 1:
        return None
    return [value for (value,) in struct.iter_unpack("<" + format, data)]
