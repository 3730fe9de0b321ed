"""Array metadata as VirtualiZarr 1.0 to 1.3 wrote it, as valid Zarr v3 metadata. Pure.

These releases held arrays as in Zarr v2 (filters, compressor, order, data type), and translated
that incorrectly: only the filters, in Zarr v2 form (1.0); everything after ``bytes``, which is
always little-endian (1.1, 1.2); no ``bytes`` (1.3). Each is undone, and the members of Zarr v2
are converted like those of any other array. What 1.0 left out, compressor and order, is lost.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from zarr_manifest.conversion.nodes import Decisions
from zarr_manifest.conversion.target import require_valid_array
from zarr_manifest.conversion.values import as_object, brief, json_attributes
from zarr_manifest.conversion.zarr2 import (
    ARRAY_FILTERS,
    DataType,
    convert_codecs,
    convert_data_type,
    convert_fill_value,
    object_codec_of,
    read_pipeline,
)
from zarr_manifest.errors import InvalidConfigurationError
from zarr_manifest.format import ArrayMetadata
from zarr_manifest.showing import counted

RECREATE = "Create the references again, from the sources."

type Codec = dict[str, Any]
type _Lengths = list[Annotated[int, msgspec.Meta(ge=0)]]

_PREFIX = "numcodecs."
# Codecs after which an element has another size, and the members with its data type.
_CASTS = {"numcodecs.delta", "numcodecs.fixedscaleoffset", "numcodecs.astype"}
_OF_SAME_SIZE = {"transpose", "bytes", "numcodecs.quantize", "numcodecs.bitround"}
# Number of bytes that these codecs add to a chunk; for all others, it depends on the content.
_ADDED_BYTES = {
    "numcodecs.shuffle": 0,
    "crc32c": 4,
    "numcodecs.crc32c": 4,
    "numcodecs.crc32": 4,
    "numcodecs.adler32": 4,
    "numcodecs.fletcher32": 4,
    "numcodecs.jenkins_lookup3": 4,
}


@dataclass(frozen=True)
class Repaired:
    """Valid metadata.

    Attributes
    ----------
    metadata : dict
        The content of ``zarr.json``, storage transformers included.
    repairs : tuple of str
        What was wrong and how it was repaired, as sentences without a full stop; empty
        if `metadata` is unchanged.
    is_theirs : bool
        Whether these releases may have written it; otherwise it is valid as it is.
    """

    metadata: dict[str, Any]
    repairs: tuple[str, ...]
    is_theirs: bool


class _GridConfiguration(msgspec.Struct):
    chunk_shape: _Lengths


class _RegularGrid(msgspec.Struct):
    name: Literal["regular"]
    configuration: _GridConfiguration


class _Written(msgspec.Struct):
    """The members of ``zarr.json`` that may need repair, as these releases wrote them."""

    shape: _Lengths
    data_type: str
    chunk_grid: _RegularGrid
    codecs: list[Codec] | None
    fill_value: Any
    attributes: dict[str, Any]


@dataclass
class _Zarr2Members:
    """What the ``codecs`` of these releases stood for, and what is wrong with them."""

    pipeline: list[Codec] = field(default_factory=list[Codec])
    order: str = "C"
    endian: str | None = None
    faults: list[str] = field(default_factory=list[str])
    lost_compressor: bool = False


class _NotTheirsError(Exception):
    """The metadata is none that these releases wrote; the message says why."""


def repair_array(
    metadata: Mapping[str, Any], *, chunk_lengths: Collection[int] = (), path: str = ""
) -> Repaired:
    r"""Return valid Zarr v3 metadata for an array that an older release of VirtualiZarr wrote.

    Parameters
    ----------
    metadata : mapping
        The content of ``zarr.json``; a bare NaN in it is a Python NaN.
    chunk_lengths : collection of int
        Sizes of the chunks of the manifest in bytes. VirtualiZarr 1.0 left out the
        compressor: they show whether there was one.
    path : str, default ""
        Path of the array, for messages.

    Raises
    ------
    NotConvertibleError
        The metadata is ambiguous, or Zarr v3 cannot express it.
    InvalidConfigurationError
        It is still invalid after all repairs.

    Examples
    --------
    >>> metadata = {
    ...     "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": ">f4",
    ...     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    ...     "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    ...     "codecs": None, "fill_value": None, "attributes": {}, "dimension_names": ["x"],
    ... }
    >>> repaired = repair_array(metadata, chunk_lengths=[8, 8])
    >>> repaired.metadata["data_type"], repaired.metadata["codecs"]
    ('float32', [{'name': 'bytes', 'configuration': {'endian': 'big'}}])
    >>> print(*repaired.repairs, sep="\n")  # doctest: +ELLIPSIS
    data_type '>f4', which is not a Zarr v3 data type, became 'float32', with the codec 'bytes' ...
    'codecs' was null; the codecs are now 'bytes' (big-endian): all chunks have the size that ...
    the fill value null, which stood for NaN, became "NaN"
    """
    decisions = Decisions(path)
    try:
        changed = _changed(metadata, chunk_lengths, decisions)
    except _NotTheirsError as error:
        try:
            require_valid_array(ArrayMetadata(path, dict(metadata)).undeclared)
        except InvalidConfigurationError:
            problem = f"VirtualiZarr 1.0 to 1.3 did not write this: {error}"
            raise decisions.refusal(problem) from error
        return Repaired(dict(metadata), (), is_theirs=False)
    repaired = copy.deepcopy(dict(metadata)) | changed
    require_valid_array(ArrayMetadata(path, repaired).undeclared)
    repairs = tuple(decisions.notes)
    return Repaired(repaired if repairs else dict(metadata), repairs, is_theirs=True)


def _changed(
    metadata: Mapping[str, Any], chunk_lengths: Collection[int], decisions: Decisions
) -> dict[str, Any]:
    """Return the members that are repaired."""
    try:
        written = msgspec.convert(metadata, _Written)
    except msgspec.ValidationError as error:
        raise _NotTheirsError(str(error)) from error
    found = _zarr2_members(written)
    type_string = _type_string(written.data_type, found.endian)
    if _is_fits(written, type_string, found):
        type_string = f">{type_string[1:]}"
        found.faults.append(
            "the array comes from a FITS file, as its attributes show; FITS is big-endian"
        )
    changed = _repaired_grid(written, decisions)
    pipeline = {"filters": found.pipeline, "compressor": None}
    steps = read_pipeline(pipeline, Decisions(decisions.path))
    data_type = convert_data_type(type_string, object_codec_of(steps), decisions)
    if written.data_type != data_type.json:
        changed["data_type"] = data_type.json
        decisions.note(_renaming(written.data_type, data_type, found.endian))
    if found.faults or "data_type" in changed:
        mark = len(decisions.notes)
        shape = written.shape
        codecs = convert_codecs(
            steps, data_type, dimensions=len(shape), order=found.order, decisions=decisions
        )
        chunk_shape = _chunk_shape(written)
        evidence = _compared_sizes(found, codecs, data_type, chunk_shape, chunk_lengths, decisions)
        if found.faults:
            faults = ", and ".join(found.faults)
            sentence = f"{faults}; the codecs are now {_spelled(codecs)}{evidence}"
            decisions.notes.insert(mark, sentence)
        changed["codecs"] = codecs
    fill_value = _fill_value(written.fill_value, data_type, decisions)
    if not _is_same(fill_value, written.fill_value, data_type):
        changed["fill_value"] = fill_value
    attributes, notes = _attributes(written.attributes, np.dtype(type_string))
    if notes:
        changed["attributes"] = attributes
        decisions.note(*notes)
    return changed


# Codecs ---------------------------------------------------------------------------------


def _zarr2_members(written: _Written) -> _Zarr2Members:
    found = _Zarr2Members()
    if written.codecs is None:
        return _Zarr2Members(faults=["'codecs' was null"], lost_compressor=True)
    has_bytes = False
    for item in written.codecs:
        match item:
            case {"id": str(codec)}:
                found.faults = ["'codecs' were those of Zarr v2"]
                found.lost_compressor = True
                found.pipeline.append({**item, "id": codec.removeprefix(_PREFIX)})
            case {"name": "bytes", **others} if not has_bytes:
                has_bytes = True
                endian = (as_object(others.get("configuration")) or {}).get("endian")
                found.endian = endian if isinstance(endian, str) else None
            case {"name": "transpose", "configuration": {"order": [*order]}} if (
                order == list(range(len(written.shape)))[::-1] and item is written.codecs[0]
            ):
                found.order = "F"
            case {"name": str(name), "configuration": {**members}} if name.startswith(
                _PREFIX
            ) and str(members.get("id", name)).removeprefix(_PREFIX) == name.removeprefix(_PREFIX):
                codec = name.removeprefix(_PREFIX)
                if "id" in members:
                    found.faults.append(f"the configuration of {name!r} repeated its 'id'")
                if codec in ARRAY_FILTERS and has_bytes:
                    found.faults.append(f"{name!r} came after 'bytes', but works on elements")
                found.pipeline.append({str(k): v for k, v in members.items()} | {"id": codec})
            case _:
                raise _NotTheirsError(f"member 'codecs' contains {brief(item)}")
    if not written.codecs:
        found.faults.append("'codecs' was empty")
    elif not has_bytes and not found.lost_compressor:
        found.faults.append("no codec turned the elements into bytes")
    return found


def _compared_sizes(
    found: _Zarr2Members,
    codecs: Sequence[Codec],
    data_type: DataType,
    chunk_shape: Sequence[int],
    chunk_lengths: Collection[int],
    decisions: Decisions,
) -> str:
    """Refuse codecs if some must be missing; otherwise return the evidence that none is."""
    if data_type.is_variable_length:
        return ""
    size = _encoded_size(codecs, math.prod(chunk_shape), data_type.numpy.itemsize)
    if size is None:
        return ""
    other = next((length for length in chunk_lengths if length != size), None)
    if other is not None:
        lost = found.lost_compressor
        reason = "the compressor was not recorded" if lost else "a codec is missing"
        raise decisions.refusal(
            f"a chunk has {counted(other, 'byte')}, but the stated codecs yield {size:,}: {reason}",
            remedy=RECREATE,
        )
    if not found.lost_compressor:
        return ""
    what = "all chunks have the size that this yields" if chunk_lengths else "there are no chunks"
    if len(chunk_shape) < 2:
        return f": {what}"
    return f": {what}; elements are assumed to be in order 'C', which was not recorded"


def _encoded_size(codecs: Sequence[Codec], elements: int, itemsize: int) -> int | None:
    """Return the size of an encoded chunk in bytes, or None if it depends on the values.

    Examples
    --------
    >>> _encoded_size([{"name": "bytes"}, {"name": "crc32c"}], 10, 4)
    44
    """
    added = 0
    for codec in codecs:
        members = codec.get("configuration", {})
        if codec["name"] in _CASTS:
            itemsize = np.dtype(members.get("astype", members.get("encode_dtype"))).itemsize
        elif codec["name"] in _ADDED_BYTES:
            added += _ADDED_BYTES[codec["name"]]
        elif codec["name"] not in _OF_SAME_SIZE:
            return None
    return elements * itemsize + added


def _spelled(codecs: Sequence[Codec]) -> str:
    """Return the names of codecs for a message, with the byte order."""
    parts: list[str] = []
    for codec in codecs:
        endian = codec.get("configuration", {}).get("endian")
        parts.append(f"{codec['name']!r}" + (f" ({endian}-endian)" if endian else ""))
    return ", ".join(parts)


# Data type, chunk grid, fill value ------------------------------------------------------


def _type_string(stated: str, endian: str | None) -> str:
    """Return the Zarr v2 data type; they wrote ``str`` of numpy's, on little-endian machines."""
    try:
        dtype: np.dtype[Any] = np.dtype(stated)
    except (TypeError, ValueError, SyntaxError, OverflowError) as error:
        raise _NotTheirsError(f"data type {brief(stated)}") from error
    if str(dtype) != stated:
        raise _NotTheirsError(f"data type {brief(stated)}")
    return dtype.newbyteorder(">").str if endian == "big" else dtype.str


def _renaming(stated: str, data_type: DataType, endian: str | None) -> str:
    name = data_type.json if isinstance(data_type.json, str) else data_type.json["name"]
    sentence = f"data_type {stated!r}, which is not a Zarr v3 data type, became {name!r}"
    if data_type.endian is not None:
        sentence += f", with the codec 'bytes' {data_type.endian}-endian"
        if endian not in (None, data_type.endian):
            sentence += f", which said {endian!r}"
    return sentence


def _is_fits(written: _Written, type_string: str, found: _Zarr2Members) -> bool:
    """Whether the array comes from a FITS file, whose byte order kerchunk dropped.

    It wrote "float32" or "float64" up to release 0.2.7, but FITS is big-endian. The
    header of the file became the attributes.
    """
    header = written.attributes
    bits = {"<f4": -32, "<f8": -64}.get(type_string)
    is_header = "SIMPLE" in header or "XTENSION" in header
    return bits is not None and header.get("BITPIX") == bits and is_header and not found.pipeline


def _chunk_shape(written: _Written) -> list[int]:
    """Return the shape of a chunk; for an empty array, they wrote the length of the array."""
    return [length or 1 for length in written.chunk_grid.configuration.chunk_shape]


def _repaired_grid(written: _Written, decisions: Decisions) -> dict[str, Any]:
    stated = written.chunk_grid.configuration.chunk_shape
    empty = [axis for axis, length in enumerate(stated) if not length]
    for axis in empty:
        if written.shape[axis : axis + 1] != [0]:
            raise _NotTheirsError(f"chunks of length 0 in dimension {axis}, which is not empty")
        decisions.note(
            f"the chunk length 0 in dimension {axis}, which is empty, became 1, because Zarr "
            "v3 requires a positive one"
        )
    grid = {"name": "regular", "configuration": {"chunk_shape": _chunk_shape(written)}}
    return {"chunk_grid": grid} if empty else {}


def _fill_value(stated: Any, data_type: DataType, decisions: Decisions) -> Any:
    kind = data_type.numpy.kind
    value, because = stated, ""
    if kind == "f" and stated is None:
        value, because = math.nan, "stood for NaN"
    elif isinstance(stated, float) and not math.isfinite(stated):
        because = "JSON lacks"
        if math.isnan(stated) and kind not in "fc":
            # kerchunk's null became NaN, whatever the data type.
            decisions.note(f"the fill value NaN is not a value of data type {data_type.json!r}")
            value = None
    mark = len(decisions.notes)
    converted = convert_fill_value(value, data_type, decisions)
    if len(decisions.notes) == mark and not _is_same(converted, stated, data_type):
        because = f", which {because}," if because else ""
        decisions.note(
            f"the fill value {json.dumps(stated)}{because} became {json.dumps(converted)}"
        )
    return converted


def _attributes(
    stated: Mapping[str, Any], dtype: np.dtype[Any]
) -> tuple[dict[str, Any], list[str]]:
    missing = stated.get("_FillValue")
    if not isinstance(missing, float) or math.isfinite(missing):
        return json_attributes(stated)
    found, notes = json_attributes(stated, dtype)
    return found, notes or ["the attribute '_FillValue' was encoded for xarray"]


def _is_same(one: Any, other: Any, data_type: DataType) -> bool:
    """Whether two fill values mean the same; the integer 1 may stand for a float."""
    if data_type.numpy.kind == "f" and isinstance(other, int | float):
        return bool(one == other) and not isinstance(other, bool)
    return json.dumps(one) == json.dumps(other)
