"""Zarr v2 metadata (``.zarray``, ``.zattrs``) as Zarr v3 metadata (``zarr.json``).

The chunks stay as and where they are: the v3 metadata describes the v2 chunk keys, and
decodes the v2 bytes to the values that a v2 reader gets from them.

In v2 all codecs form one pipeline, the filters in order and then the compressor: which goes
where is a matter of habit, and writers differ (newer kerchunk puts every codec of an HDF5
file into ``filters``). In v3 codecs go from array to array, array to bytes, bytes to bytes.
Each codec is known to work on elements or on bytes, so walking along the pipeline finds the
border.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from zarr_manifest.conversion.nodes import Decisions
from zarr_manifest.conversion.values import as_array, as_object, brief, json_attributes
from zarr_manifest.conversion.zarr2.codecs import (
    ARRAY_FILTERS,
    ARRAY_TO_BYTES,
    BYTES_CODECS,
    OBJECT_CODECS,
    Codec,
    CodecMembers,
)
from zarr_manifest.conversion.zarr2.data_types import DataType, convert_data_type
from zarr_manifest.conversion.zarr2.fill_values import convert_fill_value, fill_value_as_attribute
from zarr_manifest.showing import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

# The attribute in which xarray, and so kerchunk, stores the dimension names of a v2 array.
_DIMENSIONS = "_ARRAY_DIMENSIONS"


@dataclass(frozen=True, slots=True)
class ArrayPlan:
    """An array whose metadata is converted, but whose chunks are not located yet.

    Parameters
    ----------
    path : str
        Without slashes at the ends; ``""`` for the root.
    metadata : dict
        Zarr v3 metadata, without storage transformers.
    notes : tuple of str
        Decisions made where the v2 metadata leaves a choice, as sentences.
    grid_shape : tuple of int
        Number of chunks along every dimension.
    key_separator : {".", "/"}
        What separates the numbers in its chunk keys, according to its metadata.
    """

    path: str
    metadata: dict[str, Any]
    notes: tuple[str, ...]
    grid_shape: tuple[int, ...]
    key_separator: str


def convert_array(
    zarray: Mapping[str, Any], zattrs: Mapping[str, Any] | None, *, path: str = ""
) -> ArrayPlan:
    """Return the Zarr v3 metadata of a Zarr v2 array.

    Parameters
    ----------
    zarray : mapping
        The ``.zarray`` document. A bare NaN in it (kerchunk writes them) is a Python NaN.
    zattrs : mapping or None
        The ``.zattrs`` document. ``_ARRAY_DIMENSIONS`` becomes ``dimension_names``, and
        the fill value of such an array also becomes the attribute ``_FillValue``.
        Everything else is kept in ``attributes``; only NaN and the infinities, which JSON
        lacks, become strings.
    path : str, default ""
        Path of the array, for messages.

    Returns
    -------
    ArrayPlan
        Its metadata has the chunk key encoding of Zarr v2.

    Raises
    ------
    NotConvertibleError
        The document is malformed, or Zarr v3, as zarr-python reads it, cannot express the
        array. The message names the member, the field or the codec.

    Examples
    --------
    >>> zarray = {
    ...     "zarr_format": 2, "shape": [4, 6], "chunks": [2, 6], "dtype": ">i2", "order": "C",
    ...     "fill_value": None, "filters": None, "compressor": {"id": "zlib", "level": 4},
    ... }
    >>> converted = convert_array(zarray, {"_ARRAY_DIMENSIONS": ["y", "x"]}, path="sst")
    >>> converted.metadata["data_type"], converted.metadata["dimension_names"]
    ('int16', ['y', 'x'])
    >>> [codec["name"] for codec in converted.metadata["codecs"]]
    ['bytes', 'numcodecs.zlib']
    >>> converted.notes
    ('the fill value null became 0, because Zarr v3 requires a fill value',)
    """
    decisions = Decisions(path)
    document = _object(zarray, "the .zarray document", decisions)
    stated = _zarray(document, decisions)
    shape, separator = stated.shape, stated.dimension_separator or "."
    chunks = _chunk_shape(stated.chunks, shape, decisions)
    pipeline = read_pipeline(document, decisions)
    data_type = convert_data_type(stated.dtype, object_codec_of(pipeline), decisions)
    codecs = convert_codecs(
        pipeline,
        data_type,
        dimensions=len(shape),
        order=stated.order or "C",
        decisions=decisions,
    )
    fill_value = convert_fill_value(document.get("fill_value"), data_type, decisions)
    names, attributes = _names_and_attributes(zattrs, len(shape), decisions)
    if names is not None:
        missing = None if document.get("fill_value") is None else fill_value
        fill_value_as_attribute(attributes, missing, data_type.numpy, decisions)
    attributes = _json_attributes(attributes, decisions)
    metadata: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type.json,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": separator}},
        "fill_value": fill_value,
        "codecs": codecs,
        "attributes": attributes,
    }
    if names is not None:
        metadata["dimension_names"] = names
    grid_shape = tuple(-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True))
    return ArrayPlan(path, metadata, tuple(decisions.notes), grid_shape, separator)


def convert_group(zattrs: Mapping[str, Any] | None, *, path: str = "") -> dict[str, Any]:
    """Return the Zarr v3 metadata of a Zarr v2 group, which may be implicit.

    Parameters
    ----------
    zattrs : mapping or None
        The ``.zattrs`` document of the group.
    path : str, default ""
        Path of the group, for messages.

    Examples
    --------
    >>> convert_group({"title": "ocean"})
    {'zarr_format': 3, 'node_type': 'group', 'attributes': {'title': 'ocean'}}
    """
    attributes: dict[str, object] = {}
    if zattrs is not None:
        decisions = Decisions(path)
        stated = _object(zattrs, "the .zattrs document", decisions)
        attributes.update(_json_attributes(stated, decisions))
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


# ------------------------------------------------------------ members of .zarray


def _object(value: object, what: str, decisions: Decisions) -> Mapping[str, object]:
    document = as_object(value)
    if document is None:
        raise decisions.refusal(f"{what} is not a JSON object: {brief(value)}")
    return document


type _Lengths = list[Annotated[int, msgspec.Meta(ge=0)]]


class _Zarray(msgspec.Struct):
    """The members of ``.zarray`` of which each value is known."""

    zarr_format: Literal[2]
    shape: _Lengths
    chunks: _Lengths
    dtype: Any
    order: Literal["C", "F"] | None = None
    dimension_separator: Literal[".", "/"] | None = None


def _zarray(document: Mapping[str, object], decisions: Decisions) -> _Zarray:
    try:
        found = msgspec.convert(document, _Zarray)
    except msgspec.ValidationError as error:
        raise decisions.refusal(f"the .zarray document is not valid: {error}") from error
    if found.order is None and len(found.shape) > 1:
        raise decisions.refusal("the .zarray document is not valid: `order` is missing or null")
    return found


def _chunk_shape(chunks: list[int], shape: list[int], decisions: Decisions) -> list[int]:
    if len(chunks) != len(shape):
        raise decisions.refusal(
            f"member 'chunks' has {counted(len(chunks), 'dimension')}, "
            f"but the array has {len(shape)}"
        )
    for axis, (chunk, length) in enumerate(zip(chunks, shape, strict=True)):
        if chunk > 0:
            continue
        if length > 0:
            raise decisions.refusal(
                f"member 'chunks' is 0 in dimension {axis}, which has length {length}: no chunk "
                "can hold that"
            )
        chunks[axis] = 1
        decisions.note(
            f"the chunk length 0 in dimension {axis}, which is empty, became 1, because Zarr v3 "
            "requires a positive one"
        )
    return chunks


# ------------------------------------------------------------ .zattrs


def _names_and_attributes(
    zattrs: object, dimensions: int, decisions: Decisions
) -> tuple[list[str] | None, dict[str, object]]:
    if zattrs is None:
        return None, {}
    attributes = dict(_object(zattrs, "the .zattrs document", decisions))
    names = _dimension_names(attributes, dimensions, decisions)
    if names is not None:
        del attributes[_DIMENSIONS]
    return names, attributes


def _json_attributes(attributes: Mapping[str, object], decisions: Decisions) -> dict[str, object]:
    found, notes = json_attributes(attributes)
    decisions.note(*notes)
    return found


def _dimension_names(
    attributes: Mapping[str, object], dimensions: int, decisions: Decisions
) -> list[str] | None:
    if _DIMENSIONS not in attributes:
        return None
    value = attributes[_DIMENSIONS]
    names = as_array(value)
    if names is not None and len(names) == dimensions:
        strings = [name for name in names if isinstance(name, str)]
        if len(strings) == dimensions:
            return strings
    decisions.note(
        f"attribute {_DIMENSIONS!r} is {brief(value)}, not a list of {dimensions} names; it stays "
        "an attribute, and the dimensions have no names"
    )
    return None


_NO_V3_CODEC = {
    "categorize": "it maps labels to numbers, for which there is no Zarr v3 codec",
    "json2": "it stores Python objects as JSON, for which there is no Zarr v3 codec",
    "msgpack2": "it stores Python objects as MessagePack, for which there is no Zarr v3 codec",
    "pickle": "unpickling runs code that the data names",
    "vlen-array": "there is no Zarr v3 data type for variable-length arrays",
    "base64": "there is no Zarr v3 codec for it",
    "grib": "only kerchunk decodes it; make a hierarchy of the GRIB file itself",
}


def read_pipeline(zarray: Mapping[str, object], decisions: Decisions) -> list[CodecMembers]:
    """Return the filters and the compressor of ``.zarray``, in the order of encoding."""
    stated = zarray.get("filters")
    filters = [] if stated is None else as_array(stated)
    if filters is None:
        raise decisions.refusal(f"member 'filters' is not a list: {brief(stated)}")
    steps = [_step(config, f"filter {number}", decisions) for number, config in enumerate(filters)]
    compressor = zarray.get("compressor")
    if compressor is not None:
        steps.append(_step(compressor, "member 'compressor'", decisions))
    for member in ("filters", "compressor"):
        if member not in zarray:
            decisions.note(f"member {member!r} is missing; taken as null")
    return steps


def _step(config: object, where: str, decisions: Decisions) -> CodecMembers:
    members = as_object(config)
    if members is None:
        raise decisions.refusal(f"{where} is not a JSON object: {brief(config)}")
    codec = members.get("id")
    if not isinstance(codec, str):
        raise decisions.refusal(
            f"{where} does not name a codec: its member 'id' is "
            f"{brief(codec) if 'id' in members else 'missing'}"
        )
    if codec not in OBJECT_CODECS | ARRAY_FILTERS | ARRAY_TO_BYTES | BYTES_CODECS:
        reason = _NO_V3_CODEC.get(codec, "no Zarr v3 codec is known for it")
        raise decisions.refusal(f"codec {codec!r} cannot be converted: {reason}")
    return CodecMembers(codec, members, decisions)


def object_codec_of(pipeline: Sequence[CodecMembers]) -> str | None:
    """Return the codec that encodes objects, if Zarr v3 has one."""
    return next((step.codec for step in pipeline if step.codec in OBJECT_CODECS), None)


@dataclass
class _Codecs:
    """The v3 codecs so far, and the form of a chunk after them."""

    dtype: np.dtype[Any]
    array_to_array: list[Codec] = field(default_factory=list["Codec"])
    array_to_bytes: Codec | None = None
    bytes_to_bytes: list[Codec] = field(default_factory=list["Codec"])

    @property
    def is_array(self) -> bool:
        return self.array_to_bytes is None and not self.bytes_to_bytes

    @property
    def element_size(self) -> int:
        """Bytes per element of the next codec's input."""
        return self.dtype.itemsize if self.is_array and self.dtype.kind != "O" else 1


def convert_codecs(
    pipeline: Sequence[CodecMembers],
    data_type: DataType,
    *,
    dimensions: int,
    order: str,
    decisions: Decisions,
) -> list[Codec]:
    """Return the ``codecs`` member of the v3 metadata.

    Parameters
    ----------
    pipeline : sequence of CodecMembers
        Filters and compressor, as :func:`read_pipeline` returns them.
    data_type : DataType
        The data type of the array.
    dimensions : int
        The number of dimensions of the array.
    order : {"C", "F"}
        The layout of a chunk.
    decisions : Decisions
        Collects the notes.

    Raises
    ------
    NotConvertibleError
        There is no Zarr v3 codec for a step, or the steps do not fit together.
    """
    codecs = _Codecs(data_type.numpy)
    is_transposed = order == "F" and dimensions > 1
    if is_transposed:
        # v2 filters see the elements in memory order: the transposition comes first.
        axes = list(range(dimensions))[::-1]
        codecs.array_to_array.append({"name": "transpose", "configuration": {"order": axes}})
    for step in pipeline:
        _append(step, codecs, is_transposed=is_transposed)
    if codecs.array_to_bytes is None:
        codecs.array_to_bytes = _bytes_codec(codecs.dtype, data_type)
    return [*codecs.array_to_array, codecs.array_to_bytes, *codecs.bytes_to_bytes]


def _append(step: CodecMembers, codecs: _Codecs, *, is_transposed: bool) -> None:
    if step.codec in BYTES_CODECS:
        if codecs.dtype.kind == "O" and codecs.array_to_bytes is None:
            raise step.decisions.refusal(f"codec {step.codec!r} comes before the one for objects")
        codecs.bytes_to_bytes.append(BYTES_CODECS[step.codec](step, codecs.element_size))
        return
    if not codecs.is_array:
        raise step.decisions.refusal(
            f"codec {step.codec!r} works on array elements, but comes after one that turned them "
            "into bytes"
        )
    if step.codec in OBJECT_CODECS:
        step.drop_all_but(())
        codecs.array_to_bytes = {"name": step.codec}
    elif step.codec in ARRAY_TO_BYTES:
        codecs.array_to_bytes = ARRAY_TO_BYTES[step.codec](
            step, codecs.dtype, is_transposed=is_transposed
        )
    else:
        converted, codecs.dtype = ARRAY_FILTERS[step.codec](step, codecs.dtype)
        codecs.array_to_array.extend(converted)


def _bytes_codec(encoded: np.dtype[Any], data_type: DataType) -> Codec:
    """Return the ``bytes`` codec for the output of the filters."""
    endian: str
    if data_type.fields:
        # To zarr, fields of text and of raw bytes have a byte order, too.
        endian = data_type.endian or "little"
    elif encoded.str[0] == ">":
        endian = "big"
    elif encoded.str[0] == "<" or data_type.endian is not None:
        # zarr 3.1 goes by the data type of the array, even if the filters yield single bytes.
        endian = "little"
    else:
        return {"name": "bytes"}
    return {"name": "bytes", "configuration": {"endian": endian}}
