"""Values of other formats as JSON and as Zarr data types. Pure.

Text is UTF-8, or else Latin-1, in which older files are written: it gives every byte a
character, so that nothing is lost. Compound types have their fields in the order of their
bytes, without gaps: numpy copies from one compound type to another by position, whatever the
names of the fields, and zarr writes values as they are in memory if the types only have the
same size.
"""

from __future__ import annotations

import base64
import math
import reprlib
import struct
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, cast

import numpy as np
import zarr
from numpy.lib.recfunctions import require_fields
from zarr.errors import UnstableSpecificationWarning


def as_array(value: object) -> list[object] | None:
    """Return the items of a JSON array, or None if `value` is not one."""
    return list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else None


def as_object(value: object) -> Mapping[str, object] | None:
    """Return `value` if it is a JSON object, else None."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def brief(value: object) -> str:
    """Return a value as text for a message: never long."""
    return reprlib.repr(value)


def is_utf8(raw: bytes) -> bool:
    r"""Whether bytes are UTF-8.

    Examples
    --------
    >>> is_utf8("°C".encode()), is_utf8(b"\xb0C")
    (True, False)
    """
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def text_of(raw: str | bytes) -> str:
    r"""Return text as it is, bytes that are UTF-8 decoded, and all others read as Latin-1.

    Examples
    --------
    >>> text_of("°C".encode()), text_of(b"\xb0C"), text_of("K")
    ('°C', '°C', 'K')
    """
    if isinstance(raw, str):
        return raw
    return raw.decode() if is_utf8(raw) else raw.decode("latin-1")


_FILL_VALUE = "_FillValue"
_MISSING_VALUE = "missing_value"

_LATIN_1 = "and was read as Latin-1"


def json_attributes(
    attributes: Mapping[Any, Any], dtype: np.dtype[Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    r"""Return attributes as JSON values, and notes about those that changed.

    Parameters
    ----------
    attributes : mapping
        Names may be bytes; values may be numpy arrays and scalars, bytes, NaN.
    dtype : numpy.dtype, optional
        Data type of the array that has the attributes: xarray expects ``_FillValue``
        encoded accordingly.

    Examples
    --------
    >>> json_attributes({"valid_min": np.float32(0.5), "flags": np.array([1, 2], "i2")})
    ({'valid_min': 0.5, 'flags': [1, 2]}, [])
    >>> json_attributes({"_FillValue": np.float32("nan")}, np.dtype("f4"))
    ({'_FillValue': 'AAAAAAAA+H8='}, [])
    >>> json_attributes({"range": [0.0, float("nan")]})
    ({'range': [0.0, 'NaN']}, ["in the attribute 'range', NaN became a string, as JSON has none"])
    >>> json_attributes({"units": b"\xb0C"})
    ({'units': '°C'}, ["the attribute 'units' is not UTF-8, and was read as Latin-1"])
    """
    found: dict[str, Any] = {}
    notes: list[str] = []
    for stated, value in attributes.items():
        name = text_of(stated) if isinstance(stated, bytes) else str(stated)
        if isinstance(stated, bytes) and not is_utf8(stated):
            notes.append(f"the name of the attribute {brief(name)} is not UTF-8, {_LATIN_1}")
        if name in found:
            notes.append(f"the second attribute of the name {brief(name)} was left out")
            continue
        try:
            if name == _FILL_VALUE and dtype is not None:
                found[name] = _encoded_fill_value(value, dtype)
            elif name == _MISSING_VALUE and _is_nan(value):
                # xarray would take the string for a value, and masks NaN anyway.
                notes.append("the attribute 'missing_value' is NaN and was left out")
            else:
                lacking: set[str] = set()
                found[name] = json_value(value, lacking)
                strings = " and ".join(sorted(lacking - {_LATIN_1}))
                if strings:
                    sentence = f"{strings} became a string, as JSON has none"
                    notes.append(f"in the attribute {brief(name)}, {sentence}")
                if _LATIN_1 in lacking:
                    notes.append(f"the attribute {brief(name)} is not UTF-8, {_LATIN_1}")
        except (TypeError, ValueError) as error:
            notes.append(f"the attribute {brief(name)} was left out: {error}")
    return found, notes


def json_value(value: Any, lacking: set[str]) -> Any:
    """Return a value as JSON; NaN and the infinities as the strings that Zarr uses.

    Bytes that are not UTF-8 are read as Latin-1.

    Parameters
    ----------
    value : object
        May be a numpy array or scalar, bytes, or contain them.
    lacking : set of str
        Gets what JSON lacks and the value contains, in words for a note.

    Raises
    ------
    TypeError
        JSON has no such value.
    ValueError
        Text has lone surrogates.

    Examples
    --------
    >>> lacking = set()
    >>> json_value([np.array([1.0, np.inf]), b"K", np.bool_(True)], lacking), lacking
    ([[1.0, 'Infinity'], 'K', True], {'an infinity'})
    """
    if isinstance(value, np.ndarray | np.generic):
        value = _python_value(value)
    if isinstance(value, str):
        return value.encode().decode()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            lacking.add("NaN" if math.isnan(value) else "an infinity")
        return float_json(value)
    if isinstance(value, bytes):
        lacking.update(() if is_utf8(value) else (_LATIN_1,))
        return text_of(value)
    if (members := as_object(value)) is not None:
        return {str(name): json_value(item, lacking) for name, item in members.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item, lacking) for item in cast("list[Any]", value)]
    raise TypeError(f"JSON cannot express a {type(value).__name__}")


def float_json(number: float) -> float | str:
    """Return a number as JSON: NaN and the infinities as the strings that Zarr uses."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _python_value(value: Any) -> Any:
    """Return numpy values as Python's, and times as text."""
    return value.astype(str).tolist() if value.dtype.kind in "Mm" else value.tolist()


def _is_nan(value: Any) -> bool:
    found = np.asarray(value)
    return found.dtype.kind == "f" and found.size == 1 and bool(np.isnan(found).all())


def _encoded_fill_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return ``_FillValue`` as xarray reads it from Zarr v3: floats and bytes in base64."""
    found: Any = np.asarray(value)
    if found.size != 1:
        raise ValueError("it is not a single value")
    scalar: Any = found.reshape(()).item()
    if dtype.kind == "f" and isinstance(scalar, int | float):
        return _encoded_float(scalar)
    if dtype.kind == "c" and isinstance(scalar, int | float | complex):
        number = complex(scalar)
        return [_encoded_float(number.real), _encoded_float(number.imag)]
    if dtype.kind == "b":
        return bool(scalar)
    if dtype.kind in "iu" and isinstance(scalar, int | float):
        if not math.isfinite(scalar) or int(scalar) != scalar:
            raise ValueError(f"{scalar} is not an integer")
        return int(scalar)
    if dtype.kind in "fcT" and isinstance(scalar, str | bytes):
        # Already encoded, or text.
        return json_value(scalar, set())
    raise ValueError(f"xarray cannot read it from an array of the type {dtype}")


def _encoded_float(number: float) -> str:
    return base64.b64encode(struct.pack("<d", number)).decode()


def packed_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a data type with its fields in the order of their offsets, and without gaps.

    Examples
    --------
    >>> packed_type(np.dtype({"names": ["b", "a"], "formats": ["<i4", "<i2"], "offsets": [4, 0]}))
    dtype([('a', '<i2'), ('b', '<i4')])
    """
    fields: Any = dtype.fields
    if fields is None:
        return dtype
    names = sorted(fields, key=lambda name: fields[name][1])
    return np.dtype([(name, packed_type(dtype[name])) for name in names])


def packed_values(values: Any) -> Any:
    """Return values, or a single value, of the packed type: the same in every field.

    Examples
    --------
    >>> swapped = np.dtype({"names": ["b", "a"], "formats": ["<i4", "<i4"], "offsets": [4, 0]})
    >>> packed_values(np.array([(1, 2)], swapped))
    array([(2, 1)], dtype=[('a', '<i4'), ('b', '<i4')])
    """
    dtype = getattr(values, "dtype", None)
    if dtype is None or packed_type(dtype) == dtype:
        return values
    found: Any = np.asarray(values)
    return require_fields(found, packed_type(dtype))[()]


# Before 3.3, zarr takes all compound types for little-endian, losing the byte order of big-endian
# ones, and passes big-endian elements to array codecs in the byte order in which they are stored.
HAS_ALL_BYTE_ORDERS = tuple(map(int, zarr.__version__.split(".")[:2])) >= (3, 3)


def unstable_types_accepted[**P, T](function: Callable[P, T]) -> Callable[P, T]:
    """Run a function (not a generator) without the warning."""

    @wraps(function)
    def silenced(*args: P.args, **kwargs: P.kwargs) -> T:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnstableSpecificationWarning)
            return function(*args, **kwargs)

    return silenced
