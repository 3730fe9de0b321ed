"""Zarr v2 order, filters and compressor as a Zarr v3 list of codecs.

In v2 all codecs form one pipeline, the filters in order and then the compressor: which goes
where is a matter of habit, and writers differ (newer kerchunk puts every codec of an HDF5
file into ``filters``). In v3 codecs go from array to array, array to bytes, bytes to bytes.
Each codec is known to work on elements or on bytes, so walking along the pipeline finds the
border.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2.array_codecs import ARRAY_FILTERS, ARRAY_TO_BYTES
from zarr_manifest.conversion.zarr2.bytes_codecs import BYTES_CODECS
from zarr_manifest.conversion.zarr2.codec_members import CodecMembers
from zarr_manifest.conversion.zarr2.data_types import OBJECT_CODECS, DataType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from zarr_manifest.conversion.nodes import Decisions

__all__ = ["convert_codecs", "object_codec_of", "read_pipeline"]

type Codec = dict[str, object]

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
