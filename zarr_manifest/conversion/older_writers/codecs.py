"""Codecs as VirtualiZarr 1.0 to 1.3 wrote them, turned back into the original pipeline.

Those releases represented arrays as in Zarr v2 (filters, compressor, order, data type), and
translated them incorrectly in four ways: only the filters, in Zarr v2 form (1.0); everything
after ``bytes``, which is always little-endian (1.1, 1.2); no ``bytes`` (1.3); the ``id`` of a
codec inside its configuration (1.1, 1.2). Each can be undone, because none changes the order
of the steps. What 1.0 left out, compressor and order, is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from zarr_manifest.conversion.values import as_array, as_object, brief
from zarr_manifest.conversion.zarr2 import ARRAY_FILTERS, convert_codecs, read_pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zarr_manifest.conversion.nodes import Decisions
    from zarr_manifest.conversion.zarr2 import DataType

__all__ = ["OlderCodecs", "encoded_size", "read_codecs", "spelled"]

type Codec = dict[str, object]

_PREFIX = "numcodecs."
_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
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


@dataclass
class OlderCodecs:
    """The content of a ``codecs`` member, and what is wrong with it.

    Attributes
    ----------
    pipeline : list of dict
        Filters and compressor as numcodecs configurations, in the order of encoding.
    order : {"C", "F"}
        The layout of a chunk.
    endian : str or None
        The byte order in the codec ``bytes``.
    has_bytes : bool
        Whether there is a codec ``bytes``.
    faults : list of str
        What Zarr v3 does not allow, as sentences without a full stop.
    lost : str or None
        What the writer left out, if anything.
    """

    pipeline: list[Codec] = field(default_factory=list[Codec])
    order: str = "C"
    endian: str | None = None
    has_bytes: bool = False
    faults: list[str] = field(default_factory=list[str])
    lost: str | None = None

    def to_v3(self, data_type: DataType, dimensions: int, decisions: Decisions) -> list[Codec]:
        """Return the codecs in Zarr v3 form.

        Raises
        ------
        NotConvertibleError
            There is no Zarr v3 codec for a step, or the steps do not fit together.
        """
        steps = read_pipeline({"filters": self.pipeline, "compressor": None}, decisions)
        return convert_codecs(
            steps, data_type, dimensions=dimensions, order=self.order, decisions=decisions
        )


def read_codecs(stated: object, dimensions: int, decisions: Decisions) -> OlderCodecs | None:
    """Interpret a ``codecs`` member, if these releases may have written it.

    Returns
    -------
    OlderCodecs or None
        None for what they did not write: sharding, another order of axes, other codecs.

    Raises
    ------
    NotConvertibleError
        It is neither null nor a list of codecs.
    """
    codecs = OlderCodecs()
    if stated is None:
        codecs.faults.append("'codecs' was null")
        codecs.lost = "the compressor and the order of elements"
        return codecs
    items = as_array(stated)
    if items is None:
        raise decisions.refusal(f"member 'codecs' is not a list: {brief(stated)}")
    if not items:
        codecs.faults.append("'codecs' was empty")
    for item in items:
        if not _read_codec(item, codecs, dimensions, decisions):
            return None
    if items and not codecs.has_bytes and codecs.lost is None:
        codecs.faults.append("no codec turned the elements into bytes")
    return codecs


def _read_codec(item: object, codecs: OlderCodecs, dimensions: int, decisions: Decisions) -> bool:
    """Record one codec; return False for one that these releases did not write."""
    members = {"name": item} if isinstance(item, str) else as_object(item)
    if members is None:
        raise decisions.refusal(f"member 'codecs' contains {brief(item)}, which is not a codec")
    name = members.get("name")
    configuration = as_object(members.get("configuration", {}))
    if name is None and isinstance(members.get("id"), str):
        fault = "'codecs' were those of Zarr v2"
        if fault not in codecs.faults:
            codecs.faults.append(fault)
        codecs.lost = "the compressor and the order of elements"
        codecs.pipeline.append({**members, "id": str(members["id"]).removeprefix(_PREFIX)})
        return True
    if not isinstance(name, str) or configuration is None:
        raise decisions.refusal(f"member 'codecs' contains {brief(item)}, which is not a codec")
    if name == "bytes":
        return _read_bytes(configuration, codecs, decisions)
    if name == "transpose":
        return _read_transpose(configuration, codecs, dimensions)
    if not name.startswith(_PREFIX):
        return _read_native(name, configuration, codecs)
    _read_numcodecs(name, configuration, codecs, decisions)
    return True


def _read_bytes(
    configuration: Mapping[str, object], codecs: OlderCodecs, decisions: Decisions
) -> bool:
    if codecs.has_bytes:
        raise decisions.refusal("member 'codecs' contains 'bytes' twice")
    endian = configuration.get("endian")
    codecs.has_bytes = True
    codecs.endian = endian if isinstance(endian, str) else None
    return endian in (None, "little", "big")


def _read_transpose(
    configuration: Mapping[str, object], codecs: OlderCodecs, dimensions: int
) -> bool:
    """Accept only the two orders of Zarr v2, and only as the first step."""
    axes = as_array(configuration.get("order"))
    if codecs.pipeline or codecs.has_bytes or codecs.order == "F":
        return False
    if axes == list(range(dimensions))[::-1]:
        codecs.order = "F"
        return True
    return axes == list(range(dimensions))


def _read_numcodecs(
    name: str, configuration: Mapping[str, object], codecs: OlderCodecs, decisions: Decisions
) -> None:
    codec = name.removeprefix(_PREFIX)
    stated = configuration.get("id", codec)
    if stated not in (codec, name):
        raise decisions.refusal(
            f"codec {name!r} has another codec's 'id' in its configuration: {brief(stated)}"
        )
    if "id" in configuration:
        codecs.faults.append(f"the configuration of {name!r} repeated its 'id'")
    if codec in ARRAY_FILTERS and codecs.has_bytes:
        codecs.faults.append(f"{name!r} came after 'bytes', but works on elements")
    codecs.pipeline.append({**configuration, "id": codec})


def _read_native(name: str, configuration: Mapping[str, object], codecs: OlderCodecs) -> bool:
    """Accept zarr's own codecs, which these releases never wrote: a partial repair by hand."""
    members = dict(configuration)
    if name == "blosc":
        shuffle = members.get("shuffle")
        if not isinstance(shuffle, str) or shuffle not in _SHUFFLES:
            return False
        members["shuffle"] = _SHUFFLES[shuffle]
    elif name not in ("gzip", "zstd", "crc32c"):
        return False
    codecs.pipeline.append({**members, "id": name})
    return True


def encoded_size(codecs: Sequence[Codec], elements: int, itemsize: int) -> int | None:
    """Return the size of an encoded chunk in bytes, or None if it depends on the values.

    Parameters
    ----------
    codecs : sequence of dict
        Zarr v3 codecs.
    elements : int
        The number of elements in a chunk.
    itemsize : int
        Bytes per element of the array.

    Examples
    --------
    >>> encoded_size([{"name": "bytes"}, {"name": "crc32c"}], 10, 4)
    44
    """
    added = 0
    for codec in codecs:
        name = str(codec["name"])
        members = as_object(codec.get("configuration")) or {}
        if name in ("numcodecs.delta", "numcodecs.fixedscaleoffset", "numcodecs.astype"):
            encoded: Any = members.get("astype", members.get("encode_dtype"))
            itemsize = np.dtype(encoded).itemsize
        elif name in _ADDED_BYTES:
            added += _ADDED_BYTES[name]
        elif name not in ("transpose", "bytes", "numcodecs.quantize", "numcodecs.bitround"):
            return None
    return elements * itemsize + added


def spelled(codecs: Sequence[Codec]) -> str:
    """Return the names of codecs for a message, with the byte order."""
    parts: list[str] = []
    for codec in codecs:
        endian = (as_object(codec.get("configuration")) or {}).get("endian")
        parts.append(f"{codec['name']!r}" + (f" ({endian}-endian)" if endian else ""))
    return ", ".join(parts)
