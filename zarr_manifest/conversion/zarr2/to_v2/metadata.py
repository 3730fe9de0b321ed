"""Zarr v3 metadata (``zarr.json``) as Zarr v2 metadata (``.zarray``, ``.zattrs``).

The chunks stay as they are, so only arrays with codecs that Zarr v2 has can be expressed: an
order, a pipeline of numcodecs, a byte order. Chunk keys have dots.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from zarr.dtype import parse_dtype

from zarr_manifest.conversion.nodes import Decisions
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2.array_codecs import ARRAY_FILTERS, ARRAY_TO_BYTES
from zarr_manifest.conversion.zarr2.bytes_codecs import BYTES_CODECS
from zarr_manifest.conversion.zarr2.data_types import OBJECT_CODECS
from zarr_manifest.conversion.zarr2.missing_values import fill_value_for_masking
from zarr_manifest.conversion.zarr2.to_v2.trial import require_same_values
from zarr_manifest.errors import ManifestError
from zarr_manifest.format import interpret_chunk_grid, strict

__all__ = ["Zarr2Metadata", "convert_array_to_zarr2", "convert_group_to_zarr2"]

_DIMENSIONS = "_ARRAY_DIMENSIONS"
_NUMCODECS = "numcodecs."
_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
_ORDERS = {"little": "<", "big": ">"}

# The member in which a filter names the type of its decoded elements.
_DECODED_TYPE = {
    "delta": "dtype",
    "fixedscaleoffset": "dtype",
    "quantize": "dtype",
    "astype": "decode_dtype",
}


class Zarr2Metadata(NamedTuple):
    """A node of Zarr v2.

    Attributes
    ----------
    node : dict
        The content of ``.zarray`` or ``.zgroup``.
    attributes : dict
        The content of ``.zattrs``.
    notes : tuple of str
        Decisions made, and what could not be kept.
    """

    node: dict[str, Any]
    attributes: dict[str, Any]
    notes: tuple[str, ...] = ()


def convert_group_to_zarr2(metadata: Mapping[str, Any]) -> Zarr2Metadata:
    """Return the Zarr v2 metadata of a Zarr v3 group."""
    return Zarr2Metadata({"zarr_format": 2}, dict(as_object(metadata.get("attributes")) or {}))


def convert_array_to_zarr2(
    metadata: Mapping[str, Any],
    *,
    path: str = "",
    is_complete: bool = False,
    is_tried: bool = False,
) -> Zarr2Metadata:
    """Return the Zarr v2 metadata of a Zarr v3 array.

    Parameters
    ----------
    metadata : mapping
        Valid Zarr v3 metadata; storage transformers are ignored.
    path : str
        Path of the array, for messages.
    is_complete : bool
        Whether no chunk is missing. If so, the fill value is the one for xarray to mask.
    is_tried : bool
        Whether the same metadata has been converted before: its codecs are not tried out again.

    Raises
    ------
    NotConvertibleError
        Zarr v2 cannot express it, or would decode chunks to other values.

    Examples
    --------
    >>> converted = convert_array_to_zarr2({
    ...     "zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "int16",
    ...     "fill_value": 0, "dimension_names": ["y", "x"],
    ...     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 6]}},
    ...     "chunk_key_encoding": {"name": "default"},
    ...     "codecs": [{"name": "bytes", "configuration": {"endian": "big"}},
    ...                {"name": "numcodecs.zlib", "configuration": {"level": 4}}],
    ... })
    >>> converted.node["dtype"], converted.node["compressor"], converted.attributes
    ('>i2', {'id': 'zlib', 'level': 4}, {'_ARRAY_DIMENSIONS': ['y', 'x']})
    """
    decisions = Decisions(path)
    grid = strict(interpret_chunk_grid(metadata))
    if grid is None or grid.regular is None:
        raise decisions.refusal("Zarr v2 has only regular chunk grids")
    pipeline = _pipeline(metadata.get("codecs"), len(grid.shape), decisions)
    dtype, fill_value = _type_and_fill_value(metadata, pipeline, decisions)
    filters, compressor = pipeline.split()
    zarray = {
        "zarr_format": 2,
        "shape": list(grid.shape),
        "chunks": list(grid.regular),
        "dtype": dtype,
        "fill_value": fill_value,
        "order": pipeline.order,
        "filters": filters,
        "compressor": compressor,
        "dimension_separator": ".",
    }
    if not is_tried:
        try:
            require_same_values(metadata, zarray)
        except ManifestError as error:
            raise error.in_context(array=path) from error.__cause__
    attributes = dict(as_object(metadata.get("attributes")) or {})
    # xarray opens a zero-dimensional Zarr v2 array only if it names its (no) dimensions.
    names: object = metadata.get("dimension_names") if grid.shape else ()
    _name_dimensions(attributes, names, decisions)
    if _DIMENSIONS in attributes and isinstance(dtype, str):
        zarray["fill_value"] = fill_value_for_masking(
            attributes, fill_value, np.dtype(dtype), decisions, is_complete=is_complete
        )
    return Zarr2Metadata(zarray, attributes, tuple(decisions.notes))


# Codecs ------------------------------------------------------------------------------


@dataclass
class _Pipeline:
    """The codecs as Zarr v2 has them, in the order of encoding."""

    order: str = "C"
    endian: str = "little"
    object_codec: str | None = None
    steps: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    in_bytes: bool = False

    def split(self) -> tuple[list[dict[str, Any]] | None, dict[str, Any] | None]:
        """Return filters and compressor: the last step is the compressor if it yields bytes."""
        steps = self.steps
        if steps and steps[-1]["id"] in BYTES_CODECS | ARRAY_TO_BYTES:
            return steps[:-1] or None, steps[-1]
        return steps or None, None

    def complete(self, native: np.dtype[Any]) -> None:
        """State what zarr infers from the array if a codec omits it, and numcodecs cannot infer."""
        for step in self.steps:
            member = _DECODED_TYPE.get(step["id"])
            if member is not None and step.get(member) is None:
                step[member] = native.str
            if step["id"] == "shuffle" and step.get("elementsize") is None:
                step["elementsize"] = native.itemsize

    @property
    def byte_order(self) -> Any:
        """The byte order of the decoded elements."""
        for step in self.steps:
            stated = step.get(_DECODED_TYPE.get(step["id"], ""))
            if stated is not None:
                return np.dtype(stated).str[0].replace("|", "<")
        return _ORDERS.get(self.endian, "<")


def _pipeline(codecs: object, ndim: int, decisions: Decisions) -> _Pipeline:
    pipeline = _Pipeline()
    stated = as_array(codecs)
    if stated is None:
        raise decisions.refusal(f"member 'codecs' is not a list: {brief(codecs)}")
    for item in stated:
        codec = {"name": item} if isinstance(item, str) else as_object(item)
        name = None if codec is None else codec.get("name")
        if codec is None or not isinstance(name, str):
            raise decisions.refusal(f"a codec has no name: {brief(item)}")
        configuration = dict(as_object(codec.get("configuration")) or {})
        _append(pipeline, name, configuration, ndim, decisions)
    return pipeline


def _append(
    pipeline: _Pipeline, name: str, configuration: dict[str, Any], ndim: int, decisions: Decisions
) -> None:
    if name == "transpose":
        pipeline.order = _order(pipeline, configuration, ndim, decisions)
        return
    if name == "bytes":
        pipeline.endian = str(configuration.get("endian") or "little")
        pipeline.in_bytes = True
        return
    step = _numcodecs(name, configuration)
    if step is None:
        raise decisions.refusal(
            f"codec {name!r} has no counterpart in Zarr v2",
            remedy="kerchunk has no shards." if name == "sharding_indexed" else None,
        )
    codec = str(step["id"])
    if codec in OBJECT_CODECS:
        pipeline.object_codec = codec
    if pipeline.in_bytes and codec not in BYTES_CODECS:
        raise decisions.refusal(f"codec {name!r} comes after one that turns elements into bytes")
    pipeline.in_bytes |= codec not in ARRAY_FILTERS
    pipeline.steps.append(step)


def _order(
    pipeline: _Pipeline, configuration: dict[str, Any], ndim: int, decisions: Decisions
) -> str:
    axes = as_array(configuration.get("order"))
    if axes == list(range(ndim)):
        return pipeline.order
    if axes == list(range(ndim))[::-1] and pipeline.order == "C" and not pipeline.steps:
        return "F"
    raise decisions.refusal(
        f"codec 'transpose' with the order {brief(axes)}, at this position, is neither order 'C' "
        "nor 'F' of Zarr v2"
    )


def _numcodecs(name: str, configuration: dict[str, Any]) -> dict[str, Any] | None:
    """Return the numcodecs configuration for a codec, or None."""
    if name.startswith(_NUMCODECS):
        codec = name.removeprefix(_NUMCODECS)
        known = codec in BYTES_CODECS | ARRAY_FILTERS | ARRAY_TO_BYTES
        return {"id": codec} | configuration if known else None
    if name.startswith("imagecodecs_"):
        return {"id": name} | configuration if name in BYTES_CODECS | ARRAY_FILTERS else None
    if name in OBJECT_CODECS:
        return {"id": name}
    if name == "gzip":
        return {"id": "gzip", "level": configuration.get("level", 5)}
    if name == "zstd":
        checksum = {"checksum": True} if configuration.get("checksum") else {}
        return {"id": "zstd", "level": configuration.get("level", 0)} | checksum
    if name == "blosc":
        # It only matters for encoding: compressed bytes describe themselves.
        return {
            "id": "blosc",
            "cname": configuration.get("cname", "zstd"),
            "clevel": configuration.get("clevel", 5),
            "shuffle": _SHUFFLES.get(str(configuration.get("shuffle")), 0),
            "blocksize": configuration.get("blocksize", 0),
        }
    return {"id": "crc32c", "location": "end"} if name == "crc32c" else None


# Data type and fill value --------------------------------------------------------------


def _type_and_fill_value(
    metadata: Mapping[str, Any], pipeline: _Pipeline, decisions: Decisions
) -> tuple[object, object]:
    stated: Any = metadata.get("data_type")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names that may change in zarr
            ours: Any = parse_dtype(stated, zarr_format=3)
            fill: Any = ours.from_json_scalar(metadata.get("fill_value"), zarr_format=3)
            if pipeline.object_codec is not None:
                return "|O", _json(ours.to_json_scalar(fill, zarr_format=2))
            native: np.dtype[Any] = ours.to_native_dtype()
            pipeline.complete(native)
            ordered = native.newbyteorder(pipeline.byte_order)
            theirs: Any = parse_dtype(ordered, zarr_format=2)
            scalar: Any = np.asarray(fill, native).astype(ordered)[()]
            name: object = theirs.to_json(zarr_format=2)["name"]
            return name, _json(theirs.to_json_scalar(scalar, zarr_format=2))
    except (ValueError, TypeError, KeyError, NotImplementedError, OverflowError) as error:
        raise decisions.refusal(
            f"Zarr v2 cannot have data type {brief(stated)} with the fill value "
            f"{brief(metadata.get('fill_value'))}: {error}"
        ) from error


def _json(value: object) -> object:
    parts = as_array(value)  # zarr makes tuples of complex numbers
    return value if parts is None else parts


# Attributes ------------------------------------------------------------------------------


def _name_dimensions(attributes: dict[str, Any], names: object, decisions: Decisions) -> None:
    stated = as_array(names)
    if stated is None or (stated and all(name is None for name in stated)):
        return
    if not all(isinstance(name, str) for name in stated):
        decisions.note(f"the dimension names {brief(stated)} were left out: one is null")
        return
    if attributes.get(_DIMENSIONS, stated) != stated:
        decisions.note(f"the dimension names replaced the attribute {_DIMENSIONS!r}")
    attributes[_DIMENSIONS] = stated
