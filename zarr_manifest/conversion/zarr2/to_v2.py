"""Zarr v3 metadata (``zarr.json``) as Zarr v2 metadata (``.zarray``, ``.zattrs``).

The chunks stay as they are, so only arrays with codecs that Zarr v2 has can be expressed: an
order, a pipeline of numcodecs, a byte order. Chunk keys have dots. Byte orders within filters,
and what codecs infer from the array, differ between the two in ways that depend on the codec:
so the result is tried out on a small chunk.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
import zarr
from zarr.buffer import default_buffer_prototype
from zarr.dtype import parse_dtype
from zarr.registry import get_numcodec
from zarr.storage import MemoryStore

from zarr_manifest.conversion.nodes import Decisions
from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2.codecs import (
    ARRAY_FILTERS,
    ARRAY_TO_BYTES,
    BYTES_CODECS,
    DECODED_TYPE,
    OBJECT_CODECS,
    zarr2_config,
)
from zarr_manifest.conversion.zarr2.fill_values import fill_value_for_masking
from zarr_manifest.errors import NotConvertibleError, in_context
from zarr_manifest.format import ArrayMetadata, interpret_chunk_grid, join, strict

_DIMENSIONS = "_ARRAY_DIMENSIONS"
_ORDERS = {"little": "<", "big": ">"}


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

    def documents(self, path: str) -> dict[str, dict[str, Any]]:
        """Return its documents by key, given its path."""
        name = ".zarray" if "shape" in self.node else ".zgroup"
        found = {join(path, name): self.node, join(path, ".zattrs"): self.attributes}
        return {key: document for key, document in found.items() if document}

    def masked(self, *, is_complete: bool) -> Zarr2Metadata:
        """Return the metadata of an array with the fill value for xarray to mask what is missing.

        Parameters
        ----------
        is_complete : bool
            Whether no chunk is missing, so that the fill value is free.
        """
        dtype = self.node["dtype"]
        if _DIMENSIONS not in self.attributes or not isinstance(dtype, str):
            return self
        attributes, decisions = dict(self.attributes), Decisions("")
        fill_value = fill_value_for_masking(
            attributes, self.node["fill_value"], np.dtype(dtype), decisions, is_complete=is_complete
        )
        node = self.node | {"fill_value": fill_value}
        return Zarr2Metadata(node, attributes, (*self.notes, *decisions.notes))


def convert_group_to_zarr2(metadata: Mapping[str, Any]) -> Zarr2Metadata:
    """Return the Zarr v2 metadata of a Zarr v3 group."""
    return Zarr2Metadata({"zarr_format": 2}, dict(as_object(metadata.get("attributes")) or {}))


def convert_array_to_zarr2(metadata: Mapping[str, Any], *, path: str = "") -> Zarr2Metadata:
    """Return the Zarr v2 metadata of a Zarr v3 array.

    Parameters
    ----------
    metadata : mapping
        Valid Zarr v3 metadata; storage transformers are ignored.
    path : str
        Path of the array, for messages.

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
    with in_context(array=path):
        require_same_values(metadata, zarray)
    attributes = dict(as_object(metadata.get("attributes")) or {})
    # xarray opens a zero-dimensional Zarr v2 array only if it names its (no) dimensions.
    names: object = metadata.get("dimension_names") if grid.shape else ()
    _name_dimensions(attributes, names, decisions)
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
            member = DECODED_TYPE.get(step["id"])
            if member is not None and step.get(member) is None:
                step[member] = native.str
            if step["id"] == "shuffle" and step.get("elementsize") is None:
                step["elementsize"] = native.itemsize

    @property
    def byte_order(self) -> Any:
        """The byte order of the decoded elements."""
        for step in self.steps:
            stated = step.get(DECODED_TYPE.get(step["id"], ""))
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
    step = zarr2_config(name, configuration)
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


# A small chunk, encoded as Zarr v3 and decoded as Zarr v2 ---------------------------------


# Elements of the small chunk along each dimension.
_LENGTH = 3


def require_same_values(metadata: Mapping[str, Any], zarray: Mapping[str, Any]) -> None:
    """Refuse v2 metadata that decodes a chunk to other values than the v3 metadata does.

    Parameters
    ----------
    metadata : mapping
        Zarr v3 array metadata; storage transformers are ignored.
    zarray : mapping
        Zarr v2 array metadata.

    Raises
    ------
    NotConvertibleError
        It does, or cannot be decoded at all.
    """
    shape = [min(n, _LENGTH) for n in zarray["chunks"]]
    try:
        values, chunk = _written(_small(metadata, shape))
        decoded = _decoded(zarray, chunk, shape)
    except Exception as error:  # from whichever codec
        raise NotConvertibleError(
            f"its codecs could not be tried out as Zarr v2: {type(error).__name__}: {error}"
        ) from error
    if not _same(values, decoded):
        raise NotConvertibleError("as Zarr v2, its codecs decode chunks to other values")


def _small(metadata: Mapping[str, Any], shape: list[int]) -> dict[str, Any]:
    undeclared = ArrayMetadata("", dict(metadata)).undeclared
    undeclared.pop("dimension_names", None)
    return undeclared | {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
        "attributes": {},
    }


def _written(metadata: dict[str, Any]) -> tuple[np.ndarray[Any, Any], bytes]:
    """Return the values that zarr reads from a chunk that it has written, and the chunk."""
    body = default_buffer_prototype().buffer.from_bytes(json.dumps(metadata).encode())
    contents: dict[str, Any] = {"zarr.json": body}
    library = cast("Any", zarr)
    with warnings.catch_warnings():
        # Whether a data type is in the core specification does not matter here.
        warnings.simplefilter("ignore")
        opened = library.open_array(MemoryStore(contents), mode="r+", zarr_format=3)
        array = opened.with_config({"write_empty_chunks": True})
        array[...] = _values(array.dtype, array.shape)
        # With a dtype, because a text scalar is only as long as its content.
        values = np.asarray(array[...], array.dtype)
    del contents["zarr.json"]
    (chunk,) = contents.values()
    return values, chunk.to_bytes()


def _decoded(zarray: Mapping[str, Any], chunk: bytes, shape: list[int]) -> np.ndarray[Any, Any]:
    """Return the values that Zarr v2 reads from a chunk.

    This follows the specification instead of using zarr: 3.1 cannot read nested v2 data types.
    """
    steps: list[Any] = [*(zarray["filters"] or []), zarray["compressor"]]
    content: Any = chunk
    for step in reversed(steps):
        content = content if step is None else get_numcodec(step).decode(content)
    elements: Any = content if hasattr(content, "dtype") else np.frombuffer(content, "u1")
    elements = elements.reshape(-1, order="A")
    dtype = _numpy_type(zarray["dtype"])
    if "O" not in (dtype.kind, elements.dtype.kind):
        elements = elements.view(dtype)
    return np.asarray(elements.reshape(shape, order=zarray["order"]))


def _numpy_type(spec: Any) -> np.dtype[Any]:
    if isinstance(spec, str):
        return np.dtype(spec)
    return np.dtype([(name, _numpy_type(inner), *map(tuple, rest)) for name, inner, *rest in spec])


def _values(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return elements that differ from each other in more than one byte."""
    count = int(np.prod(shape, dtype=np.int64))
    numbers = np.arange(1, count + 1)
    if dtype.kind in "SUT":
        return np.array([f"{n}" for n in numbers]).astype(dtype).reshape(shape)
    if dtype.kind == "O":
        return np.array([b"%d" % n for n in numbers], object).reshape(shape)
    if dtype.kind == "V":
        content = np.arange(count * dtype.itemsize) % 97 + 1
        return np.frombuffer(content.astype("u1").tobytes(), dtype).reshape(shape)
    if dtype.kind == "b":
        return (numbers % 2).astype(dtype).reshape(shape)
    scale = 258 if dtype.itemsize > 1 else 1
    return (numbers * scale).astype("i8").astype(dtype).reshape(shape)


def _same(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    if first.dtype.kind in "OT" or second.dtype.kind in "OT":
        return bool(cast("list[Any]", first.tolist()) == second.tolist())
    one, other = first.dtype.newbyteorder("<"), second.dtype.newbyteorder("<")
    return bool(one == other and first.astype(one).tobytes() == second.astype(other).tobytes())
