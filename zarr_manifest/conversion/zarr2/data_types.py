"""Zarr v2 data types as Zarr v3 data types.

Byte order is part of the data type in v2, but of the ``bytes`` codec in v3: it is kept
beside the v3 name. In v3, a structured type has one byte order for all of its fields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from zarr_manifest.conversion.values import as_array, brief
from zarr_manifest.conversion.zarr2.codecs import OBJECT_CODECS

if TYPE_CHECKING:
    from zarr_manifest.conversion.nodes import Decisions

type Endian = Literal["little", "big"]

# The metadata is untrusted. A subarray becomes as many fields as it has elements, and the fill
# value has the size of an element: neither may exhaust memory.
_MAX_FIELDS = 4096
_MAX_DEPTH = 32
_MAX_ELEMENT_BYTES = 1 << 24

_TYPE_STRING = re.compile(r"([<>|])([a-zA-Z])(\d+)(\[[^\]]*\])?", re.ASCII)
_NUMBERS = re.compile(r"b1|[iu][1248]|f[248]|c8|c16")
_TIMES = {"M8": "numpy.datetime64", "m8": "numpy.timedelta64"}
_LENGTHS = {"S": "null_terminated_bytes", "U": "fixed_length_utf32", "V": "raw_bytes"}
_ENDIANS: dict[str, Endian] = {"<": "little", ">": "big"}


@dataclass(frozen=True)
class DataType:
    """A data type, as Zarr v3 names it and as Zarr v2 lays it out.

    Attributes
    ----------
    numpy : numpy.dtype
        The elements of a v2 chunk before its filters, including byte order.
    endian : {"little", "big"} or None
        The byte order; None if it does not matter.
    scalar_json : str or dict
        The v3 name; meaningless if there are fields.
    fields : tuple of (str, DataType)
        The fields of a structured type.
    leaves : int
        The number of fields without fields of their own; 1 for a simple type.
    """

    numpy: np.dtype[Any]
    endian: Endian | None
    scalar_json: str | dict[str, object] = ""
    fields: tuple[tuple[str, DataType], ...] = ()
    leaves: int = 1

    @property
    def is_variable_length(self) -> bool:
        """Whether the elements are strings or bytes of any length."""
        return self.numpy.kind == "O"

    @property
    def json(self) -> str | dict[str, object]:
        """The ``data_type`` member of the v3 metadata."""
        return self._json(canonical=self.is_canonical_struct)

    @property
    def is_canonical_struct(self) -> bool:
        """Whether a structured type is written as ``struct``, not as ``structured``.

        zarr 3.1 knows only ``structured``, and reads it as little-endian whatever the
        ``bytes`` codec says. It refuses ``struct``, which is right when byte order
        matters.
        """
        return bool(self.fields) and self.endian == "big"

    def _json(self, *, canonical: bool) -> str | dict[str, object]:
        if not self.fields:
            return self.scalar_json
        parts = [(name, field._json(canonical=canonical)) for name, field in self.fields]  # noqa: SLF001
        if canonical:
            fields: list[object] = [{"name": name, "data_type": json} for name, json in parts]
            return {"name": "struct", "configuration": {"fields": fields}}
        pairs = [[name, json] for name, json in parts]
        return {"name": "structured", "configuration": {"fields": pairs}}


def convert_data_type(spec: object, object_codec: str | None, decisions: Decisions) -> DataType:
    """Return the data type that the ``dtype`` member of ``.zarray`` names.

    Parameters
    ----------
    spec : object
        A type string, or a list of fields (Zarr v2, "Data type encoding").
    object_codec : str or None
        The codec of the array that encodes objects, if it has one.
    decisions : Decisions
        Collects the notes.

    Raises
    ------
    NotConvertibleError
        Zarr v3, as zarr-python reads it, has no such type.
    """
    if isinstance(spec, str):
        if spec == "|O":
            return _variable_length(object_codec, decisions)
        if object_codec is not None:
            raise decisions.refusal(
                f"codec {object_codec!r} encodes objects (data type '|O'), but member 'dtype' is "
                f"{brief(spec)}"
            )
        return _simple(spec, "member 'dtype'", decisions)
    fields = as_array(spec)
    if fields is not None:
        if object_codec is not None:
            raise decisions.refusal(
                f"codec {object_codec!r} does not encode a structured data type"
            )
        data_type = _structured(fields, (), decisions)
        if data_type.is_canonical_struct:
            decisions.note(
                "the structured data type is big-endian; zarr reads it from 3.3 on, 3.1 refuses "
                "it, and 3.2 has a bug that swaps its bytes"
            )
        return data_type
    raise decisions.refusal(
        f"member 'dtype' is neither a string nor a list of fields: {brief(spec)}"
    )


def _variable_length(object_codec: str | None, decisions: Decisions) -> DataType:
    if object_codec is None:
        raise decisions.refusal(
            "data type '|O' (Python objects) has no filter that Zarr v3 can decode it with; "
            f"only {' and '.join(OBJECT_CODECS)} have one"
        )
    return DataType(np.dtype(object), None, OBJECT_CODECS[object_codec])


def _simple(spec: str, where: str, decisions: Decisions) -> DataType:
    match = _TYPE_STRING.fullmatch(spec)
    if match is None:
        raise decisions.refusal(
            f"{where} is {brief(spec)}, which is not a Zarr v2 type string such as '<f8' "
            "(byte order, kind, size)"
        )
    order, kind, digits, unit = match.groups()
    code = f"{kind}{int(digits)}" if len(digits) < 10 else ""
    if code in _TIMES:
        data_type = _time(spec, _TIMES[code], where, decisions)
    elif unit is None and _NUMBERS.fullmatch(code):
        number = np.dtype(order + code)
        data_type = DataType(number, None, number.name)
    elif unit is None and kind in _LENGTHS and code:
        data_type = _fixed_length(kind, int(digits), order, where, decisions)
    else:
        raise decisions.refusal(f"{where} is {brief(spec)}, for which Zarr v3 has no data type")
    if data_type.numpy.byteorder == "|":
        return data_type
    if order == "|":
        raise decisions.refusal(f"{where} is {brief(spec)}, which does not state the byte order")
    return DataType(data_type.numpy, _ENDIANS[order], data_type.scalar_json)


def _time(spec: str, name: str, where: str, decisions: Decisions) -> DataType:
    try:
        dtype: np.dtype[Any] = np.dtype(spec)
    except (TypeError, ValueError, OverflowError) as error:
        raise decisions.refusal(f"{where} is {brief(spec)}: {error}") from error
    unit, count = np.datetime_data(dtype)
    if unit == "generic":
        # Zarr v2 requires a unit, and numpy does not swap the bytes of times without one.
        raise decisions.refusal(f"{where} is {brief(spec)}, which has no time unit")
    return DataType(
        dtype, None, {"name": name, "configuration": {"unit": unit, "scale_factor": int(count)}}
    )


def _fixed_length(kind: str, length: int, order: str, where: str, decisions: Decisions) -> DataType:
    if length < 1:
        raise decisions.refusal(f"{where} has elements of size 0, which Zarr v3 cannot express")
    _check_size(length * (4 if kind == "U" else 1), where, decisions)
    dtype: np.dtype[Any] = np.dtype(f"{order}{kind}{length}")
    json: dict[str, object] = {
        "name": _LENGTHS[kind],
        "configuration": {"length_bytes": dtype.itemsize},
    }
    return DataType(dtype, None, json)


def _check_size(size: int, where: str, decisions: Decisions) -> None:
    if size > _MAX_ELEMENT_BYTES:
        raise decisions.refusal(
            f"{where} has elements of {size} bytes; the limit is {_MAX_ELEMENT_BYTES}"
        )


# ------------------------------------------------------------ structured


def _structured(spec: list[object], within: tuple[str, ...], decisions: Decisions) -> DataType:
    if len(within) > _MAX_DEPTH:
        raise decisions.refusal(f"the data type has fields nested {_MAX_DEPTH} levels deep")
    fields: dict[str, DataType] = {}
    for index, field in enumerate(spec):
        name, data_type = _field(field, index, within, decisions)
        if name in fields:
            raise decisions.refusal(f"the data type has two fields named {_path(within, name)}")
        fields[name] = data_type
    if not fields:
        raise decisions.refusal("member 'dtype' contains a list without fields")
    return _struct(tuple(fields.items()), within, decisions)


def _path(within: tuple[str, ...], name: str) -> str:
    return repr(".".join((*within, name)))


def _struct(
    fields: tuple[tuple[str, DataType], ...], within: tuple[str, ...], decisions: Decisions
) -> DataType:
    where = f"field {_path(within[:-1], within[-1])}" if within else "the structured data type"
    endians: list[Endian] = [field.endian for _, field in fields if field.endian is not None]
    if len(set(endians)) > 1:
        raise decisions.refusal(
            f"{where} mixes big-endian and little-endian fields; Zarr v3 has one byte order for all"
        )
    _check_size(sum(field.numpy.itemsize for _, field in fields), where, decisions)
    leaves = sum(field.leaves for _, field in fields)
    if leaves > _MAX_FIELDS:
        raise decisions.refusal(
            f"{where} has more than {_MAX_FIELDS} fields (each element of a subarray counts: Zarr "
            "v3 has no subarrays)"
        )
    dtype = np.dtype([(name, field.numpy) for name, field in fields])
    return DataType(dtype, endians[0] if endians else None, fields=fields, leaves=leaves)


def _field(
    field: object, index: int, within: tuple[str, ...], decisions: Decisions
) -> tuple[str, DataType]:
    parts = as_array(field) or []
    if len(parts) not in (2, 3) or not isinstance(parts[0], str):
        raise decisions.refusal(
            f"field {index} of the data type is not [name, type] or [name, type, shape]: "
            f"{brief(field)}"
        )
    name = parts[0]
    if not name:
        # Like numpy, and therefore zarr: unnamed fields are the padding of aligned structures.
        name = f"f{index}"
        decisions.note(
            f"field {index} of the data type has no name; it became {_path(within, name)}"
        )
    if isinstance(parts[1], str):
        where = f"the type of field {_path(within, name)}"
        data_type = _simple(parts[1], where, decisions)
    elif (nested := as_array(parts[1])) is not None:
        data_type = _structured(nested, (*within, name), decisions)
    else:
        raise decisions.refusal(f"the type of field {_path(within, name)} is {brief(parts[1])}")
    if len(parts) == 3:
        data_type = _subarray(data_type, parts[2], (*within, name), decisions)
    return name, data_type


def _subarray(
    data_type: DataType, shape: object, path: tuple[str, ...], decisions: Decisions
) -> DataType:
    """Return a subarray as nested fields "0", "1", …: the same bytes in the same places."""
    name = _path(path[:-1], path[-1])
    lengths = as_array(shape)
    if lengths is None:
        lengths = [shape]
    sizes = [size for size in lengths if isinstance(size, int) and not isinstance(size, bool)]
    if len(sizes) != len(lengths) or any(size < 1 for size in sizes):
        raise decisions.refusal(
            f"the shape of field {name} is not a list of positive integers: {brief(shape)}"
        )
    if len(sizes) > _MAX_DEPTH or any(size > _MAX_FIELDS for size in sizes):
        raise decisions.refusal(f"field {name} is too large a subarray: {brief(shape)}")
    if not sizes:
        return data_type
    element = data_type.numpy
    for size in reversed(sizes):
        fields = tuple((str(number), data_type) for number in range(size))
        data_type = _struct(fields, path, decisions)
    decisions.note(
        f"field {name} is a subarray, which Zarr v3 cannot express: its elements became fields "
        f"'0' to '{sizes[0] - 1}'{' (nested)' if len(sizes) > 1 else ''}, in the same bytes; view "
        f"the field as {element!s} of shape {tuple(sizes)} to restore the subarray"
    )
    return data_type
