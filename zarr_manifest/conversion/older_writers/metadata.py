"""Array metadata as VirtualiZarr 1.0 to 1.3 wrote it, as valid Zarr v3 metadata.

Unambiguous faults are repaired, and each repair is described in a sentence; the rest is
refused. Valid metadata is returned unchanged. No I/O: documents in, documents out.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from zarr_manifest.conversion.nodes import Decisions
from zarr_manifest.conversion.older_writers.attributes import repair_attributes
from zarr_manifest.conversion.older_writers.codecs import (
    OlderCodecs,
    encoded_size,
    read_codecs,
    spelled,
)
from zarr_manifest.conversion.older_writers.evidence import RECREATE
from zarr_manifest.conversion.target import require_valid_array
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2 import (
    DataType,
    convert_data_type,
    convert_fill_value,
    object_codec_of,
    read_pipeline,
)
from zarr_manifest.format import TRANSFORMER_NAME, ArrayMetadata
from zarr_manifest.showing import counted

__all__ = ["Repaired", "is_theirs", "repair_array"]

# The declaration of all these releases.
_DECLARED = [{"name": TRANSFORMER_NAME, "configuration": {"manifest": "./manifest.json"}}]

# The form of str(numpy.dtype) for a data type in the native byte order of the writer ...
_NATIVE = re.compile(
    r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)|object|(datetime|timedelta)64(\[\w+\])?"
)
# ... and in the other one, or for a type without a name.
_TYPE_STRING = re.compile(r"[<>|][a-zA-Z]\d+(\[\w+\])?", re.ASCII)


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
    """

    metadata: dict[str, Any]
    repairs: tuple[str, ...]


def is_theirs(metadata: Mapping[str, Any]) -> bool:
    """Whether an array has the declaration of these releases, which others may have, too."""
    return metadata.get("storage_transformers") == _DECLARED


def repair_array(
    metadata: Mapping[str, Any],
    *,
    chunk_lengths: Collection[int | None] | None = None,
    path: str = "",
) -> Repaired:
    r"""Return valid Zarr v3 metadata for an array that an older release of VirtualiZarr wrote.

    Parameters
    ----------
    metadata : mapping
        The content of ``zarr.json``; a bare NaN in it is a Python NaN.
    chunk_lengths : collection of (int or None), optional
        Sizes of the chunks of the manifest in bytes, None for each unknown one.
        VirtualiZarr 1.0 left out the compressor: this shows whether there was one.
        None if the manifest is unknown.
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
    array = _Array(copy.deepcopy(dict(metadata)), decisions)
    array.check_members()
    array.repair_chunk_shape()
    codecs = read_codecs(array.metadata.get("codecs"), len(array.shape), decisions)
    type_string = _type_string(array.metadata["data_type"], codecs)
    if codecs is not None and type_string is not None:
        array.repair_elements(type_string, codecs, chunk_lengths)
    elif codecs is not None and codecs.faults:
        raise decisions.refusal(
            f"{codecs.faults[0]}, and data type {brief(array.metadata['data_type'])} is not one "
            "that these releases of VirtualiZarr wrote"
        )
    array.repair_attributes(type_string)
    require_valid_array(ArrayMetadata(path, array.metadata).undeclared)
    repairs = tuple(array.sentences())
    return Repaired(array.metadata if repairs else dict(metadata), repairs)


@dataclass
class _Array:
    """Metadata under repair; the repairs are collected as decisions."""

    metadata: dict[str, Any]
    decisions: Decisions

    def sentences(self) -> list[str]:
        """Return the repairs, without the name of the array."""
        prefix = f"array {self.decisions.path!r}: "
        return [note.removeprefix(prefix) for note in self.decisions.notes]

    @property
    def shape(self) -> list[int]:
        return list(self.metadata["shape"])

    def check_members(self) -> None:
        """Refuse metadata that no release wrote."""
        lengths = as_array(self.metadata.get("shape"))
        if lengths is None or not all(_is_length(n) for n in lengths):
            found = brief(self.metadata.get("shape"))
            raise self.decisions.refusal(f"member 'shape' is not a list of lengths: {found}")
        for member in ("data_type", "chunk_grid", "chunk_key_encoding"):
            if self.metadata.get(member) is None:
                raise self.decisions.refusal(f"member {member!r} is missing")

    def chunk_shape(self) -> list[int] | None:
        """Return the shape of a chunk; None if the chunk grid is not regular."""
        grid = as_object(self.metadata["chunk_grid"]) or {}
        configuration = as_object(grid.get("configuration")) or {}
        lengths = as_array(configuration.get("chunk_shape"))
        if grid.get("name") != "regular" or lengths is None:
            return None
        chunks = [n for n in lengths if isinstance(n, int) and _is_length(n)]
        return chunks if len(chunks) == len(lengths) == len(self.shape) else None

    def repair_chunk_shape(self) -> None:
        """Repair the chunk length of an empty array, which was the length of the array."""
        chunks = self.chunk_shape() or []
        pairs = zip(chunks, self.shape, strict=False)
        empty = [axis for axis, pair in enumerate(pairs) if pair == (0, 0)]
        for axis in empty:
            chunks[axis] = 1
            self.decisions.note(
                f"the chunk length 0 in dimension {axis}, which is empty, became 1, because Zarr "
                "v3 requires a positive one"
            )
        if empty:
            self.metadata["chunk_grid"]["configuration"]["chunk_shape"] = chunks

    def repair_elements(
        self, type_string: str, codecs: OlderCodecs, lengths: Collection[int | None] | None
    ) -> None:
        """Repair everything that depends on the data type."""
        if self._is_fits(type_string, codecs):
            type_string = f">{type_string[1:]}"
            codecs.faults.append(
                "the array comes from a FITS file, as its attributes show; FITS is big-endian"
            )
        silent = Decisions(self.decisions.path)
        steps = read_pipeline({"filters": codecs.pipeline, "compressor": None}, silent)
        data_type = convert_data_type(type_string, object_codec_of(steps), self.decisions)
        stated = self.metadata["data_type"]
        is_other = stated != data_type.json
        if is_other:
            self._rename_data_type(data_type, codecs)
        if codecs.faults or is_other:
            self._repair_codecs(codecs, data_type, lengths)
        self._repair_fill_value(data_type)

    def repair_attributes(self, type_string: str | None) -> None:
        """Convert numbers that JSON lacks as the other importers do."""
        dtype = None if type_string is None else np.dtype(type_string)
        attributes, notes = repair_attributes(self.metadata, dtype)
        if notes:
            self.metadata["attributes"] = attributes
            for note in notes:
                self.decisions.note(note)

    def _is_fits(self, type_string: str, codecs: OlderCodecs) -> bool:
        """Whether the array comes from a FITS file, whose byte order kerchunk dropped.

        It wrote "float32" or "float64" up to release 0.2.7, but FITS is big-endian. The
        header of the file became the attributes.
        """
        header = as_object(self.metadata.get("attributes")) or {}
        bits = {"<f4": -32, "<f8": -64}.get(type_string)
        is_header = "SIMPLE" in header or "XTENSION" in header
        is_stated = self.metadata["data_type"] == type_string
        if bits is None or header.get("BITPIX") != bits or not is_header or is_stated:
            return False
        return is_theirs(self.metadata) and not codecs.pipeline

    def _rename_data_type(self, data_type: DataType, codecs: OlderCodecs) -> None:
        stated = self.metadata["data_type"]
        self.metadata["data_type"] = data_type.json
        became = _named(data_type.json)
        sentence = f"data_type {stated!r}, which is not a Zarr v3 data type, became {became}"
        if data_type.endian is not None:
            sentence += f", with the codec 'bytes' {data_type.endian}-endian"
        if data_type.endian is not None and codecs.endian not in (None, data_type.endian):
            sentence += f", which said {codecs.endian!r}"
        self.decisions.note(sentence)

    def _repair_codecs(
        self, codecs: OlderCodecs, data_type: DataType, lengths: Collection[int | None] | None
    ) -> None:
        before = len(self.decisions.notes)
        converted = codecs.to_v3(data_type, len(self.shape), self.decisions)
        conversions = self.decisions.notes[before:]
        del self.decisions.notes[before:]
        evidence = self._compare_sizes(codecs, converted, data_type, lengths)
        if codecs.faults:
            sentence = f"{', and '.join(codecs.faults)}; the codecs are now {spelled(converted)}"
            self.decisions.note(sentence + evidence)
        self.decisions.notes.extend(conversions)
        self.metadata["codecs"] = converted

    def _compare_sizes(
        self,
        codecs: OlderCodecs,
        converted: list[dict[str, object]],
        data_type: DataType,
        lengths: Collection[int | None] | None,
    ) -> str:
        """Refuse codecs if some must be missing; otherwise return the evidence that none is."""
        chunks = self.chunk_shape()
        size = None
        if chunks is not None and not data_type.is_variable_length:
            size = encoded_size(converted, math.prod(chunks), data_type.numpy.itemsize)
        if size is None:
            return ""
        if lengths is None or None in lengths:
            if codecs.lost is None:
                return ""
            raise self.decisions.refusal(
                f"{codecs.faults[0]}, and the manifest does not state the sizes of the chunks, "
                "which would show whether they are compressed",
                remedy=RECREATE,
            )
        other = next((length for length in lengths if length != size), None)
        if other is not None:
            reason = "the compressor was not recorded" if codecs.lost else "a codec is missing"
            raise self.decisions.refusal(
                f"a chunk has {counted(other, 'byte')}, "
                f"but the stated codecs yield {size:,}: {reason}",
                remedy=RECREATE,
            )
        if codecs.lost is None:
            return ""
        what = "all chunks have the size that this yields" if lengths else "there are no chunks"
        if len(self.shape) < 2:
            return f": {what}"
        return f": {what}; elements are assumed to be in order 'C', which was not recorded"

    def _repair_fill_value(self, data_type: DataType) -> None:
        value = self.metadata.get("fill_value")
        kind = data_type.numpy.kind
        if _is_fill_value(value, kind):
            return
        if value is None and kind == "f":
            self.decisions.note('the fill value null, which stood for NaN, became "NaN"')
            self.metadata["fill_value"] = "NaN"
            return
        if isinstance(value, float) and not math.isfinite(value) and kind == "f":
            converted = convert_fill_value(value, data_type, self.decisions)
            self.decisions.note(
                f"the fill value {json.dumps(value)}, which JSON lacks, became "
                f"{json.dumps(converted)}"
            )
            self.metadata["fill_value"] = converted
            return
        if isinstance(value, float) and math.isnan(value) and kind not in "fc":
            # kerchunk's null became NaN, whatever the data type.
            self.decisions.note(
                f"the fill value NaN is not a value of data type {data_type.json!r}"
            )
            value = None
        self.metadata["fill_value"] = convert_fill_value(value, data_type, self.decisions)


def _type_string(stated: object, codecs: OlderCodecs | None) -> str | None:
    """Return the Zarr v2 data type, or None for one that these releases did not write."""
    if not isinstance(stated, str):
        return None
    if _TYPE_STRING.fullmatch(stated):
        return stated
    if not _NATIVE.fullmatch(stated):
        return None
    try:
        dtype: np.dtype[Any] = np.dtype(stated)
    except (TypeError, ValueError):
        return None
    # In the native byte order of the writer's machine, which is assumed to be little-endian.
    is_big = codecs is not None and codecs.endian == "big"
    return dtype.newbyteorder(">" if is_big else "<").str


def _named(data_type: str | dict[str, object]) -> str:
    return repr(data_type if isinstance(data_type, str) else data_type["name"])


def _is_length(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_fill_value(value: object, kind: str) -> bool:
    """Whether a value has the right JSON type; zarr checks the value itself."""
    if value is None:
        return False
    if kind == "b":
        return isinstance(value, bool)
    if kind in "iu":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in "mM":
        return value == "NaT" or (isinstance(value, int) and not isinstance(value, bool))
    if kind == "f":
        return isinstance(value, str) or _is_finite(value)
    if kind == "c":
        parts = as_array(value) or []
        return len(parts) == 2 and all(isinstance(p, str) or _is_finite(p) for p in parts)
    return isinstance(value, str)


def _is_finite(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (isinstance(value, int) or math.isfinite(value))
    )
