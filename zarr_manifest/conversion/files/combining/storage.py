"""How chunks are stored: whether those of several files can be parts of one array."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zarr_manifest.conversion.files.combining.meaning import same_value
from zarr_manifest.conversion.files.trees import with_metadata
from zarr_manifest.conversion.values import brief
from zarr_manifest.conversion.virtualizarr_internals import ManifestColumns, is_virtual
from zarr_manifest.errors import NotConvertibleError

__all__ = ["absent_variable", "decoding", "storage_difference", "with_codecs_of"]

# Parameters that only encoders use: what decoders need is in the compressed bytes themselves.
# Others decide what bytes decode to, such as the size of the elements of a separate shuffle.
_ONLY_FOR_ENCODING: Mapping[str, frozenset[str]] = {
    "gzip": frozenset(["level"]),
    "zstd": frozenset(["level", "checksum"]),
    "blosc": frozenset(["typesize", "cname", "clevel", "shuffle", "blocksize"]),
    "numcodecs.zlib": frozenset(["level"]),
    "numcodecs.gzip": frozenset(["level"]),
    "numcodecs.bz2": frozenset(["level"]),
    "numcodecs.zstd": frozenset(["level", "checksum"]),
    "numcodecs.lz4": frozenset(["acceleration"]),
    "numcodecs.lzma": frozenset(["check", "preset"]),
    "numcodecs.blosc": frozenset(["typesize", "cname", "clevel", "shuffle", "blocksize"]),
    "imagecodecs_lz4h5": frozenset(["level", "blocksize"]),
}


def decoding(codecs: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the codecs of an array's metadata, without parameters that decoding ignores.

    Examples
    --------
    >>> decoding([{"name": "bytes", "configuration": {"endian": "little"}},
    ...           {"name": "numcodecs.zlib", "configuration": {"level": 4}}])
    [('bytes', {'endian': 'little'}), ('numcodecs.zlib', {})]
    """
    found: list[tuple[str, dict[str, Any]]] = []
    for codec in codecs:
        ignored = _ONLY_FOR_ENCODING.get(codec["name"], frozenset())
        stated: Mapping[str, Any] = codec.get("configuration") or {}
        found.append((codec["name"], {k: v for k, v in stated.items() if k not in ignored}))
    return found


def with_codecs_of(first: Any, other: Any) -> Any:
    """Return a ``ManifestArray`` with the codecs of the first, if they decode its bytes alike."""
    ours, theirs = (array.metadata.to_dict()["codecs"] for array in (first, other))
    if ours == theirs or decoding(ours) != decoding(theirs):
        return other
    return with_metadata(other, codecs=first.metadata.codecs)


def storage_difference(first: Any, other: Any) -> str | None:
    """Return why two ``ManifestArray``s cannot be parts of one array, or None."""
    ours, theirs = first.metadata.to_dict(), other.metadata.to_dict()
    for member, what in (("data_type", "data type"), ("codecs", "codecs")):
        if ours[member] != theirs[member]:
            return f"{what} {brief(theirs[member])}"
    if ours["chunk_grid"] != theirs["chunk_grid"]:
        return f"chunks of {brief(other.metadata.chunk_grid.chunk_shape)}"
    if not same_value(ours["fill_value"], theirs["fill_value"]):
        return f"fill value {brief(theirs['fill_value'])}"
    return None


def absent_variable(like: Any, shape: Sequence[int]) -> Any:
    """Return a variable of another shape, all values of which are missing.

    Parameters
    ----------
    like : Variable
        A virtual one makes one without chunks; a loaded one gets its fill value.
    shape : sequence of int
        The other shape.

    Raises
    ------
    NotConvertibleError
        There is no value for what is missing.
    """
    if not is_virtual(like):
        return like.copy(deep=False, data=np.full(shape, _missing_value(like), like.dtype))
    metadata = dataclasses.replace(like.data.metadata, shape=tuple(shape))
    chunks = metadata.chunk_grid.chunk_shape
    counts = tuple(-(-length // size) for length, size in zip(shape, chunks, strict=True))
    return like.copy(deep=False, data=ManifestColumns.of_grid(counts).array(metadata))


def _missing_value(variable: Any) -> Any:
    if "_FillValue" in variable.attrs:
        return variable.attrs["_FillValue"]
    if variable.dtype.kind in "fc":
        return np.nan
    if variable.dtype.kind in "mM":
        return np.array("NaT", variable.dtype)
    raise NotConvertibleError("it has no _FillValue, by which missing values are recognised")
