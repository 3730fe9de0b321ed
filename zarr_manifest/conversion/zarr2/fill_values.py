"""Zarr v2 fill values as Zarr v3 fill values, and what xarray takes for missing.

Zarr v2 allows null, and writers put numbers where strings belong and vice versa; Zarr v3
requires a value of the array's data type. xarray masks the fill value in Zarr v2, and the value of
an attribute in Zarr v3.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from zarr_manifest.conversion.values import as_array, brief, float_json, json_attributes
from zarr_manifest.showing import counted

if TYPE_CHECKING:
    from zarr_manifest.conversion.nodes import Decisions
    from zarr_manifest.conversion.zarr2.data_types import DataType


_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
# No data type has numbers of more digits.
_DECIMAL = re.compile(r"-?[0-9]{1,20}")
_NAT = np.iinfo(np.int64).min
_CANONICAL_NANS = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}


def convert_fill_value(value: object, data_type: DataType, decisions: Decisions) -> object:
    """Return the ``fill_value`` member of the v3 metadata.

    Parameters
    ----------
    value : object
        The ``fill_value`` member of ``.zarray``; None if it is null or missing. May be a
        Python NaN, from a lenient JSON reader.
    data_type : DataType
        The data type of the array.
    decisions : Decisions
        Collects the notes.

    Raises
    ------
    NotConvertibleError
        The data type has no such value.
    """
    if value is None:
        zero = _zero(data_type)
        what = "the empty string" if zero == "" else "zeros" if data_type.fields else f"{zero!r}"
        decisions.note(f"the fill value null became {what}, because Zarr v3 requires a fill value")
        return zero
    kind = data_type.numpy.kind
    if kind in "SVO" and data_type.scalar_json != "string":
        content = _bytes(value, data_type, decisions)
        try:
            return _from_bytes(content, data_type)
        except UnicodeDecodeError as error:
            raise decisions.refusal(f"a field of the fill value is not text: {error}") from error
    if kind in "UO":
        return _text(value, data_type, decisions)
    if kind == "c":
        return _complex(value, data_type, decisions)
    if kind == "f":
        return float_json(_float(value, data_type.numpy, decisions))
    return _integral(value, data_type, decisions)


def _zero(data_type: DataType) -> object:
    kind = data_type.numpy.kind
    if kind == "V":
        return _from_bytes(bytes(data_type.numpy.itemsize), data_type)
    if kind in "SUO":
        return ""
    if kind in "mM":
        return "NaT"
    zeros: dict[str, object] = {"b": False, "f": 0.0, "c": [0.0, 0.0]}
    return zeros.get(kind, 0)


def _refusal(value: object, data_type: np.dtype[Any], decisions: Decisions) -> Exception:
    return decisions.refusal(
        f"the fill value {brief(value)} is not a value of data type {data_type.str!r}"
    )


def _is_zero(value: object) -> bool:
    return isinstance(value, int | float) and value == 0


# ------------------------------------------------------------ bytes and strings


def _bytes(value: object, data_type: DataType, decisions: Decisions) -> bytes:
    length = data_type.numpy.itemsize
    is_raw = data_type.numpy.kind == "V"
    if _is_zero(value):
        # zarr 1 and 2 wrote 0 if no fill value was given.
        decisions.note("the fill value 0 became zero bytes, because elements are bytes")
        return bytes(length) if is_raw else b""
    if not isinstance(value, str):
        raise _refusal(value, data_type.numpy, decisions)
    try:
        content = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise decisions.refusal(f"the fill value {brief(value)} is not base64") from error
    if data_type.is_variable_length:
        return content
    if not is_raw:
        content = content.rstrip(b"\0")
    if len(content) > length or (is_raw and len(content) != length):
        raise decisions.refusal(
            f"the fill value has {counted(len(content), 'byte')}, "
            f"but an element of the array has {length}"
        )
    return content


def _from_bytes(content: bytes, data_type: DataType) -> object:
    by_field = _element_json(content, data_type)  # even if not needed: it checks texts
    if data_type.is_canonical_struct:
        return by_field
    return base64.b64encode(content).decode("ascii")


def _text(value: object, data_type: DataType, decisions: Decisions) -> str:
    if _is_zero(value):
        decisions.note("the fill value 0 became the empty string, because elements are strings")
        return ""
    if not isinstance(value, str):
        raise _refusal(value, data_type.numpy, decisions)
    if data_type.is_variable_length:
        return value
    text = value.rstrip("\0")
    if len(text) * 4 > data_type.numpy.itemsize:
        raise _refusal(value, data_type.numpy, decisions)
    return text


# ------------------------------------------------------------ numbers


def _float(value: object, dtype: np.dtype[Any], decisions: Decisions) -> float:
    if not isinstance(value, str | int | float):
        raise _refusal(value, dtype, decisions)
    try:
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise _refusal(value, dtype, decisions) from error
    with np.errstate(over="ignore"):
        if math.isfinite(number) and not np.isfinite(dtype.type(number)):
            raise _refusal(value, dtype, decisions)
    if isinstance(value, bool) or (isinstance(value, str) and value not in _NOT_FINITE):
        decisions.note(f"the fill value {brief(value)} became {number!r}")
    return number


def _complex(value: object, data_type: DataType, decisions: Decisions) -> list[float | str]:
    part = np.dtype(f"f{data_type.numpy.itemsize // 2}")
    parts = as_array(value)
    if parts is None:
        parts = [value, 0.0]
        decisions.note(f"the fill value {brief(value)} became the real part of a complex number")
    if len(parts) != 2:
        raise _refusal(value, data_type.numpy, decisions)
    return [float_json(_float(item, part, decisions)) for item in parts]


def _integral(value: object, data_type: DataType, decisions: Decisions) -> object:
    dtype = data_type.numpy
    if dtype.kind in "mM" and value == "NaT":
        return "NaT"
    number = _integer(value)
    if number is None:
        raise _refusal(value, dtype, decisions)
    low, high = _bounds(dtype)
    if not low <= number <= high:
        raise _refusal(value, dtype, decisions)
    if dtype.kind in "mM" and number == _NAT:
        return "NaT"
    converted: bool | int = bool(number) if dtype.kind == "b" else number
    if type(converted) is not type(value):
        decisions.note(f"the fill value {brief(value)} became {converted!r}")
    return converted


def _integer(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if _DECIMAL.fullmatch(value) else None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return None


def _bounds(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(np.int64 if dtype.kind in "mM" else dtype)
    return int(info.min), int(info.max)


# ------------------------------------------------------------ structured


def _element_json(content: bytes, data_type: DataType) -> object:
    """Return an element, given as bytes, as the fill value of a v3 ``struct``."""
    if data_type.fields:
        values: dict[str, object] = {}
        for name, field in data_type.fields:
            values[name] = _element_json(content[: field.numpy.itemsize], field)
            content = content[field.numpy.itemsize :]
        return values
    kind = data_type.numpy.kind
    if kind == "U":
        encoding = "utf-32-be" if data_type.endian == "big" else "utf-32-le"
        return content.decode(encoding).rstrip("\0")
    if kind in "SVO":
        content = content.rstrip(b"\0") if kind == "S" else content
        return base64.b64encode(content).decode("ascii")
    scalar: Any = np.frombuffer(content, data_type.numpy)[0]
    if kind == "c":
        return [_exact_float_json(scalar.real), _exact_float_json(scalar.imag)]
    if kind == "f":
        return _exact_float_json(scalar)
    if kind in "mM":
        count = int(scalar.view(np.int64))
        return "NaT" if count == _NAT else count
    return bool(scalar) if kind == "b" else int(scalar)


def _exact_float_json(scalar: Any) -> float | str:
    """Return a float as JSON; a NaN with a non-standard bit pattern as its bits."""
    size = scalar.dtype.itemsize
    bits = int(scalar.view(f"u{size}"))
    if np.isnan(scalar) and bits != _CANONICAL_NANS[size]:
        return f"0x{bits:0{size * 2}x}"
    return float_json(float(scalar))


# ------------------------------------------------------------ missing values
# In Zarr v2, xarray opens only arrays with named dimensions; others are left alone.

_MISSING = "_FillValue"

# Kinds of data types for which xarray can read a missing value from Zarr v3.
_MASKED = "biufc"


def fill_value_as_attribute(
    attributes: dict[str, Any], fill_value: object, dtype: np.dtype[Any], decisions: Decisions
) -> None:
    """Record in Zarr v3 attributes what xarray masks when it reads Zarr v2.

    Parameters
    ----------
    attributes : dict
        Those of Zarr v2; changed in place.
    fill_value : object
        The ``fill_value`` of ``.zarray`` as Zarr v3 JSON, or None for null, in which case
        the attributes decide.
    dtype : numpy.dtype
        Data type of the array.
    decisions : Decisions
        Collects the notes.
    """
    stated = attributes.pop(_MISSING, None)
    missing = _number(fill_value, dtype)
    if missing is None:
        missing = stated
    if missing is not None:
        found, notes = json_attributes({_MISSING: missing}, dtype)
        attributes.update(found)
        decisions.note(*notes)


def fill_value_for_masking(
    attributes: dict[str, Any],
    fill_value: Any,
    dtype: np.dtype[Any],
    decisions: Decisions,
    *,
    is_complete: bool,
) -> Any:
    """Return the Zarr v2 fill value with which xarray masks what is missing, and nothing else.

    Parameters
    ----------
    attributes : dict
        Those of Zarr v3; the one that becomes the fill value is removed, in place.
    fill_value : object
        The value of missing chunks, as Zarr v2 JSON.
    dtype : numpy.dtype
        Data type of the array.
    decisions : Decisions
        Collects the notes.
    is_complete : bool
        Whether no chunk is missing, so that the fill value is free.
    """
    stated = attributes.get(_MISSING)
    if dtype.kind not in _MASKED or (stated is None and _MISSING in attributes):
        return fill_value
    if stated is None and is_complete:
        return None
    number = _number(fill_value, dtype)
    encoded, _ = json_attributes({} if number is None else {_MISSING: number}, dtype)
    if stated is not None and encoded.get(_MISSING) == stated:
        del attributes[_MISSING]
        return fill_value
    missing = _decoded(stated, dtype)
    if missing is not None and is_complete:
        del attributes[_MISSING]
        return missing
    if encoded and fill_value != "NaN":
        decisions.note(
            f"missing chunks need the fill value {brief(fill_value)}, which xarray masks as "
            "missing in Zarr v2"
            + ("" if stated is None else f", instead of the value of the attribute {_MISSING!r}")
        )
    return fill_value


def _decoded(stated: Any, dtype: np.dtype[Any]) -> Any:
    """Return a missing value, as xarray states it, as Zarr v2 JSON; None if it is not one."""
    if dtype.kind in "biu" and isinstance(stated, int):
        return stated
    if dtype.kind != "f" or not isinstance(stated, str):
        return None
    try:
        (number,) = struct.unpack("<d", base64.b64decode(stated, validate=True))
    except (binascii.Error, struct.error):
        return None
    return float_json(number)


def _number(fill_value: object, dtype: np.dtype[Any]) -> object:
    """Return a number; None if xarray cannot read it from Zarr v3."""
    if fill_value is None or dtype.kind not in _MASKED:
        return None
    if dtype.kind == "c":
        return complex(*(float(str(part)) for part in as_array(fill_value) or []))
    return float(str(fill_value)) if dtype.kind == "f" else fill_value
