"""Values that JSON lacks, as JSON and back: what attributes and coordinates of files hold. Pure.

JSON's own values stay as they are. Others are an object whose first member says what it is:
``float``, ``integer``, ``bytes``, ``tuple``, ``object``, ``advice``, ``scalar``, ``array``.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from zarr_manifest.conversion.values import as_array, as_object
from zarr_manifest.errors import Advice, Setting

# Of numpy's kinds of data type, those whose values are just bytes, and those that are texts.
_PLAIN_KINDS = frozenset("biufcSUmM")
_TEXT_KINDS = frozenset("OT")

# JSON's integers, as decoders read them.
_LEAST, _MOST = -(2**63), 2**64 - 1


def can_hold(values: Any) -> bool:
    """Whether :func:`to_json` takes the values of an array."""
    kind = values.dtype.kind
    return kind in _PLAIN_KINDS or (
        kind in _TEXT_KINDS and all(isinstance(text, str) for text in values.ravel().tolist())
    )


def to_json(value: Any) -> Any:
    """Return a value as JSON, from which :func:`from_json` makes it again.

    Raises
    ------
    TypeError
        It is of another type.

    Examples
    --------
    >>> to_json([1, "K", np.float32(0.5)])
    [1, 'K', {'scalar': '<f4', 'data': 'AAAAPw=='}]
    >>> to_json(float("nan")), to_json((1, 2))
    ({'float': 'nan'}, {'tuple': [1, 2]})
    """
    if isinstance(value, np.ndarray | np.generic):
        return _array_to_json(value)
    if isinstance(value, Advice):
        return {"advice": [_part_to_json(part) for part in value.parts]}
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value) if _LEAST <= value <= _MOST else {"integer": str(int(value))}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, bytes):
        return {"bytes": _text(value)}
    if (items := as_array(value)) is not None:
        found = list(map(to_json, items))
        return {"tuple": found} if isinstance(value, tuple) else found
    if (members := as_object(value)) is not None:
        return {"object": {name: to_json(item) for name, item in _by_text(members)}}
    raise TypeError(f"a scan cannot hold a {type(value).__name__}")


def from_json(stated: Any) -> Any:
    """Return the value that :func:`to_json` was given.

    Raises
    ------
    ValueError
        It is not what that function returns.

    Examples
    --------
    >>> from_json({"scalar": "<f4", "data": "AAAAPw=="})
    np.float32(0.5)
    """
    if (items := as_array(stated)) is not None:
        return [from_json(item) for item in items]
    members = as_object(stated)
    if members is None:
        return stated
    try:
        return _typed(members)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"a value of an unknown kind: {error}") from error


def _typed(members: Mapping[str, Any]) -> Any:
    kind = next(iter(members), "")
    given: Any = members.get(kind)
    match kind:
        case "float":
            return float(given)
        case "integer":
            return int(given)
        case "bytes":
            return _bytes(given)
        case "tuple":
            return tuple(map(from_json, given))
        case "object":
            return {name: from_json(item) for name, item in given.items()}
        case "advice":
            return Advice(*map(_part_from_json, given))
        case "scalar" | "array":
            return _array_from_json(given, members)
        case "texts" | "objects":
            return _texts_from_json(given, members)
        case _:
            raise LookupError(kind)


def _by_text(members: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    for name in members:
        if not isinstance(name, str):
            raise TypeError(f"a scan cannot hold names of the type {type(name).__name__}")
    return list(members.items())


def _part_to_json(part: str | Setting) -> Any:
    if isinstance(part, str):
        return part
    value = [] if part.value is ... else [to_json(part.value)]
    return {"setting": part.name, "value": value, "python": part.python}


def _part_from_json(part: Any) -> str | Setting:
    if isinstance(part, str):
        return part
    value = [from_json(item) for item in part["value"]]
    return Setting(part["setting"], value[0] if value else ..., part["python"])


def _array_to_json(value: Any) -> Any:
    dtype = value.dtype
    if dtype.kind in _TEXT_KINDS:
        texts = np.asarray(value, object).ravel().tolist()
        kind = "texts" if dtype.kind == "T" else "objects"
        return {kind: [to_json(text) for text in texts], "shape": list(value.shape)}
    if dtype.kind not in _PLAIN_KINDS:
        raise TypeError(f"a scan cannot hold values of the type {dtype}")
    array: Any = np.asarray(value)
    data = _text(array.tobytes())
    if isinstance(value, np.generic):
        # An empty text takes an element as an array.
        return {"scalar": array.dtype.str, "data": data}
    return {"array": dtype.str, "shape": list(value.shape), "data": data}


def _array_from_json(given: Any, members: Mapping[str, Any]) -> Any:
    dtype = np.dtype(str(given))
    if dtype.kind not in _PLAIN_KINDS:
        raise ValueError(f"values of the type {dtype}")
    data = bytearray(_bytes(members["data"]))
    shape = tuple(map(int, members.get("shape", ())))
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes for values of the shape {shape}")
    values: Any = np.ndarray(shape, dtype, data)
    return values[()] if "scalar" in members else values


def _texts_from_json(given: Any, members: Mapping[str, Any]) -> Any:
    found: Any = np.empty(len(given), object)
    found[:] = [from_json(text) for text in given]
    shaped: Any = found.reshape(members["shape"])
    return shaped.astype(np.dtypes.StringDType()) if "texts" in members else shaped


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
